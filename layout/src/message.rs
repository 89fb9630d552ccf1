//! Errors whose message and help can be read separately.

/// Splits the text of an error at the first semicolon that no name in backquotes holds.
#[doc(hidden)]
#[must_use]
pub fn split_message(text: &str) -> (&str, Option<&str>) {
    let is_outside = |at: &usize| text[..*at].matches('`').count().is_multiple_of(2);
    match text.match_indices("; ").map(|(at, _)| at).find(is_outside) {
        Some(at) => (&text[..at], Some(&text[at + 2..])),
        None => (text, None),
    }
}

/// Gives an error `message()` and `help()`, the parts of its text before and after the first semicolon. The texts of variants
/// `without help` are all message.
#[doc(hidden)]
#[macro_export]
macro_rules! message_and_help {
    ($error:ty $(, without help: $whole:pat)?) => {
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

            fn parts(&self) -> (String, Option<String>) {
                let text = self.to_string();
                $(if matches!(self, $whole) {
                    return (text, None);
                })?
                let (message, help) = $crate::split_message(&text);
                (message.to_owned(), help.map(str::to_owned))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::split_message;

    #[test]
    fn help_follows_the_first_semicolon_outside_of_names() {
        assert_eq!(split_message("no `a; b`; use `c`; or d"), ("no `a; b`", Some("use `c`; or d")));
        assert_eq!(split_message("no `a`"), ("no `a`", None));
    }
}
