//! The number of leaves that a rank has computed, for progress reports.

/// The number of leaves that runs have computed, and the callback.
#[derive(Default)]
pub(super) struct Leaves<'a> {
    computed: u64,
    tell: Option<Box<dyn Fn(u64) + 'a>>,
}

impl<'a> Leaves<'a> {
    /// Calls `tell` after each leaf.
    pub(super) fn told(self, tell: Box<dyn Fn(u64) + 'a>) -> Self {
        Self { tell: Some(tell), ..self }
    }

    /// Counts another leaf.
    pub(super) fn next(&mut self) {
        self.computed += 1;
        if let Some(tell) = &self.tell {
            tell(self.computed);
        }
    }
}
