//! The algorithms as schedules, for any grid and any extents.

use clap::ValueEnum;
use polyshard::prelude::*;
use std::fmt;
use std::str::FromStr;

/// A distributed matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Algorithm {
    /// Panels of both operands broadcast.
    Summa,
    /// Panels of one operand broadcast, the other shifted.
    Pumma,
    /// Both operands shifted, from skewed homes on square grids and from plain ones on others.
    Cannon,
    /// The transposed product on all ranks in one row, panels of one operand broadcast.
    AgGemm,
    /// All three loops distributed, operands on faces of the cube, sums reduced onto a third face.
    Johnson,
    /// The terms of the sums distributed, panels of the result reduce-scattered.
    GemmRs,
    /// The same, with sums sent around a ring.
    GemmRsRing,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Summa => "summa",
            Self::Pumma => "pumma",
            Self::Cannon => "cannon",
            Self::AgGemm => "ag_gemm",
            Self::Johnson => "johnson",
            Self::GemmRs => "gemm_rs",
            Self::GemmRsRing => "gemm_rs_ring",
        })
    }
}

/// The extents of a mesh's axes.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The extents of its axes.
    pub extents: Vec<usize>,
}

impl Grid {
    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.extents.iter().product()
    }

    /// The extents of a mesh with `N` axes.
    fn axes<const N: usize>(&self) -> [usize; N] {
        self.extents.as_slice().try_into().unwrap_or_else(|_| panic!("this algorithm runs on {N} axes, not on {self}"))
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<_> = self.extents.iter().map(usize::to_string).collect();
        f.write_str(&extents.join("x"))
    }
}

impl FromStr for Grid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extents: Option<Vec<usize>> = text.split('x').map(|extent| extent.parse().ok()).collect();
        extents.map(|extents| Self { extents }).ok_or_else(|| format!("`{text}` is no grid; write it as 2x2"))
    }
}

/// The extents of a product.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Rows of the result.
    pub m: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Columns of the result.
    pub n: usize,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, k, n } = self;
        if m == k && k == n { write!(f, "{n}") } else { write!(f, "{m}x{k}x{n}") }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extents: Option<Vec<usize>> = text.split(',').map(|extent| extent.parse().ok()).collect();
        match extents.as_deref() {
            Some(&[n]) => Ok(Self { m: n, k: n, n }),
            Some(&[m, k, n]) => Ok(Self { m, k, n }),
            _ => Err(format!("`{text}` are no extents; write them as m,k,n or as one number")),
        }
    }
}

/// Returns the schedule of `algorithm` for elements of type `T`.
pub fn schedule<T: polyshard::runtime::Element>(algorithm: Algorithm, grid: &Grid, sizes: Sizes) -> Schedule {
    match algorithm {
        Algorithm::AgGemm => in_a_row::<T>(grid.size(), sizes),
        Algorithm::Johnson => on_a_cube::<T>(grid.axes(), sizes),
        Algorithm::GemmRsRing => on_a_ring::<T>(grid.size(), sizes),
        Algorithm::GemmRs => in_fewest_panels::<T>(algorithm, grid, sizes, grid.size()),
        Algorithm::Summa | Algorithm::Pumma | Algorithm::Cannon => in_fewest_panels::<T>(algorithm, grid, sizes, 1),
    }
}

fn in_fewest_panels<T: polyshard::runtime::Element>(
    algorithm: Algorithm,
    grid: &Grid,
    sizes: Sizes,
    panels: usize,
) -> Schedule {
    let (product, _, leaf) = in_panels::<T>(algorithm, grid, sizes, panels);
    product.placed.tensorize(leaf)
}

/// C = A·B.
pub fn product<T: polyshard::runtime::Element>(Sizes { m: rows, k: terms, n: columns }: Sizes) -> Schedule {
    kernel! {
        fn product(A: [T; rows, terms], B: [T; terms, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    }
}

fn in_a_row<T: polyshard::runtime::Element>(ranks: usize, sizes: Sizes) -> Schedule {
    let Sizes { m: rows, k: terms, n: columns } = sizes;
    let product = kernel! {
        fn product(A: [T; terms, rows], B: [T; terms, columns]) -> C: [T; rows, columns] {
            C[m, n] += A[k, m] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni);
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    product
        .distribute([m], [mo], [mi], &mesh)
        .divide(n, no, ni, ranks)
        .reorder([mo, no, mi, ni, k])
        .shard("A", [m.at(x)])
        .shard("B", [n.at(x)])
        .shard("C", [m.at(x)])
        .communicate("B", no)
        .tensorize([mi, ni, k])
}

/// A product in consecutive panels, without its leaf: from the algorithm's homes, and from homes that need no messages.
pub struct InPanels {
    /// From the algorithm's homes.
    pub placed: Schedule,
    /// With all data that a rank reads on that rank.
    pub local: Schedule,
}

/// Returns a product in `panels` panels or a few more, with the loop over them and the loops of the leaf. Cannon's
/// algorithm has one panel per rank of its ring.
///
/// # Panics
/// If the algorithm does not run in panels that are communicated.
pub fn in_panels<T: polyshard::runtime::Element>(
    algorithm: Algorithm,
    grid: &Grid,
    sizes: Sizes,
    panels: usize,
) -> (InPanels, Var, Vec<Var>) {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    if algorithm == Algorithm::AgGemm {
        let mesh = Mesh::new([("x", grid.size())]);
        let [x] = mesh.axes();
        let divided = product::<T>(sizes)
            .distribute([m], [mo], [mi], &mesh)
            .divide(n, no, ni, panels.next_multiple_of(grid.size()))
            .reorder([mo, no, mi, ni, k]);
        let local = divided.clone().shard("A", [m.at(x)]).shard("C", [m.at(x)]);
        let placed = local.clone().shard("B", [n.at(x)]).communicate("B", no);
        return (InPanels { placed, local }, no, vec![mi, ni, k]);
    }
    if algorithm == Algorithm::GemmRs {
        let mesh = Mesh::new([("x", grid.size())]);
        let [x] = mesh.axes();
        let divided = product::<T>(sizes)
            .distribute([k], [ko], [ki], &mesh)
            .divide(n, no, ni, panels)
            .reorder([ko, no, m, ni, ki])
            .shard("A", [k.at(x)])
            .shard("B", [k.at(x)]);
        let local = divided.clone().shard("C", [partial(x)]);
        let placed = divided.shard("C", [m.at(x)]).communicate("C", no);
        return (InPanels { placed, local }, no, vec![m, ni, ki]);
    }
    let [p, q] = grid.axes();
    let mesh = Mesh::new([("x", p), ("y", q)]);
    let [x, y] = mesh.axes();
    // Then a panel of either operand has one owner along its axis, also on grids that are not square.
    let ring = (p..=p * q).step_by(p).find(|ring| ring.is_multiple_of(q)).unwrap_or(p * q);
    let panels = if algorithm == Algorithm::Cannon { ring } else { panels.next_multiple_of(ring) };
    let divided = product::<T>(sizes)
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, panels)
        .reorder([mo, no, ko, mi, ni, ki]);
    let rotated = match algorithm {
        Algorithm::Cannon => divided.rotate(ko, [mo, no]),
        Algorithm::Pumma => divided.rotate(ko, [no]),
        Algorithm::Summa => divided,
        _ => panic!("{algorithm} does not run in panels that are communicated"),
    };
    let home = |axis: polyshard::layout::AxisExpr| match algorithm == Algorithm::Cannon && p == q {
        true => (x + y) % p as i64,
        false => axis,
    };
    let local = rotated.clone().shard("A", [m.at(x)]).shard("B", [n.at(y)]).shard("C", [m.at(x), n.at(y)]);
    let placed = rotated
        .shard("A", [m.at(x), k.at(home(y.into()))])
        .shard("B", [k.at(home(x.into())), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko);
    (InPanels { placed, local }, ko, vec![mi, ni, ki])
}

fn on_a_cube<T: polyshard::runtime::Element>([p, q, r]: [usize; 3], sizes: Sizes) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let mesh = Mesh::new([("x", p), ("y", q), ("z", r)]);
    let [x, y, z] = mesh.axes();
    product::<T>(sizes)
        .distribute([m, n, k], [mo, no, ko], [mi, ni, ki], &mesh)
        .shard("A", [m.at(x), k.at(z), pin(y, 0)])
        .shard("B", [k.at(z), n.at(y), pin(x, 0)])
        .shard("C", [m.at(x), n.at(y), pin(z, 0)])
        .tensorize([mi, ni, ki])
}

/// The terms of the sums distributed; panels of rows of the result, one per rank, whose sums are sent around a ring.
fn on_a_ring<T: polyshard::runtime::Element>(ranks: usize, sizes: Sizes) -> Schedule {
    vars!(m, n, k, mo, mi, ko, ki);
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    product::<T>(sizes)
        .distribute([k], [ko], [ki], &mesh)
        .divide(m, mo, mi, ranks)
        .reorder([mo, mi, n, ki])
        .shard("A", [k.at(x)])
        .shard("B", [k.at(x)])
        .shard("C", [m.at(x)])
        .rotate(mo, [ko])
        .communicate("C", mo)
        .tensorize([mi, n, ki])
}
