//! How many leaves a rank has computed, for those who wait.

/// The leaves that runs have computed, and who is told.
#[derive(Default)]
pub(super) struct Leaves<'a> {
    computed: u64,
    tell: Option<Box<dyn Fn(u64) + 'a>>,
}

impl<'a> Leaves<'a> {
    /// Has this called after each leaf.
    pub(super) fn told(self, tell: Box<dyn Fn(u64) + 'a>) -> Self {
        Self { tell: Some(tell), ..self }
    }

    /// Another leaf is computed.
    pub(super) fn next(&mut self) {
        self.computed += 1;
        if let Some(tell) = &self.tell {
            tell(self.computed);
        }
    }
}
