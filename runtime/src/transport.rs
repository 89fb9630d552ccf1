//! How ranks access each other's elements, as chosen by programs, redistributions and the environment.

use crate::Result;
use polyshard_comm::checking;

/// How ranks access each other's elements: those of inputs, or those that a redistribution moves.
///
/// ```
/// use polyshard::runtime::Transport;
/// polyshard::spmd(2, |world| {
///     world.set_transport(Transport::Messages);
///     assert_eq!(world.transport(), Transport::Messages);
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Through shared memory if all ranks of a group share it, the data is in it, and it is faster, else by messages: between
    /// processes, inputs of a few KiB are sent.
    #[default]
    Auto,
    /// By messages, always.
    Messages,
    /// Through shared memory; an error if that is impossible.
    Shared,
}

impl Transport {
    /// The transport that the environment variable `POLYSHARD_TRANSPORT` names.
    ///
    /// # Errors
    /// [`LaunchError::Variable`](crate::LaunchError::Variable) if its value is not a transport's name.
    pub(crate) fn of_environment() -> Result<Self> {
        Self::named(checking::variable("POLYSHARD_TRANSPORT"))
    }

    /// The transport of this name, or the default without a name.
    fn named(name: Option<String>) -> Result<Self> {
        let choices = [("auto", Self::Auto), ("messages", Self::Messages), ("shared", Self::Shared)];
        Ok(checking::chosen("POLYSHARD_TRANSPORT", name, Self::Auto, &choices)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_that_there_is_none_of_is_refused_with_those_that_there_are() {
        let named = |name: &str| Transport::named(Some(name.into()));
        assert_eq!(
            [named(" auto"), named("messages"), named("shared")].map(Result::ok),
            [Some(Transport::Auto), Some(Transport::Messages), Some(Transport::Shared)]
        );
        assert_eq!(Transport::named(None), Ok(Transport::Auto));
        let said = named("mesages").expect_err("it is misspelt").to_string();
        assert_eq!(said, "`POLYSHARD_TRANSPORT` is `mesages`: set it to auto, messages or shared");
    }
}
