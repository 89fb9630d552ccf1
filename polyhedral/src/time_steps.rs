//! Time steps (temporal blocking): kernels that are applied several times between two transfers of their input, each of which fetches the
//! elements that all applications read.
//!
//! A step computes the elements that the next one reads: those that the last one has to write, widened once for each step in between by the
//! elements that one application reads beyond its own. isl decides whether each step finds all elements that it reads in the output of the
//! step before, or, for the first, in the fetched tile, and whether the last one computes the rank's part.

use crate::applications::Applications;
use crate::conditions::{Conditions, Form};
use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::isl::IslResult;
use crate::nest::Depth;
use crate::planned::Planned;
use crate::proofs::proof;
use crate::range::position;
use crate::reach::is_one_step;
use polyshard_layout::{Name, Neighbours};
use polyshard_program::{
    Access, Affine, CounterId, Direction, Expr, Leaf, LeafOp, Loop, Proof, Property, Ranges, Region, Symbol, TileId,
    TimeSteps,
};
use std::ops::Range;

/// A leaf that computes several time steps.
pub(crate) struct Taken {
    pub leaf: Leaf,
    pub loops: Vec<Loop>,
    pub steps: TimeSteps,
    pub proofs: Vec<Proof>,
}

/// Turns the leaf of one application into that of all of them.
pub(crate) fn taken(
    context: &Context<'_>,
    applications: &Applications,
    mut leaf: Leaf,
    depth: Depth,
    transfers: &[Planned],
) -> Result<Taken, LowerError> {
    let &Applications { tensor, count, step, .. } = applications;
    let refused = |why| context.blame(Some(step), ErrorKind::NoTimeSteps { tensor, why });
    let shape = &context.kernel().output().shape;
    can_be_taken(leaf.op == LeafOp::Nest && depth == Depth(0), transfers, &leaf).map_err(refused)?;
    let ranges = Ranges { coordinates: context.ranges.coordinates.clone(), counters: vec![count] };
    let left = Expr::constant(count - 1).subtract(&Expr::symbol(Symbol::Counter(CounterId(0))));
    let target = context.kernel().target().clone();
    let mut region = Region::of_ranges(vec![Default::default(); shape.len()]);
    for (dim, index) in target.index.iter().enumerate() {
        let var = index.as_variable().expect("each dimension has an index of its own; this is a bug in polyshard");
        let number = position(context.kernel(), var);
        let ([below, above], extent) = (applications.reach[dim], shape[dim] as i64);
        let l = &leaf.loops[number];
        let (own, own_end) = (l.low.clone(), l.low.add(&l.count));
        let (mut low, mut high) = (own.subtract(&left.multiply(below)), own_end.add(&left.multiply(above)));
        if !applications.periodic[dim] {
            low = Expr::max(&low, &Expr::constant(0), &ranges);
            high = Expr::min(&high, &Expr::constant(extent), &ranges);
        }
        let mut iterations = high.subtract(&low);
        if l.count.bounds(&ranges).0 < 1 {
            // A rank with nothing to write computes nothing for others.
            let most = iterations.bounds(&ranges).1.max(1);
            iterations = Expr::min(&iterations, &l.count.multiply(most), &ranges);
            region.when.push((own.clone(), own_end));
        }
        let moved = low.subtract(&own);
        leaf.target.base[dim] = leaf.target.base[dim].add(&moved);
        leaf.operands.iter_mut().for_each(|access| access.base[dim] = access.base[dim].add(&moved));
        for index in &mut leaf.numbers {
            index.base = index.base.add(&moved.multiply(index.strides[number]));
        }
        let l = &mut leaf.loops[number];
        (l.low, l.count) = (low.clone(), iterations);
        region.ranges[dim] = (low, high);
    }
    let most = region.max_extents(&ranges).into_iter().fold(1i64, |all, extent| all.saturating_mul(extent));
    let steps = TimeSteps {
        tile: TileId(0),
        counter: CounterId(0),
        region,
        capacity: usize::try_from(most).unwrap_or(usize::MAX),
    };
    let proofs = proved(context, applications, &steps.region, &transfers[0].region, &ranges)?;
    let loops = vec![Loop { name: name(context), extent: count, steps: vec![step] }];
    Ok(Taken { leaf, loops, steps, proofs })
}

/// Checks that the lowered form of one application can be used for several.
fn can_be_taken(is_alone: bool, transfers: &[Planned], leaf: &Leaf) -> Result<(), &'static str> {
    let [input, output] = transfers else { return Err("it reads several regions of its input") };
    if !is_alone || input.level != Depth(0) {
        return Err("there are loops around its leaf, or the leaf is not a nest");
    }
    if leaf.loops.iter().any(|l| l.stride != 1) || input.region.has_blocks() {
        return Err("a rank's part is not one box");
    }
    if output.level != Depth(0) || !output.route.is_in_place() || output.direction == Direction::In {
        return Err("a rank does not own what it writes");
    }
    let is_near = |reach: &Neighbours| reach.along.iter().copied().all(is_one_step);
    match input.route.is_local() || input.route.halo().is_some_and(is_near) {
        true => Ok(()),
        false => Err("a halo for that many steps reaches beyond the neighbours' blocks"),
    }
}

/// A name that no loop and no index has.
fn name(context: &Context<'_>) -> Name {
    let taken = |name: &str| {
        let name = Name::new(name);
        context.nest().taken(name) || context.state.mesh.position(name).is_some()
    };
    let mut found = "step".to_owned();
    while taken(&found) {
        found.push('_');
    }
    Name::new(&found)
}

/// The proofs about the steps.
fn proved(
    context: &Context<'_>,
    applications: &Applications,
    region: &Region,
    brought: &Region,
    ranges: &Ranges,
) -> Result<Vec<Proof>, LowerError> {
    let (tensor, last) = (applications.tensor, applications.count - 1);
    let at = |step: i64| region.fixed(Symbol::Counter(CounterId(0)), step, ranges);
    let reads = |here: &Conditions, access: &Access, from: &dyn Fn(&mut Conditions, &[Form])| -> IslResult<bool> {
        let mut here = here.clone();
        let element: Vec<_> = access.unwrapped().index.iter().enumerate().map(read).collect();
        for ((index, &extent), goes_round) in
            element.iter().zip(&context.kernel().output().shape).zip(&applications.periodic)
        {
            // Elements outside of the array have a value of their own.
            if !goes_round {
                here.within(index, extent as i64);
            }
        }
        let mut found = here.clone();
        from(&mut found, &element);
        context.relation(&here)?.is_subset(&context.relation(&found)?)
    };
    let all = |here: &Conditions, from: &dyn Fn(&mut Conditions, &[Form])| -> IslResult<bool> {
        for access in context.kernel().value().accesses() {
            if !reads(here, access, from)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    context.proved("that the last time step computes what it has to", || {
        let own = context.relation(&context.relations.exact(Depth(0), &context.kernel().target().index))?;
        own.is_equal(&context.relation(&points(context, &at(last), None))?)
    })?;
    context.proved("that the first time step finds what it reads", || {
        all(&points(context, &at(0), None), &|found, element| unwrapped(context, found, brought, element))
    })?;
    context.proved("that time steps find the elements that they read in the output of the one before", || {
        // The previous step is that of the counter minus 1.
        let earlier = region.map(|expr| {
            let before = Expr::symbol(Symbol::Counter(CounterId(0))).offset_by(-1);
            expr.replace(Symbol::Counter(CounterId(0)), &before, &Ranges { counters: vec![last + 2], ..ranges.clone() })
        });
        all(&points(context, region, Some(1..last + 1)), &|found, element| unwrapped(context, found, &earlier, element))
    })?;
    let claim = format!(
        "each of {} time steps reads the output of the one before, the first the fetched tile; the last one computes \
         its rank's part",
        applications.count
    );
    Ok(vec![Proof { of_route: false, ..proof(Property::Residency, tensor, claim) }])
}

/// The index of a dimension that an access reads, by the element that is written.
fn read((dim, index): (usize, &Affine)) -> Form {
    Form::output(dim).offset(index.constant)
}

/// Ranks, and optionally steps, to the elements that they compute.
fn points(context: &Context<'_>, region: &Region, steps: Option<Range<i64>>) -> Conditions {
    let axes = context.nest().distributed;
    let mut conditions = Conditions::new(axes + usize::from(steps.is_some()), region.ranges.len());
    for (axis, &extent) in context.ranges.coordinates.iter().enumerate() {
        conditions.within(&Form::input(axis), extent);
    }
    if let Some(steps) = steps {
        conditions.at_most(&Form::constant(steps.start), &Form::input(axes));
        conditions.below(&Form::input(axes), &Form::constant(steps.end));
    }
    let element: Vec<_> = (0..region.ranges.len()).map(Form::output).collect();
    unwrapped(context, &mut conditions, region, &element);
    conditions
}

/// Adds that an element is in a box, by unwrapped indices.
fn unwrapped(context: &Context<'_>, conditions: &mut Conditions, region: &Region, element: &[Form]) {
    context.relations.when(conditions, &region.when);
    for (index, (low, high)) in element.iter().zip(&region.ranges) {
        context.relations.between(conditions, index, low, high);
    }
}
