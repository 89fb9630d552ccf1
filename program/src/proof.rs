//! Proofs of a program: each line is written by the pass that proved it.

use polyshard_layout::{Name, joined};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// A property that holds of every program that is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Property {
    /// Every statement instance runs exactly once.
    EveryInstanceOnce,
    /// Everything that is read was written before, tiles in flight are neither read nor overwritten, and every transfer that begins is
    /// awaited.
    Flow,
    /// At each leaf, all elements that it reads are on that rank, and up to date.
    Residency,
    /// Each contribution to the output reaches each rank that owns the element once.
    Delivery,
    /// Ranks that communicate together make the same calls, and each message that is sent is received.
    Matching,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EveryInstanceOnce => "every instance once",
            Self::Flow => "flow",
            Self::Residency => "residency",
            Self::Delivery => "delivery",
            Self::Matching => "matching",
        })
    }
}

/// One property that was proved of a program.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// use polyshard::program::Property;
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// let is_proved = |property| program.report().proofs.iter().any(|proof| proof.property == property);
/// assert!(is_proved(Property::EveryInstanceOnce) && is_proved(Property::Residency) && is_proved(Property::Matching));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proof {
    /// The property that it is part of.
    pub property: Property,
    /// The tensor that it is about; none if it is about the whole program.
    pub tensor: Option<Name>,
    /// What holds, as a sentence.
    pub claim: String,
    /// Whether it depends on the route by which the tensor moves.
    pub of_route: bool,
}

/// Proofs and bounds, per rank.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let report = rows.lower()?.report().clone();
/// assert_eq!(report.traffic_bytes, 3 * 8 * 8); // the rows of B that a rank lacks
/// assert_eq!(report.shard_bytes, (2 * 6 + 3 * 8 + 2 * 8) * 8);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The proofs, each by the pass that made it.
    pub proofs: Vec<Proof>,
    /// Maximum bytes that one rank owns, of all tensors.
    pub shard_bytes: u64,
    /// Maximum bytes of tile buffers and staging on one rank. Not included are the copies that products of matrices make of their
    /// operands, which are [stated separately](crate::Program::packed_bytes), a few rows that loops compute as intermediate values, and
    /// the memory of a leaf that the user registers, which is not known.
    pub tile_bytes: u64,
    /// Maximum bytes that one rank receives: counted if ranks times steps are in the thousands or fewer, else a bound.
    pub traffic_bytes: u64,
}

/// The claim that an exchange meets by its definition, once tiles are known to stay inside the tensor.
pub const SENT: &str = "each element of a tile goes to all of its owners";

/// The proofs as lines, one per property and tensor: `residency of A: ..; ..`.
pub(crate) fn lines(proofs: &[Proof]) -> Vec<String> {
    let mut groups: Vec<(Property, Option<Name>, Vec<&str>)> = Vec::new();
    let mut numbers = HashMap::new();
    for Proof { property, tensor, claim, .. } in proofs {
        let number = *numbers.entry((property, tensor)).or_insert(groups.len());
        if number == groups.len() {
            groups.push((*property, *tensor, Vec::new()));
        }
        groups[number].2.push(claim);
    }
    groups.sort_by_key(|group| group.0);
    let line = |(property, tensor, claims): (Property, Option<Name>, Vec<&str>)| {
        let about = tensor.map(|tensor| format!(" of {tensor}")).unwrap_or_default();
        format!("{property}{about}: {}", joined(claims, "; "))
    };
    groups.into_iter().map(line).collect()
}
