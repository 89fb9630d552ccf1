//! Statements over tiles: the computation of a named leaf, as the program needs it and as the user has registered it.

use crate::affine::Affine;
use crate::kernel::{Assign, Kernel};
use crate::number::Number;
use crate::value::{Access, Value};
use polyshard_layout::{Name, each_once};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A statement over tiles, `C[m, n] += alpha * A[m, k] * B[k, n]`: a tile has a dimension per index, a scalar has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TileStatement {
    /// The output's tile.
    pub target: Access,
    /// How the value is combined into the tile.
    pub assign: Assign,
    /// The value that is combined, of operands: tiles, each with its own name, and scalars.
    pub value: Value,
}

impl TileStatement {
    /// Returns the statement of a kernel each of whose tensors is one tile; extents and values of scalars do not count.
    ///
    /// ```
    /// # use polyshard::program::TileStatement;
    /// let kernel = polyshard::text::parse_kernel("fn copy(x: [f64; 8]) -> y: [f64; 8] { y[i] += x[i] }")?.check()?;
    /// assert_eq!(TileStatement::of_kernel(&kernel)?.to_string(), "y[i] += x[i]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Why the kernel is not a statement over tiles.
    pub fn of_kernel(kernel: &Kernel) -> Result<Self, String> {
        if kernel.assign() == Assign::Set {
            let why = "a leaf combines into what the output's tile holds: write `+=`, `*=`, `max=` or `min=`";
            return Err(why.into());
        }
        if let Some(index) = kernel.value().indices().first() {
            let why = format!(
                "a leaf does not know the position of its tile in the array, but `{index}` is used as a number"
            );
            return Err(why);
        }
        let mut tiles: Vec<&Access> = Vec::new();
        for access in [kernel.target()].into_iter().chain(kernel.value().accesses()) {
            if access.outside.is_some() {
                return Err(format!(
                    "a tile holds only elements of tensors, but `{access}` may be outside of its tensor"
                ));
            }
            for (dim, index) in access.index.iter().enumerate() {
                if index.as_variable().is_none() {
                    return Err(format!(
                        "a tile has a dimension per index, but `{index}` in `{access}` is not an index alone"
                    ));
                }
                if access.index[..dim].contains(index) {
                    return Err(format!("`{index}` indexes `{}` twice; list each index once", access.tensor));
                }
            }
            if let Some(tile) = tiles.iter().find(|tile| tile.tensor == access.tensor && *tile != &access) {
                let name = access.tensor;
                return Err(format!(
                    "`{name}` is the tile `{tile}`, but is read as `{access}` too; give each tile a name"
                ));
            }
            tiles.push(access);
        }
        let idle = kernel.vars().iter().find(|var| !tiles.iter().any(|tile| dims(tile).any(|index| index == var.name)));
        if let Some(idle) = idle {
            return Err(format!("`{}` indexes no tensor, so no tile has a dimension for it", idle.name));
        }
        let (target, value) = (kernel.target().clone(), kernel.value().clone());
        Ok(Self { target, assign: kernel.assign(), value })
    }

    /// Returns the output's tile, then the operands as the value names them first; a scalar is a tile without dimensions.
    #[must_use]
    pub fn tiles(&self) -> Vec<Access> {
        self.numbered().0
    }

    /// Returns, for each index of this statement, the one of `other` that it stands for, if both compute the same.
    ///
    /// Names do not count, nor does the order of a tile's dimensions; the order of factors and terms does.
    #[must_use]
    pub fn renamed(&self, other: &Self) -> Option<Vec<(Name, Name)>> {
        let ((tiles, value), (other_tiles, other_value)) = (self.numbered(), other.numbered());
        if self.assign != other.assign || value != other_value {
            return None;
        }
        let mut free = indices(&other_tiles);
        let mut renamed = Vec::new();
        for index in indices(&tiles) {
            let place =
                free.iter().position(|&candidate| holders(&other_tiles, candidate) == holders(&tiles, index))?;
            renamed.push((index, free.remove(place)));
        }
        free.is_empty().then_some(renamed)
    }

    /// The tiles, and the value with the number of a tile for each operand.
    fn numbered(&self) -> (Vec<Access>, Value) {
        let (mut tiles, mut value) = (vec![self.target.clone()], self.value.clone());
        value.rewrite(&mut |part| {
            let tile = match part {
                Value::Access(tile) => tile.clone(),
                Value::Scalar(name) => Access::plain(*name, &[]),
                // `2.0` is the number `2`.
                Value::Literal(Number::Float(float)) if (*float as i64) as f64 == *float => {
                    *part = Value::Literal(Number::Int(*float as i64));
                    return;
                }
                _ => return,
            };
            let number = tiles.iter().position(|known| *known == tile).unwrap_or(tiles.len());
            if number == tiles.len() {
                tiles.push(tile);
            }
            *part = Value::Scalar(number.to_string().into());
        });
        (tiles, value)
    }
}

fn dims(tile: &Access) -> impl Iterator<Item = Name> {
    tile.index.iter().filter_map(Affine::as_variable)
}

/// All indices, each once.
fn indices(tiles: &[Access]) -> Vec<Name> {
    each_once(tiles.iter().flat_map(dims))
}

/// Which tiles have the index.
fn holders(tiles: &[Access], index: Name) -> Vec<bool> {
    tiles.iter().map(|tile| dims(tile).any(|other| other == index)).collect()
}

impl fmt::Display for TileStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.target, self.assign, self.value)
    }
}
