//! The steps that make and move loops, as methods, each documented by its rewrite rule.

use super::{Schedule, Subject, names};
use polyshard_dsl::Step;
use polyshard_layout::{Mesh, Name};

impl<S: Subject> Schedule<S> {
    /// Replaces loop `i` by `outer` and `inner`, where `inner` runs over at most `size` iterations.
    ///
    /// ```text
    /// for i in 0..n { S(i) }
    ///   =>
    /// for outer in 0..ceil(n / size) {
    ///     for inner in 0..min(size, n - outer*size) { S(outer*size + inner) }
    /// }
    /// ```
    ///
    /// Halide and TACO call this `split`, Exo `divide_loop`. To fix the number of pieces instead of their
    /// size, use [`divide`](Self::divide).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 5, 7], B: [f32; 7, 4]) -> C: [f32; 5, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// same_as_sequential(&product.split("m", "mo", "mi", 2).lower()?)?; // tiles of 2, 2 and 1
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownLoop` if there is no loop `i`;
    /// `Distributed`, `Tensorized` or `Communicated` if `i` can no longer be replaced; `NameTaken` or `BadName` for a
    /// new loop; `BadCount` if `size` is 0; `OutOfReach` if indices might overflow.
    #[track_caller]
    pub fn split(self, i: impl Into<Name>, outer: impl Into<Name>, inner: impl Into<Name>, size: usize) -> Self {
        self.apply(Step::Split { i: i.into(), outer: outer.into(), inner: inner.into(), size })
    }

    /// Replaces loop `i` by `outer` and `inner`, where `outer` has `parts` iterations.
    ///
    /// ```text
    /// for i in 0..n { S(i) }
    ///   =>                              b = ceil(n / parts)
    /// for outer in 0..parts {
    ///     for inner in 0..min(b, n - outer*b) { S(outer*b + inner) }
    /// }
    /// ```
    ///
    /// The last tiles may be short or empty: 5 iterations in 4 parts are 2, 2, 1 and 0. TACO and DISTAL
    /// call this `divide`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 5, 7], B: [f32; 7, 4]) -> C: [f32; 5, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// same_as_sequential(&product.divide("m", "mo", "mi", 4).lower()?)?; // 2, 2, 1 and 0
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`split`](Self::split); `BadCount` if `parts` is 0.
    #[track_caller]
    pub fn divide(self, i: impl Into<Name>, outer: impl Into<Name>, inner: impl Into<Name>, parts: usize) -> Self {
        self.apply(Step::Divide { i: i.into(), outer: outer.into(), inner: inner.into(), parts })
    }

    /// Reorders the listed loops among the places that they hold.
    ///
    /// ```text
    /// for i { for j { for k { S } } }
    ///   =>  reorder([k, i])
    /// for k { for j { for i { S } } }
    /// ```
    ///
    /// A distributed loop may be listed at its own position only: it cannot be moved.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 5, 7], B: [f32; 7, 4]) -> C: [f32; 5, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// same_as_sequential(&product.reorder(["k", "m"]).lower()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownLoop` or `ListedTwice` for the
    /// list, and `Distributed` if a loop that is bound to a mesh axis would move.
    #[track_caller]
    pub fn reorder<N: Into<Name>>(self, order: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Reorder { order: names(order) })
    }

    /// Replaces loop `i` and loop `j` directly inside it by one.
    ///
    /// ```text
    /// for i in 0..m { for j in 0..n { S(i, j) } }
    ///   =>
    /// for fused in 0..m*n { S(fused / n, fused % n) }
    /// ```
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 5, 7], B: [f32; 7, 4]) -> C: [f32; 5, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// same_as_sequential(&product.fuse("m", "n", "f").lower()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`split`](Self::split) for both loops; `NotAdjacent` if `j` is not directly inside `i`, and `TooLarge` if
    /// the iterations of both cannot be counted.
    #[track_caller]
    pub fn fuse(self, i: impl Into<Name>, j: impl Into<Name>, fused: impl Into<Name>) -> Self {
        self.apply(Step::Fuse { i: i.into(), j: j.into(), fused: fused.into() })
    }

    /// Divides each loop by its mesh axis and binds the outer loops, outermost and in mesh order, to the axes.
    ///
    /// ```text
    /// for i in 0..m { for j in 0..n { S(i, j) } }
    ///   =>  distribute([i, j], [io, jo], [ii, ji], mesh(x, y)), on the rank at (x, y)
    /// for ii in 0..ceil(m / x) { for ji in 0..ceil(n / y) { S(x*ceil(m / x) + ii, y*ceil(n / y) + ji) } }
    /// ```
    ///
    /// A loop that writes a dimension of the output is divided like that dimension, not like its own range: ranks compute the
    /// elements that they own. So the interior of a stencil is computed in place, for any extent and number of ranks. The
    /// dimension is the first one in the output's access whose index is the loop's variable, optionally plus a constant.
    ///
    /// ```text
    /// for i in 1..n - 1 { S(i) }, where S(i) writes B[i], which has n elements
    ///   =>  distribute([i], [io], [ii], mesh(x)), on the rank at x      b = ceil(n / x)
    /// for ii in max(0, 1 - x*b)..min(b, n - 1 - x*b) { S(x*b + ii) }
    /// ```
    ///
    /// Other loops are divided like their ranges: contracted ones, those that other steps have made, and index variables whose
    /// range [`divide`](Self::divide) or [`split`](Self::split) has divided before.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # use polyshard::text::parse_kernel;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mesh, i) = (Mesh::new([("x", 4)]), Var::new("i"));
    /// let [x] = mesh.axes();
    /// let text = "fn f(A: [f32; 30, 5]) -> B: [f32; 30, 5] { B[i, j] = A[i - 1, j] + A[i + 1, j] for i in 1..29 }";
    /// let stencil = Schedule::from_spec(parse_kernel(text)?);
    /// let owners = stencil.clone().distribute(["i"], ["io"], ["ii"], &mesh);
    /// let range = stencil.divide("i", "ib", "ii", 4).distribute(["ib"], ["io"], ["il"], &mesh);
    /// let sharded = |schedule: Schedule| schedule.shard("A", [i.at(x.clone())]).shard("B", [i.at(x.clone())]);
    /// same_as_sequential(&sharded(owners).expect("B", Pattern::Local).lower()?)?; // rows 1..8, 8..16, 16..24, 24..29
    /// same_as_sequential(&sharded(range).expect("B", Pattern::Exchange).lower()?)?; // rows 1..8, 8..15, 15..22, 22..29
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A contracted loop is divided like any other. Each rank then has a term of every sum, and the terms are added where the
    /// output's sharding says:
    ///
    /// ```text
    /// for k in 0..n { C += S(k) }
    ///   =>  distribute([k], [ko], [ki], mesh(z)), on the rank at z
    /// C_tile = 0; for ki in 0..ceil(n / z) { C_tile += S(z*ceil(n / z) + ki) }
    /// C = sum of C_tile over z
    /// ```
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, [m, k]) = (Mesh::new([("z", 3)]), ["m", "k"].map(Var::new));
    /// let [z] = mesh.axes();
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 5, 7], B: [f32; 7, 4]) -> C: [f32; 5, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let product = matmul
    ///     .distribute(["k"], ["ko"], ["ki"], &mesh)
    ///     .shard("A", [k.at(z)])
    ///     .shard("B", [k.at(z)]);
    /// let to_one = product.clone().shard("C", [pin(z, 0)]).expect("C", Pattern::reduce([z]));
    /// let to_all = product.clone().shard("C", []).expect("C", Pattern::all_reduce([z]));
    /// let by_rows = product.shard("C", [m.at(z)]).expect("C", Pattern::reduce_scatter([z]));
    /// for schedule in [to_one, to_all, by_rows] {
    ///     same_as_sequential(&schedule.lower()?)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The step can be used again, over an inner mesh with its own axes. Named after DISTAL's `distribute`.
    ///
    /// Each rank gets one block of iterations. Two splits before it make it block-cyclic, ScaLAPACK's distribution: below, rank
    /// `x` has the blocks `x`, `x + 4`, .. of 16 rows. A transfer outside of the loop over rounds, `mt`, moves all blocks of a
    /// rank at once, without the gaps between them.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 200, 40], B: [f32; 40, 30]) -> C: [f32; 200, 30] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let rows = matmul
    ///     .split("m", "mb", "mi", 16) // blocks of 16 rows
    ///     .split("mb", "mt", "mp", 4) // rounds of a block for each rank
    ///     .distribute(["mp"], ["mo"], ["ml"], &Mesh::new([("x", 4)]))
    ///     .lower()?;
    /// let tile = "tile [56, 40] of A[16*x..200 by blocks of 16 every 64, 0..40]";
    /// assert!(rows.explain().contains(tile), "{}", rows.explain());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`split`](Self::split) for each loop; `DistributeCounts` if the lists are not as long as the mesh has axes,
    /// `ListedTwice` if a loop is listed twice, `AxisDistributed` if an axis has a loop already, and `TooManyRanks`
    /// beyond 2^31 - 1 ranks.
    #[track_caller]
    pub fn distribute<A: Into<Name>, B: Into<Name>, C: Into<Name>>(
        self,
        loops: impl IntoIterator<Item = A>,
        outer: impl IntoIterator<Item = B>,
        inner: impl IntoIterator<Item = C>,
        mesh: &Mesh,
    ) -> Self {
        let (loops, outer, inner) = (names(loops), names(outer), names(inner));
        self.apply(Step::Distribute { loops, outer, inner, mesh: mesh.clone() })
    }

    /// Adds axes to the mesh along which all ranks redundantly run all iterations: it pays if other axes make the work so small
    /// that sending results would take longer.
    ///
    /// ```text
    /// for i { S(i) }
    ///   =>  replicate(y: 2)
    /// y = 0: for i { S(i) }      y = 1: for i { S(i) }
    /// ```
    ///
    /// Inputs may be sharded in any way along these axes. Each rank keeps its own copy of the output, which is therefore sharded
    /// and summed along other axes only.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let [m, k] = ["m", "k"].map(Var::new);
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 7, 5], B: [f32; 5, 4]) -> C: [f32; 7, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let rows = matmul
    ///     .distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)]))
    ///     .replicate(&Mesh::new([("y", 3)]))
    ///     .shard("A", [m.at("x")])
    ///     .shard("B", [k.at("y")])
    ///     .shard("C", [m.at("x")])
    ///     .expect("B", Pattern::all_gather(["y"]))
    ///     .expect("C", Pattern::Local);
    /// same_as_sequential(&rows.lower()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `AxisDistributed` if the mesh has an axis of this name,
    /// `NameTaken` if a loop has it, `TooManyRanks` beyond 2^31 - 1 ranks, and `CopiesApart` if the output is sharded along one of
    /// the axes.
    #[track_caller]
    pub fn replicate(self, mesh: &Mesh) -> Self {
        self.apply(Step::Replicate { mesh: mesh.clone() })
    }

    /// Makes loop `t` start at another iteration on each rank: it visits `(t + sum of by) % extent`.
    ///
    /// ```text
    /// for p { for t in 0..n { S(p, t) } }
    ///   =>  rotate(t, [p])
    /// for p { for t in 0..n { S(p, (t + p) % n) } }
    /// ```
    ///
    /// A permutation of the loop's iterations, the same for all operands; `by` are loops outside it. DISTAL's code calls this `stagger`.
    ///
    /// If the loop is rotated by a distributed contracted loop, ranks work on different parts of the output at any time. If the
    /// output is communicated in each iteration, its partial sums shift from neighbour to neighbour, and each adds its terms:
    ///
    /// ```text
    /// for ko { for mo in 0..n { C(mo) += S(ko, mo) } }
    ///   =>  rotate(mo, [ko]), on the rank at ko
    /// for mo in 0..n { C_tile = 0 at first, then that of ko + 1; C_tile += S(ko, (mo + ko) % n) }
    /// C((mo + ko) % n) = C_tile, after the last iteration
    /// ```
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, [m, k]) = (Mesh::new([("x", 3)]), ["m", "k"].map(Var::new));
    /// let [x] = mesh.axes();
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 7, 5], B: [f32; 5, 4]) -> C: [f32; 7, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let rows = matmul
    ///     .distribute(["k"], ["ko"], ["ki"], &mesh)
    ///     .divide("m", "mo", "mi", 3)
    ///     .reorder(["mo", "mi", "n", "ki"])
    ///     .shard("A", [k.at(x)])
    ///     .shard("B", [k.at(x)])
    ///     .shard("C", [m.at(x)]);
    /// let ring = rows.rotate("mo", ["ko"]).communicate("C", "mo").expect("C", Pattern::shift(x, 1));
    /// same_as_sequential(&ring.lower()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownLoop` or `ListedTwice` for the
    /// loops, `Distributed` or `Tensorized` if `t` is not a serial loop outside the leaf, and `NotOutside` if `t` is
    /// not inside of those that it is rotated by, now or after later steps.
    #[track_caller]
    pub fn rotate<N: Into<Name>>(self, t: impl Into<Name>, by: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Rotate { t: t.into(), by: names(by) })
    }
}
