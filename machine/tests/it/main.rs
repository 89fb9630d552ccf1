//! Machines: shared memory, and the links and profiles fitted to measurements.

mod measured;
mod shared_memory;
