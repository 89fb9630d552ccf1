//! Part of Polyshard.
