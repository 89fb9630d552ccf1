//! Errors whose message and help can be read separately.

/// Gives an error `message()` and `help()` from a private `parts()` that returns them, and prints both. `methods of` omits
/// the printing.
#[doc(hidden)]
#[macro_export]
macro_rules! message_and_help {
    (methods of $error:ty) => {
        impl $error {
            /// Returns what is wrong.
            #[must_use]
            pub fn message(&self) -> String {
                self.parts().0
            }

            /// Returns the valid names, or how to fix it.
            #[must_use]
            pub fn help(&self) -> Option<String> {
                self.parts().1
            }
        }
    };
    ($error:ty) => {
        $crate::message_and_help!(methods of $error);

        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let (message, help) = self.parts();
                f.write_str(&message)?;
                help.map_or(Ok(()), |help| write!(f, "; {help}"))
            }
        }

        impl std::error::Error for $error {}
    };
}
