//! The search for an order of contraction: one kernel that contracts its operands in pairs on each rank, or several
//! kernels.

use crate::choice::{Choice, Open, kernel_alone};
use crate::error::{Enough, SearchError};
use crate::find::Search;
use crate::grid::{self, Bounds};
use crate::limits::{Limits, limited};
use crate::order::Order;
use crate::sequence::SequenceSearch;
use polyshard_machine::Machine;
use polyshard_polyhedral::Schedule;
use polyshard_program::Kernel;
use std::time::{Duration, Instant};

/// The search for orders of many operands gets this fraction of the time limit: 1 / `ORDERING`.
const ORDERING: f64 = 4.0;

/// Orders with more kernels than this are not bounded grid by grid.
const MAX_BOUNDED: usize = 12;

/// A search for the fastest way to compute a product of several tensors: in one kernel, or in several in some order.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::{Contraction, ContractionSearch};
/// use polyshard::text::{Operand, einsum};
/// let machine = Machine::preset("a100")?.with_counts(&[1, 16])?;
/// let shapes: [(_, &[usize]); 3] = [("A", &[8192, 8192]), ("B", &[8192, 8192]), ("x", &[8192])];
/// let operands = shapes.map(|(source, shape)| Operand { source, shape });
/// let chain = Schedule::from_spec(einsum("ij,jk,k->i", &operands, DType::F32, "y")?);
/// let Contraction { order, choice } = ContractionSearch::new(&chain, 16, &machine).find()?;
/// // One kernel would compute a whole product on each rank.
/// assert_eq!(order.map(|order| order.stages().len()), Some(2));
/// assert_eq!(choice.program().nests().count(), 2);
/// // Two operands have one order.
/// let operands = [("A", &[8, 8][..]), ("x", &[8])].map(|(source, shape)| Operand { source, shape });
/// let product = Schedule::from_spec(einsum("ij,j->i", &operands, DType::F32, "y")?);
/// assert!(ContractionSearch::new(&product, 16, &machine).find()?.order.is_none());
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a search is a value: run it with `find()`"]
pub struct ContractionSearch<'a> {
    schedule: Schedule,
    ranks: usize,
    machine: &'a Machine,
    limits: Limits,
    order: Option<Order>,
}

/// The result of a [`ContractionSearch`].
#[derive(Clone, Debug)]
pub struct Contraction {
    /// The order of the kernels; `None` if one kernel is fastest, or there is nothing to order.
    pub order: Option<Order>,
    /// The schedules of the kernels. The [gap](Choice::gap) is over one kernel and all orders of pairwise contractions, or
    /// over the given order.
    pub choice: Choice,
}

impl<'a> ContractionSearch<'a> {
    /// Returns the search for this kernel, a schedule without steps, on at most `ranks` ranks, devices `0..` of the machine.
    pub fn new(schedule: &Schedule, ranks: usize, machine: &'a Machine) -> Self {
        Self { schedule: schedule.clone(), ranks, machine, limits: Limits::default(), order: None }
    }

    limited!();

    /// Considers only this order.
    pub fn order(self, order: Order) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Searches the orders from the lowest bound up, then one kernel, until nothing left can be faster.
    ///
    /// # Errors
    /// As [`Search::find`] and [`SequenceSearch::find`].
    pub fn find(&self) -> Result<Contraction, SearchError> {
        let kernel = kernel_alone(&self.schedule)?;
        let start = Instant::now();
        let mut open = Open::default();
        let of_all = Bounds::new(kernel, self.machine, self.ranks, []);
        let mut are_all = true;
        let orders = match &self.order {
            Some(order) => vec![Some(order.clone())],
            None => {
                let at_most = self.limits.at_most.map_or(f64::INFINITY, |limit| limit.as_secs_f64());
                let computing = |operations| of_all.computing(operations, self.ranks);
                let (orders, left_out) = Order::all(kernel, at_most / ORDERING, computing);
                are_all = left_out.is_none();
                left_out.into_iter().for_each(|operations| open.leave(computing(operations)));
                let whole = (orders.is_empty() || Order::may_be_one(kernel)).then_some(None);
                whole.into_iter().chain(orders.into_iter().map(Some)).collect()
            }
        };
        // One kernel may be pipelined; kernels of an order are bounded without.
        let least = |kernel: &Kernel, ahead: bool| {
            let bounds = Bounds::new(kernel, self.machine, self.ranks, []);
            let grids = grid::all(kernel, self.ranks).unwrap_or_default();
            let of_grids = grids.iter().map(|grid| bounds.least(grid)[usize::from(ahead)]).reduce(f64::min);
            of_grids.unwrap_or_else(|| bounds.least_of_all(self.ranks))
        };
        let bound = |order: &Option<Order>| match order {
            // Many stages have too many grids.
            Some(order) if order.stages().len() > MAX_BOUNDED => 0.0,
            Some(order) => order.stages().iter().map(|stage| least(stage, false)).sum(),
            None => least(kernel, true),
        };
        let only = orders.len() == 1;
        let mut orders: Vec<(f64, Option<Order>)> =
            orders.into_iter().map(|order| (if only { 0.0 } else { bound(&order) }, order)).collect();
        // One kernel has far more schedules; searched last, most are pruned by the best time so far.
        orders.sort_by(|one, other| one.1.is_none().cmp(&other.1.is_none()).then(one.0.total_cmp(&other.0)));
        let (mut best, mut failed): (Option<Contraction>, _) = (None, None);
        for (bound, order) in orders {
            let so_far = best.as_ref().map_or(f64::INFINITY, |best| best.choice.cost().seconds());
            let limits = self.limits.since(start);
            if bound >= so_far {
                continue;
            }
            if (best.is_some() || failed.is_some()) && limits.at_most == Some(Duration::ZERO) {
                open.leave(bound);
                are_all = false;
                continue;
            }
            let found = match &order {
                None => {
                    let whole = Search::new(self.schedule.clone(), self.ranks, self.machine).limits(limits);
                    let found = whole.find_below(so_far, &mut open);
                    if matches!(found, Err(SearchError::TooMany { .. })) {
                        open.leave(of_all.least_of_all(self.ranks));
                    }
                    found
                }
                Some(order) => self.ordered(order, limits).find_below(so_far, &mut open),
            };
            match found {
                Ok(Some(choice)) if choice.cost().seconds() < so_far => best = Some(Contraction { order, choice }),
                Ok(_) => {}
                Err(error) => {
                    failed = Some(match failed {
                        Some(first) => SearchError::first_or_least(first, error),
                        None => error,
                    });
                }
            }
        }
        match (best, failed) {
            (Some(mut best), _) => {
                best.choice.open.leave_all(open);
                Ok(best)
            }
            // Another order may need less memory.
            (None, Some(failed)) => {
                let failed = failed.with_enough(|memory| self.enough(memory, start));
                Err(if are_all { failed } else { failed.with_least(false) })
            }
            (None, None) => Err(SearchError::NoGrid { kernel: kernel.name().to_string(), ranks: self.ranks }),
        }
    }

    /// The number of ranks with which the given order fits into the memory, or without one, a single kernel; then an
    /// order of several kernels may fit on fewer.
    fn enough(&self, memory: u64, start: Instant) -> Enough {
        if let Some(order) = &self.order {
            return self.ordered(order, self.limits).enough(memory, start);
        }
        let whole = Search::new(self.schedule.clone(), self.ranks, self.machine).limits(self.limits);
        match whole.enough(memory, start) {
            Enough::Fewest(ranks) if self.has_orders() => Enough::Found(ranks),
            Enough::Never if self.has_orders() => Enough::NotSought,
            enough => enough,
        }
    }

    /// Whether the kernel is a product with several orders of contraction.
    fn has_orders(&self) -> bool {
        self.schedule.kernel().is_ok_and(Order::has_several)
    }

    fn ordered(&self, order: &Order, limits: Limits) -> SequenceSearch<'a> {
        let search = SequenceSearch::new(self.ranks, self.machine).limits(limits).of_few_meshes();
        order.stages().iter().fold(search, |search, stage| {
            let inputs = stage.inputs().iter().map(|tensor| tensor.name);
            search.stage(&Schedule::new(stage.clone()), inputs, stage.output().name)
        })
    }
}
