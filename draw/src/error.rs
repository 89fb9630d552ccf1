//! Why something is not drawn.

use std::fmt;

/// Why there is no picture.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum DrawError {
    /// More ranks than a page holds.
    #[error("room for {max} ranks, but the mesh has {ranks}; draw a smaller one")]
    Ranks { ranks: usize, max: usize },
    /// More devices than a page holds, or one of its panels.
    #[error("room for {max} devices, {max_panel} to a panel, but this takes {panels} x {devices}; draw fewer")]
    Devices {
        devices: usize,
        panels: usize,
        /// The most devices that are drawn, all panels together.
        max: usize,
        /// The most devices of a panel.
        max_panel: usize,
    },
    /// A mesh with too many axes for a page, even in classes of ranks.
    #[error("a mesh of {axes} axes does not fit a page; draw a program on one of at most 6")]
    Axes { axes: usize },
    /// More arrays and transfers than a page holds.
    #[error("room for {max} arrays and transfers, but the program has {panels}; draw fewer kernels")]
    Panels { panels: usize, max: usize },
    /// A size or a time that has no place on a logarithmic scale.
    #[error("sizes and times must be positive, found {number}")]
    NotPositive { number: f64 },
}

// `fn main() -> Result<_, _>` prints `Debug`, so `Debug` is the message.
impl fmt::Debug for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
