//! The steps as methods, each documented by what it rewrites.

use super::Schedule;
use polyshard_dsl::{Clause, Step};
use polyshard_layout::{Mesh, Name};
use polyshard_program::{LeafKind, Pattern};

impl Schedule {
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
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
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
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn divide(self, i: impl Into<Name>, outer: impl Into<Name>, inner: impl Into<Name>, parts: usize) -> Self {
        self.apply(Step::Divide { i: i.into(), outer: outer.into(), inner: inner.into(), parts })
    }

    /// Puts the listed loops, among the places they hold, into the order given.
    ///
    /// ```text
    /// for i { for j { for k { S } } }
    ///   =>  reorder([k, i])
    /// for k { for j { for i { S } } }
    /// ```
    ///
    /// A distributed loop may be listed where it stands, but keeps its place.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
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
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
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
    /// A contracted loop is divided like any other. Each rank then has a term of every sum, and the terms meet where the
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
    /// # use polyshard_layout::Mesh;
    /// # use polyshard_polyhedral::Schedule;
    /// # use polyshard_dsl::{Var, partial, pin};
    /// # use polyshard_program::{Pattern, example};
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, [m, k]) = (Mesh::new([("z", 3)]), ["m", "k"].map(Var::new));
    /// let [z] = mesh.axes();
    /// let product = Schedule::from_spec(example::matmul(5, 4, 7)) // C[m, n] += A[m, k] * B[k, n]
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
    /// May be used again, over an inner mesh with axes of its own. After DISTAL's `distribute`.
    ///
    /// Each rank gets one block of iterations. Two splits before make it block-cyclic, ScaLAPACK's distribution: below, rank
    /// `x` has the blocks `x`, `x + 4`, .. of 16 rows. A transfer outside of the loop over rounds, `mt`, takes all blocks of
    /// a rank at once, without what is between them.
    ///
    /// ```
    /// use polyshard_layout::Mesh;
    /// use polyshard_polyhedral::Schedule;
    /// use polyshard_program::example;
    /// let rows = Schedule::from_spec(example::matmul(200, 30, 40))
    ///     .split("m", "mb", "mi", 16) // blocks of 16 rows
    ///     .split("mb", "mt", "mp", 4) // rounds of a block for each rank
    ///     .distribute(["mp"], ["mo"], ["ml"], &Mesh::new([("x", 4)]))
    ///     .lower()?;
    /// let tile = "tile [56, 40] of A[16*x..200 by blocks of 16 every 64, 0..40]";
    /// assert!(rows.explain().contains(tile), "{}", rows.explain());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
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

    /// Lets loop `t` start elsewhere on each rank: it visits `(t + sum of by) % extent`.
    ///
    /// ```text
    /// for p { for t in 0..n { S(p, t) } }
    ///   =>  rotate(t, [p])
    /// for p { for t in 0..n { S(p, (t + p) % n) } }
    /// ```
    ///
    /// A permutation of the loop's iterations, for all operands alike; `by` are loops outside it. DISTAL's
    /// code calls this `stagger`.
    ///
    /// Rotated by a contracted loop that is distributed, ranks work on different parts of the output at any time. Where
    /// each part meets its sums once per iteration, these travel from neighbour to neighbour, which add their terms:
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
    /// # use polyshard_layout::Mesh;
    /// # use polyshard_polyhedral::Schedule;
    /// # use polyshard_dsl::{Var, partial, pin};
    /// # use polyshard_program::{Pattern, example};
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, [m, k]) = (Mesh::new([("x", 3)]), ["m", "k"].map(Var::new));
    /// let [x] = mesh.axes();
    /// let rows = Schedule::from_spec(example::matmul(7, 4, 5)) // C[m, n] += A[m, k] * B[k, n]
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
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn rotate<N: Into<Name>>(self, t: impl Into<Name>, by: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Rotate { t: t.into(), by: names(by) })
    }

    /// Says which ranks own which elements of `tensor` before the program starts, or after it ends for the output.
    ///
    /// ```text
    /// shard("A", [m.at(x), k.at(y)])                block (x, y) of A
    /// shard("A", [m.at([x, y])])                    block x*|y| + y of rows
    /// shard("A", [m.at(node).at(rank)])             blocks of blocks: block `rank` of block `node`
    /// shard("A", [m.at(x), k.at((x + y) % 8)])      skewed, as Cannon's algorithm starts
    /// shard("A", [m.cyclic(x, 4)])                  block-cyclic, in blocks of 4 rows
    /// shard("A", [m.at(x), pin(z, 0)])              on the face z = 0 alone
    /// shard("C", [m.at(x), partial(z)])             each coordinate along z has a term of every element
    /// ```
    ///
    /// An output with `partial(z)` leaves sums over the ranks along `z` open, until a redistribution closes them:
    ///
    /// ```text
    /// C = sum of C_tile over z
    ///   =>  shard("C", [.., partial(z)])
    /// C = C_tile, a term of the sum
    /// ```
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard_layout::Mesh;
    /// # use polyshard_polyhedral::Schedule;
    /// # use polyshard_dsl::{Var, partial, pin};
    /// # use polyshard_program::{Pattern, example};
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, k) = (Mesh::new([("z", 3)]), Var::new("k"));
    /// let [z] = mesh.axes();
    /// let terms = Schedule::from_spec(example::matmul(5, 4, 7)) // C[m, n] += A[m, k] * B[k, n]
    ///     .distribute(["k"], ["ko"], ["ki"], &mesh)
    ///     .shard("A", [k.at(z)])
    ///     .shard("B", [k.at(z)])
    ///     .shard("C", [partial(z)])
    ///     .expect("C", Pattern::Local);
    /// same_as_sequential(&terms.lower()?)?; // after `redistribute`, which adds the terms up
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An axis that is not named replicates. Placement, or tensor distribution notation, in DISTAL.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn shard(self, tensor: impl Into<Name>, clauses: impl IntoIterator<Item = Clause>) -> Self {
        self.apply(Step::Shard { tensor: tensor.into(), clauses: clauses.into_iter().collect() })
    }

    /// Fetches what one iteration of loop `at` reads of `tensor` at the iteration's head; writes the output back at its tail.
    ///
    /// ```text
    /// for at { S(A) }
    ///   =>
    /// for at { tile = what S reads of A; S(tile) }
    /// ```
    ///
    /// For an output whose sums meet over ranks, that is how much of it meets at a time:
    ///
    /// ```text
    /// for mo { C_tile(mo) += S(mo) }; C = sum of C_tile over z
    ///   =>  communicate("C", mo)
    /// for mo { C_tile = S(mo); C(mo) = sum of C_tile over z }
    /// ```
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard_layout::Mesh;
    /// # use polyshard_polyhedral::Schedule;
    /// # use polyshard_dsl::{Var, partial, pin};
    /// # use polyshard_program::{Pattern, example};
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, [m, k]) = (Mesh::new([("x", 3)]), ["m", "k"].map(Var::new));
    /// let [x] = mesh.axes();
    /// let rows = Schedule::from_spec(example::matmul(7, 4, 5)) // C[m, n] += A[m, k] * B[k, n]
    ///     .distribute(["k"], ["ko"], ["ki"], &mesh)
    ///     .divide("m", "mo", "mi", 3)
    ///     .reorder(["mo", "mi", "n", "ki"])
    ///     .shard("A", [k.at(x)])
    ///     .shard("B", [k.at(x)])
    ///     .shard("C", [m.at(x)]);
    /// let at_once = rows.clone().expect("C", Pattern::reduce_scatter([x])).lower()?;
    /// let per_panel = rows.communicate("C", "mo").expect("C", Pattern::reduce([x])).lower()?;
    /// assert!(per_panel.nest().output.capacity < at_once.nest().output.capacity);
    /// same_as_sequential(&at_once)?;
    /// same_as_sequential(&per_panel)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Chooses granularity, never correctness: a tensor without this step is fetched before the first
    /// serial loop, as it is at a distributed loop. A loop that does not change what is read is skipped.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn communicate(self, tensor: impl Into<Name>, at: impl Into<Name>) -> Self {
        self.apply(Step::Communicate { tensor: tensor.into(), at: at.into() })
    }

    /// Leaves the order in which ranks' partial sums of the output are added up to the communication library.
    ///
    /// ```text
    /// C = ((t0 + t1) + t2) + t3        in the order of the ranks, the same bits on every run and back end
    ///   =>  reassociate("C")
    /// C = (t0 + t1) + (t2 + t3)        or in any other order
    /// ```
    ///
    /// For reductions, all-reductions and reduce-scatters, which may then be faster; sums that travel a ring, and those
    /// that are exchanged, keep their order, and sums of integers are the same in any.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard_layout::Mesh;
    /// # use polyshard_polyhedral::Schedule;
    /// # use polyshard_dsl::{Var, pin};
    /// # use polyshard_program::{Pattern, example};
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, k) = (Mesh::new([("x", 3)]), Var::new("k"));
    /// let [x] = mesh.axes();
    /// let in_order = Schedule::from_spec(example::matmul(7, 4, 5)) // C[m, n] += A[m, k] * B[k, n]
    ///     .distribute(["k"], ["ko"], ["ki"], &mesh)
    ///     .shard("A", [k.at(x)])
    ///     .shard("B", [k.at(x)])
    ///     .shard("C", [pin(x, 0)])
    ///     .expect("C", Pattern::reduce([x]));
    /// let in_any_order = in_order.reassociate("C").lower()?;
    /// assert!(in_any_order.nest().output.any_order);
    /// same_as_sequential(&in_any_order)?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn reassociate(self, tensor: impl Into<Name>) -> Self {
        self.apply(Step::Reassociate { tensor: tensor.into() })
    }

    /// Makes the listed loops, the innermost ones, one leaf operation on tiles.
    ///
    /// ```text
    /// for mi { for ni { for ki { C[..] += A[..] * B[..] } } }
    ///   =>
    /// C_tile += A_tile @ B_tile
    /// ```
    ///
    /// The operation is recognised from the accesses, in any transposition. Exo calls this `replace`. Sums of products of
    /// three tensors or more become a sequence of products of two, in the order that is estimated to be fastest, with
    /// intermediate results of at most 1 MiB, unless one nest is faster.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn tensorize<N: Into<Name>>(self, loops: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Tensorize { loops: names(loops), kind: None })
    }

    /// As [`tensorize`](Self::tensorize), and refuses a leaf of another kind.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn tensorize_as<N: Into<Name>>(self, loops: impl IntoIterator<Item = N>, kind: LeafKind) -> Self {
        self.apply(Step::Tensorize { loops: names(loops), kind: Some(kind) })
    }

    /// Makes the listed loops, the innermost ones, one call of a function on tiles that the program registers as `leaf`
    /// before it runs.
    ///
    /// ```text
    /// for mi { for ni { for ki { C[..] += A[..] * B[..] } } }
    ///   =>  tensorize_with([mi, ni, ki], "block_product"), registered as C[m, n] += A[m, k] * B[k, n]
    /// block_product(C_tile, [A_tile, B_tile])
    /// ```
    ///
    /// Lowering works out what the leaf must compute: the kernel's statement over tiles, where a tile has a dimension
    /// per leaf loop that its access moves with. Windows, `A[i + r]`, are tiles `A[i, r]` whose elements overlap; two
    /// dimensions of the output may not. `=` becomes `+=`, since the output starts from zeros. Scalars of the kernel are
    /// operands without dimensions. A program whose leaf is not registered, or computes something else, is refused when
    /// it is about to run, before ranks communicate.
    ///
    /// ```
    /// # use polyshard_polyhedral::*;
    /// # use polyshard_dsl::*;
    /// # use polyshard_program::*;
    /// # use polyshard_layout::Mesh;
    /// # let mesh = Mesh::new([("x", 2)]);
    /// # let matmul = Schedule::from_spec(example::matmul(8, 8, 8));
    /// let program = matmul
    ///     .distribute(["m"], ["mo"], ["mi"], &mesh)
    ///     .tensorize_with(["mi", "n", "k"], "block_product")
    ///     .lower()?;
    /// assert!(program.explain().contains("leaf: block_product, to be registered as C[m, n] += A[m, k] * B[k, n]"));
    /// # Ok::<(), LowerError>(())
    /// ```
    ///
    /// After `substitute` in DISTAL and `replace` in Exo, where the instruction states its meaning.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn tensorize_with<N: Into<Name>>(self, loops: impl IntoIterator<Item = N>, leaf: impl Into<Name>) -> Self {
        self.apply(Step::Tensorize { loops: names(loops), kind: Some(LeafKind::Named(leaf.into())) })
    }

    /// Refuses the schedule unless the transfer of `tensor` has this pattern. An input whose accesses touch several
    /// regions has a transfer for each: then all of them have it, but for those that are local.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn expect(self, tensor: impl Into<Name>, pattern: Pattern) -> Self {
        self.apply(Step::Expect { tensor: tensor.into(), pattern })
    }
}

fn names<N: Into<Name>>(names: impl IntoIterator<Item = N>) -> Vec<Name> {
    names.into_iter().map(Into::into).collect()
}
