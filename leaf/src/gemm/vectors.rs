//! The vector instructions of float products: the same on all ranks, so that all have the same bits.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The vector instructions with which matrix products of floats are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// Those that `gemm` chooses for the processor: NEON, or none on x86.
    Native = 1,
    /// AVX2 with fused multiply-add.
    Avx2 = 2,
    /// AVX-512.
    Avx512 = 3,
}

/// Those in use, or 0 before that is decided.
static IN_USE: AtomicU8 = AtomicU8::new(0);

impl Vectors {
    /// Returns those that this process computes products with: in `spmd` those that all ranks have, outside of it those of
    /// the processor. With `POLYSHARD_AVX512=0` in the environment of a rank, no rank uses AVX-512.
    ///
    /// ```
    /// use polyshard::runtime::leaf::Vectors;
    /// use polyshard::prelude::*;
    /// let used = spmd(2, |_| Ok(Vectors::in_use()))?;
    /// assert_eq!(used[0], used[1]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// Outside of `spmd`, if `POLYSHARD_AVX512` is neither 0 nor 1; inside it is an error.
    #[must_use]
    pub fn in_use() -> Self {
        match IN_USE.load(Ordering::Relaxed) {
            0 => Self::of_environment()
                .unwrap_or_else(|value| panic!("`POLYSHARD_AVX512` is `{value}`: set it to 1 or 0"))
                .put_to_use(),
            word => Self::of(u64::from(word)),
        }
    }

    /// Has this process compute products with them; all ranks must use the same.
    #[doc(hidden)]
    pub fn put_to_use(self) -> Self {
        IN_USE.store(self as u8, Ordering::Relaxed);
        self
    }

    /// Returns those with this number.
    #[doc(hidden)]
    #[must_use]
    pub fn of(word: u64) -> Self {
        [Self::Native, Self::Avx2, Self::Avx512]
            .into_iter()
            .find(|vectors| *vectors as u64 == word)
            .unwrap_or(Self::Native)
    }

    /// Returns those of the processor that the environment variable `POLYSHARD_AVX512` allows, or its value if that is neither 0 nor 1.
    #[doc(hidden)]
    pub fn of_environment() -> Result<Self, String> {
        let asked = std::env::var_os("POLYSHARD_AVX512").map(|value| value.to_string_lossy().into_owned());
        Self::allowed(Self::of_processor(), asked)
    }

    fn allowed(self, asked: Option<String>) -> Result<Self, String> {
        match asked.as_deref().map(str::trim) {
            None | Some("" | "1") => Ok(self),
            Some("0") => Ok(self.min(Self::Avx2)),
            Some(value) => Err(value.into()),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Self {
        match pulp::x86::V3::try_new() {
            Some(_) if is_x86_feature_detected!("avx512f") => Self::Avx512,
            Some(_) => Self::Avx2,
            None => Self::Native,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_processor() -> Self {
        Self::Native
    }
}

impl fmt::Display for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn avx512_is_switched_off_by_0_and_other_values_are_refused() {
        let allowed = |vectors: Vectors, value: Option<&str>| vectors.allowed(value.map(String::from));
        for vectors in [Vectors::Native, Vectors::Avx2, Vectors::Avx512] {
            assert_eq!(
                [None, Some(""), Some(" 1")].map(|value| allowed(vectors, value)),
                [(); 3].map(|()| Ok(vectors))
            );
            assert_eq!(allowed(vectors, Some("0")), Ok(vectors.min(Vectors::Avx2)));
            assert_eq!(Vectors::of(vectors as u64), vectors);
        }
        assert_eq!(allowed(Vectors::Avx2, Some("off")), Err("off".into()));
    }
}
