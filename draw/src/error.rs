//! Errors of pictures.

use std::fmt;

/// Why a picture cannot be drawn.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum DrawError {
    /// More ranks than a page holds.
    #[error("room for at most {max} ranks, but the mesh has {ranks}; draw a smaller mesh")]
    Ranks { ranks: usize, max: usize },
    /// More devices than a page holds, or one of its panels.
    #[error("room for at most {max} devices, {max_panel} in a panel, but this is {panels} x {devices}; draw fewer")]
    Devices {
        devices: usize,
        panels: usize,
        /// Maximum number of devices in all panels together.
        max: usize,
        /// Maximum number of devices in a panel.
        max_panel: usize,
    },
    /// A mesh with too many axes for a page, even in classes of ranks.
    #[error("a mesh of {axes} axes does not fit on a page; draw a program on a mesh of at most 6 axes")]
    Axes { axes: usize },
    /// More arrays and transfers than a page holds.
    #[error("room for at most {max} arrays and transfers, but the program has {panels}; draw fewer kernels")]
    Panels { panels: usize, max: usize },
    /// A size or a time that a logarithmic scale cannot show.
    #[error("sizes and times must be positive, found {number}")]
    NotPositive { number: f64 },
}

// `fn main() -> Result<_, _>` prints `Debug`, so `Debug` is the message.
impl fmt::Debug for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
