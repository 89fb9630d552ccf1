//! How ranks get at each other's elements, which programs, redistributions and the environment say.

use crate::{LaunchError, Result};

/// How ranks get at each other's elements: those of inputs, or what a redistribution hands out.
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
    /// Through shared memory where all ranks of a group share it, the outputs are in it, and it is faster, else by messages: inputs
    /// of a few KiB go by messages between processes.
    #[default]
    Auto,
    /// By messages, always.
    Messages,
    /// Through shared memory; an error where that is impossible.
    Shared,
}

impl Transport {
    /// The one that the environment asks for, `POLYSHARD_TRANSPORT`.
    ///
    /// # Errors
    /// [`LaunchError::Transport`] if that is not the name of one.
    pub(crate) fn of_environment() -> Result<Self> {
        Self::named(std::env::var_os("POLYSHARD_TRANSPORT").map(|value| value.to_string_lossy().into_owned()))
    }

    /// The one of this name, if there is a name.
    fn named(name: Option<String>) -> Result<Self> {
        match name.as_deref().map(str::trim) {
            None | Some("" | "auto") => Ok(Self::Auto),
            Some("messages") => Ok(Self::Messages),
            Some("shared") => Ok(Self::Shared),
            Some(value) => Err(LaunchError::Transport { value: value.into() }.into()),
        }
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
