//! Routes of two steps: a permutation among some ranks and a broadcast, in either order.
//!
//! ```text
//! permute, broadcast(z)     owners send their tiles to the ranks of one layer, which broadcast them to all layers
//! broadcast(z), permute     the ranks of one layer broadcast their shards to all layers, each of which permutes them
//! ```
//!
//! The first is correct if the layers need the same tiles, the second if each layer needs the owners' tiles in another
//! order, as in 2.5-D products: E. Solomonik and J. Demmel, "Communication-Optimal Parallel 2.5D Matrix Multiplication
//! and LU Factorization Algorithms", Euro-Par 2011. Each step is proved separately.

use crate::context::Context;
use crate::isl::{IslResult, Relation};
use crate::need::Need;
use crate::proofs::Trail;
use polyshard_program::{AxisId, Expr, Leg, Owners, Property, Route, Symbol};

const PAIRED: &str = "the rank that a tile is sent to is the one that receives it";

impl Context<'_> {
    /// A route of two steps, if all elements that a rank needs are those of the owner at `from`; `same` are the axes
    /// along which region and owner do not change.
    pub(crate) fn composed(
        &self,
        need: &Need<'_>,
        from: &[Expr],
        same: &[usize],
        trail: &mut Trail,
    ) -> IslResult<Option<Route>> {
        if let Some(route) = self.permute_broadcast(need, from, same, trail)? {
            return Ok(Some(route));
        }
        self.broadcast_permute(need, &self.needed(need.depth, need.region)?, from, trail)
    }

    fn permute_broadcast(
        &self,
        need: &Need<'_>,
        from: &[Expr],
        same: &[usize],
        trail: &mut Trail,
    ) -> IslResult<Option<Route>> {
        let free = |axis: &usize| from.iter().all(|owner| !owner.mentions(Symbol::Coordinate(AxisId(*axis))));
        let axes: Vec<usize> = same.iter().copied().filter(free).collect();
        if axes.is_empty() {
            return Ok(None);
        }
        let root: Vec<_> = axes.iter().map(|&axis| from[axis].clone()).collect();
        let held = need.region.where_equal(&axes, &root);
        let timed = self.timed(need.depth, from)?.restrict(&self.needed(need.depth, &held)?)?;
        if !timed.is_injective()? {
            trail.test(format!("nor is there one sender per {}", self.names(&axes)));
            return Ok(None);
        }
        let Some(to) = self.inverse(need.depth, from, &axes, &timed)? else { return Ok(None) };
        let names = self.names(&axes);
        trail.test(format!(
            "each owner serves one rank at its own {names}, and all {names} need the same: permute, broadcast"
        ));
        trail.proved(Property::Residency, format!("the tile is the same for all {names}"));
        trail.proved(Property::Matching, PAIRED);
        let first = Leg::Permute { owner: from.to_vec(), served: to };
        Ok(Some(Route::of_two(first, held, Leg::collective(axes, Owners::One(root)))))
    }

    fn broadcast_permute(
        &self,
        need: &Need<'_>,
        needed: &Relation,
        from: &[Expr],
        trail: &mut Trail,
    ) -> IslResult<Option<Route>> {
        let depth = need.depth;
        let constant = |owner: &Expr| (0..from.len()).all(|axis| !owner.mentions(Symbol::Coordinate(AxisId(axis))));
        let layered = |&axis: &usize| constant(&from[axis]) && need.region.mentions(Symbol::Coordinate(AxisId(axis)));
        let axes: Vec<usize> = (0..from.len()).filter(layered).collect();
        if axes.is_empty() {
            return Ok(None);
        }
        let names = self.names(&axes);
        let own: Vec<_> = (0..from.len()).map(|axis| Expr::symbol(Symbol::Coordinate(AxisId(axis)))).collect();
        let choose = |inside: &[Expr], along: &[Expr]| -> Vec<Expr> {
            (0..from.len()).map(|axis| if axes.contains(&axis) { along } else { inside }[axis].clone()).collect()
        };
        // The rank in the reader's layer at the position that the owner has in its own layer.
        let inside = choose(from, &own);
        let timed = self.timed(depth, &inside)?;
        let serving = timed.restrict(needed)?;
        if !serving.is_injective()? {
            trail.test(format!("nor is there one sender per {names}"));
            return Ok(None);
        }
        let Some(to) = self.inverse(depth, &inside, &axes, &serving)? else { return Ok(None) };
        // A rank is sent the region that the reader it will serve needs.
        let there = |symbol| match symbol {
            Symbol::Coordinate(AxisId(axis)) => Some(to[axis].clone()),
            Symbol::Counter(_) => None,
        };
        let held = need.region.map(|expr| expr.replace_all(&there, &self.ranges));
        if axes.iter().any(|&axis| held.mentions(Symbol::Coordinate(AxisId(axis)))) {
            trail.test(format!("the elements that owners would send along {names} depend on {names}"));
            return Ok(None);
        }
        let sent = self.needed(depth, &held)?;
        let owned = self.relation(&self.sources(need.sharding).owned_by(depth, &choose(&own, from)))?;
        if !sent.is_subset(&owned)? || !timed.then(&sent)?.restrict(needed)?.is_equal(needed)? {
            return Ok(None);
        }
        trail.test(format!(
            "each owner's elements are sent to all {names}, where each owner serves one rank: broadcast, permute"
        ));
        trail.proved(
            Property::Residency,
            format!("the elements sent along {names} are those that one rank needs at each {names}"),
        );
        trail.proved(Property::Matching, PAIRED);
        let root = axes.iter().map(|&axis| from[axis].clone()).collect();
        let first = Leg::collective(axes, Owners::One(root));
        Ok(Some(Route::of_two(first, held, Leg::Permute { owner: inside, served: to })))
    }
}
