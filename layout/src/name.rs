//! Names that are cheap to copy and compare.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The name of an axis, a loop, an index variable or a tensor.
///
/// Equal texts are one `&'static str`, so a name is `Copy`, and `m.at(x)` can be written repeatedly. Each distinct
/// text is kept for the life of the process.
///
/// ```
/// use polyshard::layout::Name;
/// let name = Name::new("A");
/// assert_eq!(name, Name::from("A"));
/// assert_eq!(name.as_str(), "A");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(&'static str);

impl Name {
    /// Returns the name with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        static NAMES: OnceLock<Mutex<HashSet<&'static str>>> = OnceLock::new();
        let mut names = NAMES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(text) {
            return Self(name);
        }
        let name: &'static str = Box::leak(text.into());
        names.insert(name);
        Self(name)
    }

    /// Returns whether the text can be written as a name in a program: letters, digits and `_`, not a digit first.
    ///
    /// ```
    /// use polyshard::layout::Name;
    /// assert!(Name::new("x_2").is_identifier());
    /// assert!(["", "2x", "a b", "_"].iter().all(|text| !Name::new(text).is_identifier()));
    /// ```
    #[must_use]
    pub fn is_identifier(self) -> bool {
        let start = |c: char| c.is_alphabetic() || c == '_';
        self.0 != "_" && self.0.starts_with(start) && self.0.chars().all(Self::is_part)
    }

    /// Returns whether the character can be in a name: a letter, a digit or `_`.
    #[must_use]
    pub fn is_part(character: char) -> bool {
        character.is_alphanumeric() || character == '_'
    }

    /// Returns the name of the array of which this is a version, or the name itself: a version has primes, or a prime and
    /// a number.
    ///
    /// ```
    /// use polyshard::layout::Name;
    /// assert_eq!(["A", "A''", "A'12", "A2"].map(|name| Name::new(name).array().as_str()), ["A", "A", "A", "A2"]);
    /// ```
    #[must_use]
    pub fn array(self) -> Self {
        match self.0.trim_end_matches(|character: char| character.is_ascii_digit()) {
            text if text.ends_with('\'') => Self::new(text.trim_end_matches('\'')),
            _ => self,
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&&str> for Name {
    fn from(text: &&str) -> Self {
        Self::new(text)
    }
}

impl From<&String> for Name {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(String::deserialize(deserializer)?))
    }
}
