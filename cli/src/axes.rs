//! Meshes on a command line: `x=4,y=6`, or `4x6` where the axes need no names.

use crate::error::{CliError, Result};
use polyshard::layout::{Mesh, MeshError};

/// Limit on ranks: MPI numbers them by a C int, and no machine has more threads than that.
const RANKS: usize = i32::MAX as usize;

/// Reads `x=4,y=6` or `4x6`; `name` gives the names of axes by position if the text has none.
pub(crate) fn mesh(text: &str, name: impl Fn(usize) -> String) -> Result<Mesh> {
    let refused = || CliError::refused(format!("the mesh `{text}` has more than {RANKS} ranks"), "give a smaller one");
    match Mesh::parse_with(text, name) {
        Ok(mesh) if mesh.size() <= RANKS => Ok(mesh),
        Ok(_) | Err(MeshError::TooLarge { .. }) => Err(refused()),
        // These errors quote the text already.
        Err(why @ (MeshError::Unreadable { .. } | MeshError::Uncountable { .. })) => Err(why.into()),
        Err(why) => Err(CliError::invalid(format!("the mesh `{text}`"), why)),
    }
}

/// Returns whether the axes in a text have names; then all of them have.
pub(crate) fn are_named(text: &str) -> bool {
    text.contains('=')
}
