//! All ways to a product: schedules between redistributions, and what they cost.
//!
//! A way is where loops lie on the mesh, and for each array whether it is moved to where it is needed before the
//! product (the result: after it), or is left to the product's own transfers. Tests: `search/tests/it/product.rs`.

use super::sequence::{Operand, Operation, ProductSequence, ProductStep, compare};
use super::{Free, Product, ProductError};
use crate::space::Space;
use crate::variant::{Variant, Ways};
use polyshard_dsl::{Clause, Dim, partial};
use polyshard_layout::{Name, Sharding};
use polyshard_planner::cost::{Cost, CostedPart, Prices};
use polyshard_planner::placement::PlacedMesh;
use polyshard_planner::{Sharded, redistribution, subscript};
use polyshard_polyhedral::LowerError;
use polyshard_program::{Direction, Kernel, Priced, Program, TensorId, TransferId};
use std::collections::{BTreeMap, HashMap};

/// The most ways to lay loops over a mesh.
const MOST_WAYS: usize = 4_000;

/// A search for the ways to a product.
pub(super) struct Search<'a> {
    product: &'a Product,
    placed: &'a PlacedMesh,
    prices: Prices<'a>,
    free: Option<Free>,
    kernel: Kernel,
    /// By loop of the product, its index in the kernel.
    indices: Vec<Name>,
    /// What it takes to move an array, if it can be moved.
    moves: HashMap<[Sharding; 2], Option<(Program, Cost)>>,
    /// Why the first one failed that is not legal.
    pub(super) failed: Option<LowerError>,
}

/// An array on its way: as it is given or wanted, and as the product has it.
#[derive(Clone)]
struct Ends {
    outside: Sharded,
    inside: Sharded,
}

impl<'a> Search<'a> {
    pub(super) fn new(product: &'a Product, placed: &'a PlacedMesh, free: Option<Free>) -> Self {
        let indices = product.indices(&product.tensors());
        Self {
            product,
            placed,
            prices: Prices::on(placed),
            free,
            kernel: product.kernel(),
            indices,
            moves: HashMap::new(),
            failed: None,
        }
    }

    /// The best way for each way to split the work, the best of them first.
    ///
    /// # Errors
    /// [`ProductError::Ways`], and those of prices.
    pub(super) fn sequences(&mut self) -> Result<Vec<ProductSequence>, ProductError> {
        let (mesh, loops) = (&self.product.mesh, &self.product.loops);
        let too_many = || {
            let axes = mesh.as_slice().iter().filter(|axis| axis.extent > 1).count();
            ProductError::Ways { dims: loops.len(), axes, most: MOST_WAYS }
        };
        let mut variants = Variant::all(mesh, &self.kernel, Ways::All).ok_or_else(too_many)?;
        variants.retain(|(_, variant)| self.has_reason(variant));
        if variants.len() > MOST_WAYS {
            return Err(too_many());
        }
        let mut best: BTreeMap<Vec<Option<usize>>, ProductSequence> = BTreeMap::new();
        for (_, variant) in &variants {
            // The order of axes in a loop makes another sequence, but not another way to split the work.
            let split: Vec<_> = (0..mesh.ndim()).map(|axis| variant.along.var(axis)).collect();
            for ends in self.ends(variant) {
                let Some(sequence) = self.sequence(variant, &ends)? else { continue };
                if best.get(&split).is_none_or(|other| compare(&sequence, other).is_lt()) {
                    best.insert(split.clone(), sequence);
                }
            }
        }
        let mut sequences: Vec<_> = best.into_values().collect();
        sequences.sort_by(compare);
        Ok(sequences)
    }

    /// Whether axes of one loop are in the order of the mesh, or in that of an array.
    fn has_reason(&self, variant: &Variant) -> bool {
        self.product.loops.iter().all(|name| {
            let axes = self.axes(name, variant);
            let as_in = |array: &Sharded| {
                let dim = array.names().iter().position(|other| other == name);
                let cut = dim.map(|dim| array.axes()[dim].clone()).unwrap_or_default();
                let places: Option<Vec<_>> =
                    axes.iter().map(|axis| cut.iter().position(|other| other == axis)).collect();
                places.is_some_and(|places| places.is_sorted())
            };
            axes.is_sorted() || self.product.arrays().into_iter().any(as_in)
        })
    }

    /// The axes that divide the loop over a dimension, major first.
    fn axes<'v>(&self, name: &String, variant: &'v Variant) -> &'v [usize] {
        let index = self.index(name);
        let var = self.kernel.vars().iter().position(|var| var.name == index);
        var.map_or(&[], |var| &variant.along.axes[var])
    }

    /// The index of a dimension.
    fn index(&self, name: &String) -> Name {
        let number = self.product.loops.iter().position(|other| other == name);
        self.indices[number.expect("a dimension is a loop; this is a bug in polyshard")]
    }

    /// How the arrays may come and go: moved to where the product needs them, or as they are.
    fn ends(&self, variant: &Variant) -> Vec<[Ends; 3]> {
        let is_free = |operand| match operand {
            Operand::Left => self.free.is_some_and(|free| free != Free::Right),
            Operand::Right => self.free.is_some_and(|free| free != Free::Left),
            Operand::Out => false,
        };
        let of = |operand: Operand| {
            let outside = self.product.arrays()[operand as usize];
            let needed = self.needed(outside, variant);
            if is_free(operand) {
                return vec![Ends { outside: needed.clone(), inside: needed }];
            }
            let as_it_is = Ends { outside: outside.clone(), inside: outside.clone() };
            let moved = Ends { inside: needed, ..as_it_is.clone() };
            if moved.inside == moved.outside { vec![as_it_is] } else { vec![moved, as_it_is] }
        };
        let [left, right, out] = [Operand::Left, Operand::Right, Operand::Out].map(of);
        let pairs = left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
        pairs.flat_map(|(left, right)| out.iter().map(|out| [left.clone(), right.clone(), out.clone()])).collect()
    }

    /// How an array lies where no rank needs anything of another for its part of the product. Only the product lacks what
    /// is contracted.
    fn needed(&self, array: &Sharded, variant: &Variant) -> Sharded {
        let over = |name: &String| self.axes(name, variant).to_vec();
        let summed = self.product.loops.iter().filter(|name| !array.names().contains(name));
        let mut unreduced: Vec<usize> = summed.filter(|name| self.product.contracts(name)).flat_map(over).collect();
        unreduced.sort_unstable();
        array
            .cut_by(&array.names().iter().map(over).collect::<Vec<_>>(), &unreduced)
            .unwrap_or_else(|error| panic!("loops do not cut `{array}`: {error}; this is a bug in polyshard"))
    }

    /// The sequence of one way; none if it is not legal.
    fn sequence(&mut self, variant: &Variant, ends: &[Ends; 3]) -> Result<Option<ProductSequence>, ProductError> {
        let (tensors, dtype) = (self.product.tensors(), self.product.dtype);
        let mut steps = Vec::new();
        let mut memory = 0u64;
        let mut moved = [const { Vec::new() }; 3];
        for (operand, Ends { outside, inside }) in [Operand::Left, Operand::Right, Operand::Out].into_iter().zip(ends) {
            let between = match operand {
                Operand::Left | Operand::Right => [outside, inside],
                Operand::Out => [inside, outside],
            };
            if outside != inside {
                let Some((program, cost)) = self.moved(between)? else { return Ok(None) };
                // What the product has is counted with it.
                let shard = inside.bytes(dtype);
                memory = memory.saturating_add(cost.memory.saturating_sub(u64::try_from(shard).unwrap_or(u64::MAX)));
                moved[operand as usize] = moves(operand, between[0], program, cost);
            }
        }
        let [left, right, out] = moved;
        steps.extend(left.into_iter().chain(right));
        let homes: Vec<(Name, Vec<Clause>)> =
            tensors.iter().zip(ends).map(|(&tensor, ends)| (tensor, self.clauses(&ends.inside))).collect();
        let schedule = Space { kernel: &self.kernel, homes: &homes, rotates: false }.schedule(variant);
        let program = match schedule.unproved() {
            Ok(program) => program,
            Err(error) => {
                self.failed.get_or_insert(error);
                return Ok(None);
            }
        };
        let cost = self.prices.of(&program)?;
        memory = memory.saturating_add(cost.memory);
        steps.extend(self.fetched(program.priced(), &cost, variant, ends));
        steps.extend(out);
        let capacity = self.placed.machine().device().memory_capacity;
        let [left, right, out] = ends.clone().map(|ends| ends.outside);
        let (work, fits, flops) =
            (self.work(variant), memory <= capacity, program.priced().nest().work().operations as f64);
        Ok(Some(ProductSequence { work, left, right, out, steps, flops, memory, fits, dtype, schedule, tensors }))
    }

    /// What it takes to move an array from the first to the second; none if it cannot be moved.
    fn moved(&mut self, [from, to]: [&Sharded; 2]) -> Result<Option<&(Program, Cost)>, ProductError> {
        let key = [from, to].map(|array| array.sharding().clone());
        if !self.moves.contains_key(&key) {
            let priced = match redistribution(&key[0], &key[1], self.product.dtype) {
                Ok(program) => {
                    let cost = self.prices.of(&program)?;
                    Some((program, cost))
                }
                Err(_) => None,
            };
            self.moves.insert(key.clone(), priced);
        }
        Ok(self.moves[&key].as_ref())
    }

    fn clauses(&self, array: &Sharded) -> Vec<Clause> {
        let name = |&axis: &usize| self.product.mesh.as_slice()[axis].name.as_str();
        let cut = array.names().iter().zip(array.axes()).filter_map(|(dim, axes)| {
            let (first, others) = axes.split_first()?;
            let first = Dim::Var(self.index(dim)).at(name(first));
            Some(others.iter().fold(first, |clause, axis| clause.at(name(axis))))
        });
        cut.chain(array.unreduced().iter().map(|axis| partial(name(axis)))).collect()
    }

    /// The steps of the product itself: what it fetches, that it multiplies, and what it sends.
    fn fetched(&self, program: &Program, cost: &Cost, variant: &Variant, ends: &[Ends; 3]) -> Vec<ProductStep> {
        let needed = self.product.arrays().map(|array| self.needed(array, variant));
        let nest = program.nest();
        let step = |part: &polyshard_planner::cost::PartCost| {
            let (operation, text) = match part.part {
                CostedPart::Transfer(TransferId::Tile { tile, .. }) => {
                    let transfer = &nest.transfers[tile.0];
                    let TensorId(number) = transfer.tensor;
                    let operand = [Operand::Left, Operand::Right, Operand::Out][number];
                    let pattern = nest.pattern_of(transfer);
                    let (from, to) = match transfer.direction {
                        Direction::In => (&ends[number].inside, &needed[number]),
                        Direction::Out { .. } => (&needed[number], &ends[number].inside),
                    };
                    (Operation::Move(operand, pattern), format!("{from} -> {to}"))
                }
                _ => (Operation::Multiply, format!("{} * {} -> {}", needed[0], needed[1], needed[2])),
            };
            ProductStep { operation, text, tensors: self.names(), bytes: part.received, seconds: part.seconds }
        };
        cost.parts.iter().map(step).collect()
    }

    fn names(&self) -> [String; 3] {
        self.product.arrays().map(|array| array.tensor().to_owned())
    }

    /// Which axes divide which loop, as in `I_X J K_Y`.
    fn work(&self, variant: &Variant) -> String {
        let mesh = &self.product.mesh;
        let dims = self.product.loops.iter().map(|name| match self.axes(name, variant) {
            [] => name.clone(),
            axes => format!("{name}_{}", subscript(mesh, axes)),
        });
        dims.collect::<Vec<_>>().join(" ")
    }
}

/// The steps by which an array is moved.
fn moves(operand: Operand, from: &Sharded, program: &Program, cost: &Cost) -> Vec<ProductStep> {
    let shown = |sharding: &Sharding| match from.with_sharding(sharding) {
        Some(array) => array.to_string(),
        // Over the digits of an axis, say.
        None => format!("{} {sharding}", from.tensor()),
    };
    let of_move = |number: usize| {
        let moved = &program.body().moves[number];
        let between = [moved.source, moved.target].map(|id| shown(&program.array(id).sharding));
        let taken = cost
            .parts
            .iter()
            .find(|part| matches!(part.part, CostedPart::Transfer(TransferId::Array(id)) if id.0 == number));
        ProductStep {
            operation: Operation::Move(operand, moved.pattern.clone()),
            text: between.join(" -> "),
            tensors: [const { String::new() }; 3].map(|_| from.tensor().to_owned()),
            bytes: taken.map_or(0, |part| part.received),
            seconds: taken.map_or(0.0, |part| part.seconds),
        }
    };
    (0..program.body().moves.len()).map(of_move).collect()
}
