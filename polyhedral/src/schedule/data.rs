//! The steps that place data, choose transfers and make the leaf, as methods, each documented by its rewrite rule.

use super::{Schedule, Subject, names};
use polyshard_dsl::{Clause, Share, Step};
use polyshard_layout::Name;
use polyshard_program::{LeafKind, Pattern};

impl<S: Subject> Schedule<S> {
    /// Chooses which ranks own which elements of `tensor` before the program starts, or, for the output, after it ends.
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
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, k) = (Mesh::new([("z", 3)]), Var::new("k"));
    /// let [z] = mesh.axes();
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 5, 7], B: [f32; 7, 4]) -> C: [f32; 5, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let terms = matmul
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
    /// An axis that is not named replicates. DISTAL calls this placement, or tensor distribution notation.
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownTensor` if there is no such
    /// tensor, `Twice` if it is sharded already, `NoMesh` before [`distribute`](Self::distribute), `AmbiguousDim` if
    /// an index names no dimension or several, `Sharding` if the clauses are not a sharding, `PartialInput` for
    /// partial sums of an input, and `NoSum` if the kernel does not add.
    #[track_caller]
    pub fn shard(self, tensor: impl Into<Name>, clauses: impl IntoIterator<Item = Clause>) -> Self {
        self.apply(Step::Shard { tensor: tensor.into(), clauses: clauses.into_iter().collect() })
    }

    /// At the head of each iteration of loop `at`, fetches the elements of `tensor` that the iteration reads; writes an output back at its
    /// tail.
    ///
    /// ```text
    /// for at { S(A) }
    ///   =>
    /// for at { tile = what S reads of A; S(tile) }
    /// ```
    ///
    /// For an output that is summed over ranks, this decides how much of it is summed at once:
    ///
    /// ```text
    /// for mo { C_tile(mo) += S(mo) }; C = sum of C_tile over z
    ///   =>  communicate("C", mo)
    /// for mo { C_tile = S(mo); C(mo) = sum of C_tile over z }
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
    /// let at_once = rows.clone().expect("C", Pattern::reduce_scatter([x])).lower()?;
    /// let per_panel = rows.communicate("C", "mo").expect("C", Pattern::reduce([x])).lower()?;
    /// assert!(per_panel.nest().output().tile.capacity < at_once.nest().output().tile.capacity);
    /// same_as_sequential(&at_once)?;
    /// same_as_sequential(&per_panel)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Chooses granularity, never correctness: a tensor without this step is fetched before the first serial loop, as with this step at a
    /// distributed loop. A loop that does not change what is read is skipped.
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownTensor` or `UnknownLoop` if one of
    /// the two does not exist, `NoSharding` if no step shards the tensor, `Twice` if it is communicated already, and
    /// `Tensorized` at a loop of the leaf.
    #[track_caller]
    pub fn communicate(self, tensor: impl Into<Name>, at: impl Into<Name>) -> Self {
        self.apply(Step::Communicate { tensor: tensor.into(), at: at.into() })
    }

    /// Overlaps the transfers at loop `t` with computation: an input's begin `depth` iterations before the one that reads it, an output's
    /// are awaited `depth` iterations after the one that computes it.
    ///
    /// ```text
    /// for t { tile = what S reads of A; S(tile) }
    ///   =>  pipeline(t, 1)
    /// begin tile(0)
    /// for t { await tile(t); begin tile(t + 1), if there is one; S(tile(t)) }
    ///
    /// for t { tile = S; C(t) = sum of tile over z }
    ///   =>  pipeline(t, 1)
    /// for t { tile(t) = S; begin C(t) = sum of tile(t) over z; await C(t - 1), if there is one }
    /// await C(n - 1)
    /// ```
    ///
    /// The first `depth` transfers of an input begin before the loop, and the last `depth` of an output are awaited after it; each tile has
    /// `depth + 1` buffers. With `n` iterations of equal panels, all transfers of an input but the first, and all of an output but the
    /// last, overlap computation, so a depth of 1 suffices; a larger one compensates for late messages. Data in shared memory are read in
    /// place when they are needed, and sums of tiles in shared memory are computed at once: nothing begins ahead for them. The step does
    /// not change the bits of the result: sums that arrive are combined in the order of iterations.
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
    /// let panels = matmul
    ///     .clone()
    ///     .distribute(["m"], ["mo"], ["mi"], &mesh)
    ///     .divide("k", "ko", "ki", 3)
    ///     .reorder(["ko", "mi", "n", "ki"])
    ///     .shard("A", [m.at(x)])
    ///     .shard("B", [k.at(x)])
    ///     .shard("C", [m.at(x)])
    ///     .communicate("B", "ko");
    /// let ahead = panels.pipeline("ko", 1).expect("B", Pattern::broadcast([x])).lower()?;
    /// assert!(ahead.to_string().contains("begin B_tile for ko + 1, if below 3"));
    /// same_as_sequential(&ahead)?;
    ///
    /// let summed = matmul
    ///     .distribute(["k"], ["ko"], ["ki"], &mesh)
    ///     .divide("m", "mo", "mi", 3)
    ///     .reorder(["mo", "mi", "n", "ki"])
    ///     .shard("A", [k.at(x)])
    ///     .shard("B", [k.at(x)])
    ///     .shard("C", [m.at(x)])
    ///     .communicate("C", "mo");
    /// let leaving = summed.pipeline("mo", 1).expect("C", Pattern::reduce([x])).lower()?;
    /// assert!(leaving.to_string().contains("await C <- C_tile for mo - 1, if not below 0"));
    /// same_as_sequential(&leaving)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownLoop`, `Distributed` or `Tensorized` if `t` is not a
    /// serial loop outside the leaf, `BadDepth` if `depth` is 0 or more than 64, `Twice` if it is pipelined already, `NothingAhead` if
    /// nothing is communicated at it, and `NotAhead` if one leg of an input that is communicated there forwards the tiles of another, or
    /// the input shifts between neighbours and would begin more than one iteration ahead, or if the output's sums shift between neighbours,
    /// or are [reassociated](Self::reassociate).
    #[track_caller]
    pub fn pipeline(self, t: impl Into<Name>, depth: usize) -> Self {
        self.apply(Step::Pipeline { t: t.into(), depth })
    }

    /// Applies the kernel `steps` times with one halo of `tensor`, its input, that is wide enough for all of them (temporal blocking): each
    /// application but the first reads the output of the one before.
    ///
    /// ```text
    /// v = f(u)
    ///   =>  halo(u, 3)
    /// v = f(f(f(u)))
    /// ```
    ///
    /// So a third of the messages remain, and ranks also compute elements of their neighbours, in a rim that shrinks with each application.
    /// It pays if latency dominates the time of messages. The program computes another function than without this step: `n` rounds of one
    /// step become `n / steps` rounds. isl proves that each application finds all elements that it reads.
    ///
    /// The output must have the sharding of the input, each rank must compute one block without loops around the leaf, and the halo must
    /// not reach beyond the neighbours' blocks.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::text::parse_kernel;
    /// let (mesh, i) = (Mesh::new([("x", 3)]), Var::new("i"));
    /// let [x] = mesh.axes();
    /// let blur = "fn blur(u: [f32; 18]) -> v: [f32; 18] { v[i] = u[i - 1] else 0 + u[i + 1] else 0 }";
    /// let in_blocks = Schedule::from_spec(parse_kernel(blur).expect("a kernel"))
    ///     .distribute(["i"], ["io"], ["ii"], &mesh)
    ///     .shard("u", [i.at(x)])
    ///     .shard("v", [i.at(x)]);
    /// let program = in_blocks.halo("u", 3).lower()?;
    /// assert_eq!(program.nest().applications(), 3);
    /// assert_eq!(program.report().traffic_bytes, 24, "three elements from either side, at once");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownTensor` if there is no such tensor, `BadTimeSteps` if
    /// `steps` is 0 or more than 64, `NoTimeSteps` if the kernel cannot be applied to its own output, or not with one halo, and `Twice` if
    /// the schedule has the step already.
    #[track_caller]
    pub fn halo(self, tensor: impl Into<Name>, steps: usize) -> Self {
        self.apply(Step::Halo { tensor: tensor.into(), steps })
    }

    /// Computes the interior of the leaf, which reads only elements of `tensor` that its rank owns, while the halo is in flight, and then
    /// the rims.
    ///
    /// ```text
    /// u_tile = u[..]: halo; for i, j { v[i, j] = .. }
    ///   =>  interior_first(u)
    /// begin u_tile; for i, j of the interior { v[i, j] = .. }; await u_tile; for all other i, j { v[i, j] = .. }
    /// ```
    ///
    /// isl proves that the interior reads no element that another rank owns. Each element of the output has the same bits as without this
    /// step. Where ranks share memory, the halo is read in place, and nothing is sent. Computing the leaf in several parts takes extra
    /// time, so the step pays if links are slow relative to the leaf.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # use polyshard::text::parse_kernel;
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, i) = (Mesh::new([("x", 3)]), Var::new("i"));
    /// let [x] = mesh.axes();
    /// let blur = "fn blur(u: [f32; 16, 3]) -> v: [f32; 16, 3] { v[i, j] = u[i - 1, j] else 0 + u[i + 1, j] else 0 }";
    /// let in_blocks = Schedule::from_spec(parse_kernel(blur).expect("a kernel"))
    ///     .distribute(["i"], ["io"], ["ii"], &mesh)
    ///     .shard("u", [i.at(x)])
    ///     .shard("v", [i.at(x)]);
    /// let program = in_blocks.interior_first("u").expect_overlap("u", 1.0).lower()?;
    /// assert!(program.to_string().contains("the interior alone: i in"));
    /// same_as_sequential(&program)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownTensor` if there is no such tensor, `NoInterior` if it
    /// is not fetched as a halo, or the leaf cannot be cut, and `Twice` if the schedule has the step already.
    #[track_caller]
    pub fn interior_first(self, tensor: impl Into<Name>) -> Self {
        self.apply(Step::InteriorFirst { tensor: tensor.into() })
    }

    /// Lets the communication library choose the order in which the ranks' partial sums of the output are added.
    ///
    /// ```text
    /// C = ((t0 + t1) + t2) + t3        in the order of the ranks, the same bits on every run and back end
    ///   =>  reassociate("C")
    /// C = (t0 + t1) + (t2 + t3)        or in any other order
    /// ```
    ///
    /// For reductions, all-reductions and reduce-scatters, which may then be faster. Sums that shift around a ring, and those that are
    /// exchanged, keep their order, and sums of integers are the same in any order.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/law.rs"));
    /// # use polyshard::prelude::*;
    /// # fn main() -> polyshard::Result<()> {
    /// let (mesh, k) = (Mesh::new([("x", 3)]), Var::new("k"));
    /// let [x] = mesh.axes();
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 7, 5], B: [f32; 5, 4]) -> C: [f32; 7, 4] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let in_order = matmul
    ///     .distribute(["k"], ["ko"], ["ki"], &mesh)
    ///     .shard("A", [k.at(x)])
    ///     .shard("B", [k.at(x)])
    ///     .shard("C", [pin(x, 0)])
    ///     .expect("C", Pattern::reduce([x]));
    /// let in_any_order = in_order.reassociate("C").lower()?;
    /// assert!(in_any_order.nest().any_order());
    /// same_as_sequential(&in_any_order)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownTensor` if there is no such tensor, `NotSummed` if it is
    /// an input, and `Twice` if the schedule has the step already.
    #[track_caller]
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
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownLoop` or `ListedTwice` for the
    /// list, `Distributed` if a loop is bound to a mesh axis, `CommunicatedInLeaf` if a tensor is communicated at
    /// one, `NotInnermost` if others are inside, `NotABox` if their instances are not a box, and `Twice` if there is
    /// a leaf already.
    #[track_caller]
    pub fn tensorize<N: Into<Name>>(self, loops: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Tensorize { loops: names(loops), kind: None })
    }

    /// As [`tensorize`](Self::tensorize), but rejects a leaf of another kind.
    ///
    /// # Errors
    /// As [`tensorize`](Self::tensorize); `OtherLeaf` if the leaf is of another kind.
    #[track_caller]
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
    /// Lowering works out what the leaf must compute: the kernel's statement over tiles, where a tile has a dimension per leaf loop that
    /// its access moves with. Windows, `A[i + r]`, are tiles `A[i, r]` whose elements overlap; two dimensions of the output may not. `=`
    /// becomes `+=`, since the output starts from zeros. Scalars of the kernel are operands without dimensions. A program whose leaf is not
    /// registered, or computes something else, is rejected at the start of a run, before ranks communicate.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # let mesh = Mesh::new([("x", 2)]);
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let program = matmul
    ///     .distribute(["m"], ["mo"], ["mi"], &mesh)
    ///     .tensorize_with(["mi", "n", "k"], "block_product")
    ///     .lower()?;
    /// assert!(program.explain().contains("leaf: block_product, to be registered as C[m, n] += A[m, k] * B[k, n]"));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// After `substitute` in DISTAL and `replace` in Exo, where the instruction states its meaning.
    ///
    /// # Errors
    /// As [`tensorize`](Self::tensorize); `BadName` if `leaf` is not a name, and `NoTiles` if an operand has no tile.
    #[track_caller]
    pub fn tensorize_with<N: Into<Name>>(self, loops: impl IntoIterator<Item = N>, leaf: impl Into<Name>) -> Self {
        self.apply(Step::Tensorize { loops: names(loops), kind: Some(LeafKind::Named(leaf.into())) })
    }

    /// Rejects the schedule unless the transfer of `tensor` has this pattern. An input whose accesses touch several regions has a transfer
    /// for each: then all of them must have it, except those that are local.
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownTensor` or `UnknownAxis` if one
    /// does not exist, and `Unexpected` if the transfer has another pattern.
    #[track_caller]
    pub fn expect(self, tensor: impl Into<Name>, pattern: Pattern) -> Self {
        self.apply(Step::Expect { tensor: tensor.into(), pattern })
    }

    /// Rejects the schedule unless at least this share of the transfer of `tensor`, from 0 to 1, can be hidden: can be in flight while
    /// iterations of the loop at which it is communicated are computed. In a [pipeline](Self::pipeline) of `n` iterations that is
    /// `1 - 1/n`, since nothing is computed during the first transfer of an input or the last of an output, and 1 if a rotation lets each rank
    /// begin with elements that it owns. A tensor that is not moved is an error, unless there is one rank.
    ///
    /// That is what the program allows, not what a machine achieves: how much is really hidden depends on the time of the leaf, and on
    /// whether ranks share memory, where nothing is sent.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let (mesh, [m, k]) = (Mesh::new([("x", 4)]), ["m", "k"].map(Var::new));
    /// let [x] = mesh.axes();
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 64, 64], B: [f32; 64, 64]) -> C: [f32; 64, 64] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let in_panels = |count| {
    ///     matmul
    ///         .clone()
    ///         .distribute(["m"], ["mo"], ["mi"], &mesh)
    ///         .divide("k", "ko", "ki", count)
    ///         .reorder(["ko", "mi", "n", "ki"])
    ///         .shard("A", [m.at(x)])
    ///         .shard("B", [k.at(x)])
    ///         .shard("C", [m.at(x)])
    ///         .communicate("B", "ko")
    ///         .pipeline("ko", 1)
    ///         .expect_overlap("B", 0.8)
    /// };
    /// in_panels(8).lower()?; // 87.5 %
    /// let error = in_panels(4).lower().expect_err("too few panels");
    /// assert!(error.to_string().contains(
    ///     "at most 75.0 % of the transfer of `B`, broadcast(x), can be hidden, not 80.0 %: nothing is computed during the transfer of the \
    ///      first of 4 iterations of `ko`"
    /// ), "{error}");
    /// assert_eq!(error.help().as_deref(), Some("divide into 5 iterations of `ko` or more, or expect 0.750 or less"));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error of [kind](crate::ErrorKind) `UnknownTensor` if there is no such tensor, `BadShare` if the
    /// share is not from 0 to 1, `NotMoved` if there is no transfer, and `LittleOverlap` if less can be hidden.
    #[track_caller]
    pub fn expect_overlap(self, tensor: impl Into<Name>, share: f64) -> Self {
        self.apply(Step::ExpectOverlap { tensor: tensor.into(), share: Share::new(share) })
    }
}
