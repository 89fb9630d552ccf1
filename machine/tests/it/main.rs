//! Machines: what is measured of them, and the profiles that are fitted to it.

mod measured;
mod shared_memory;
