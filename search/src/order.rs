//! The order in which a product of several tensors is contracted: kernels that run one after the other and pass on
//! their results.
//!
//! A kernel of several operands contracts them in pairs on each rank (`polyhedral/src/products.rs`), so all ranks that
//! need the same intermediate result compute it redundantly. Separate kernels divide that work, and move the
//! intermediate results.

mod network;
#[cfg(test)]
mod tests;

use crate::error::SearchError;
use network::{Network, Tree};
use polyshard_layout::Name;
use polyshard_program::{Access, Affine, Assign, Kernel, KernelSpec, Value};
use std::fmt;

/// The maximum number of operands for which all orders are compared; for more, only a few of the cheapest.
const MAX_COMPARED: usize = 4;

/// The maximum number of operands for which the optimal order is found by trying all sets of them, and one kernel is
/// compared, too.
const MAX_EXACT: usize = 12;

/// The maximum number of orders that are compared for more than [`MAX_COMPARED`] operands, and how many times the
/// operations of the best they may have.
const MAX_ORDERS: usize = 3;
const MAX_RATIO: f64 = 1.5;

/// Kernels that compute a product of several tensors one after the other.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::Order;
/// use polyshard::text::{Operand, einsum};
/// let (a, b, c) = ([500, 10], [10, 300], [300, 20]);
/// let operands = [("A", &a), ("B", &b), ("C", &c)].map(|(source, shape)| Operand { source, shape });
/// let kernel = einsum("ij,jk,kl->il", &operands, DType::F64, "D")?.check()?;
/// let order = Order::parse(&kernel, "jk,kl")?;
/// assert_eq!(order.to_string(), "jk,kl; ij,jl");
/// assert_eq!(order.stages()[0].statement(), "T1[j, l] = B[j, k] * C[k, l]");
/// assert_eq!(order.stages()[1].statement(), "D[i, l] = A[i, j] * T1[j, l]");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    stages: Vec<Kernel>,
}

/// A factor of a product: an operand, or the result of others.
#[derive(Clone, Debug)]
struct Factor {
    access: Access,
    /// The positions of the operands that it contains.
    of: Vec<usize>,
    /// The kernels that compute it, in order; empty if it is an operand.
    kernels: Vec<KernelSpec>,
}

impl Factor {
    /// Its indices, each once.
    fn indices(&self) -> Vec<Name> {
        each_once(self.access.index.iter().filter_map(Affine::as_variable))
    }

    /// Its text in an order.
    fn term(access: &Access) -> String {
        access.index.iter().filter_map(Affine::as_variable).map(|name| name.to_string()).collect()
    }
}

/// The distinct names, in order of first occurrence.
fn each_once(names: impl IntoIterator<Item = Name>) -> Vec<Name> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The iterations of an index.
fn extent(kernel: &Kernel, index: Name) -> usize {
    kernel.vars().iter().find(|var| var.name == index).map_or(1, |var| var.extent)
}

impl Order {
    /// Parses an order such as `ij,jk; ik,kl`: the terms that each step contracts. A term is the indices of an operand
    /// or of a result, or the name of a tensor. Terms that are left at the end are contracted together.
    ///
    /// # Errors
    /// [`SearchError::NoOrder`] if the kernel is not a summed product of several tensors, [`SearchError::Order`] if a
    /// step names fewer than two terms, or a term that does not exist.
    pub fn parse(kernel: &Kernel, text: &str) -> Result<Self, SearchError> {
        let mut left = operands(kernel).ok_or_else(|| SearchError::NoOrder { kernel: kernel.statement() })?;
        for step in text.split(';').map(str::trim).filter(|step| !step.is_empty()) {
            let mut chosen = Vec::new();
            for term in step.split(',').map(str::trim) {
                let sorted = |text: &str| {
                    let mut letters: Vec<char> = text.chars().collect();
                    letters.sort_unstable();
                    letters
                };
                let exact =
                    |factor: &Factor| Factor::term(&factor.access) == term || factor.access.tensor.as_str() == term;
                let alike = |factor: &Factor| sorted(&Factor::term(&factor.access)) == sorted(term);
                let found = left.iter().position(exact).or_else(|| left.iter().position(alike));
                let Some(found) = found else {
                    // A term without indices is shown by its name.
                    let shown = |factor: &Factor| match Factor::term(&factor.access) {
                        term if term.is_empty() => factor.access.tensor.to_string(),
                        term => term,
                    };
                    let terms: Vec<_> = left.iter().map(shown).collect();
                    let why = match terms.is_empty() {
                        true => format!("`{term}` is one too many: no other term is left"),
                        false => format!("there is no `{term}`; what is left is {}", terms.join(", ")),
                    };
                    return Err(SearchError::Order { step: step.to_owned(), why });
                };
                chosen.push(left.remove(found));
            }
            if chosen.len() < 2 {
                let why = "it names one term; give two or more".to_owned();
                return Err(SearchError::Order { step: step.to_owned(), why });
            }
            let result = joined(kernel, chosen, &left);
            left.push(result);
        }
        Ok(Self::of(kernel, left))
    }

    /// Returns an order of pairwise contractions with few operations, whatever the machine; `None` if there is nothing
    /// to order.
    #[must_use]
    pub fn pairwise(kernel: &Kernel) -> Option<Self> {
        let operands = operands(kernel).filter(|operands| operands.len() >= 3)?;
        let tree = Network::new(kernel, &operands).greedy();
        Some(Self::of_tree(kernel, operands, &tree))
    }

    /// Whether a kernel is a product that can be contracted in several orders.
    pub(crate) fn has_several(kernel: &Kernel) -> bool {
        operands(kernel).is_some_and(|operands| operands.len() >= 3)
    }

    /// Whether one kernel may be fastest: its points can be counted, and it has at most [`MAX_EXACT`] operands, beyond
    /// which some order is sure to be faster.
    pub(crate) fn may_be_one(kernel: &Kernel) -> bool {
        kernel.check_points().is_ok() && operands(kernel).is_none_or(|operands| operands.len() <= MAX_EXACT)
    }

    /// All orders in which a product of several tensors can be contracted in pairs, without duplicates; for many
    /// operands, a few of the cheapest. Also returns a lower bound on the operations of orders that were left out, if
    /// any. The search for them takes at most `at_most` seconds, and no longer than the operations of the best order
    /// take by `seconds`.
    pub(crate) fn all(kernel: &Kernel, at_most: f64, seconds: impl Fn(f64) -> f64) -> (Vec<Self>, Option<f64>) {
        let Some(operands) = operands(kernel).filter(|operands| operands.len() >= 3) else {
            return (Vec::new(), None);
        };
        if operands.len() <= MAX_COMPARED {
            let mut orders = Vec::new();
            pairs(kernel, operands, &mut orders);
            return (orders, None);
        }
        let network = Network::new(kernel, &operands);
        let (mut trees, least) = match operands.len() {
            ..=MAX_EXACT => {
                let trees = [network.exact(), network.greedy()].map(|tree| (network.operations(&tree), tree));
                let least = trees[0].0;
                (trees.to_vec(), least)
            }
            _ => (network.annealed(at_most, seconds), network.fewest_operations()),
        };
        let most = MAX_RATIO * trees[0].0;
        trees.retain(|(operations, _)| *operations <= most);
        trees.truncate(MAX_ORDERS);
        let mut orders: Vec<Self> = Vec::new();
        for order in trees.iter().map(|(_, tree)| Self::of_tree(kernel, operands.clone(), tree)) {
            if orders.iter().all(|other| other.steps() != order.steps()) {
                orders.push(order);
            }
        }
        (orders, Some(least))
    }

    /// Contracts pairs as a tree says.
    fn of_tree(kernel: &Kernel, mut left: Vec<Factor>, tree: &Tree) -> Self {
        // Computes the factor of a tree, and removes its operands from `left`.
        fn take(kernel: &Kernel, tree: &Tree, left: &mut Vec<Factor>) -> Factor {
            let taken = |left: &mut Vec<Factor>, of: &[usize]| {
                let at = left.iter().position(|factor| factor.of == of);
                left.remove(at.expect("a tree has each operand once; this is a bug in polyshard"))
            };
            match tree {
                Tree::Operand(nth) => taken(left, &[*nth]),
                Tree::Pair(pair) => {
                    let first = take(kernel, &pair[0], left);
                    let of = first.of.clone();
                    // The second half must keep the indices that the first needs.
                    left.push(first);
                    let second = take(kernel, &pair[1], left);
                    let first = taken(left, &of);
                    joined(kernel, vec![first, second], left)
                }
            }
        }
        let whole = take(kernel, tree, &mut left);
        Self::of(kernel, vec![whole])
    }

    /// The kernels, the last of which contracts the factors that are left.
    fn of(kernel: &Kernel, left: Vec<Factor>) -> Self {
        let mut specs: Vec<KernelSpec> = left.iter().flat_map(|factor| factor.kernels.clone()).collect();
        let last = match &left[..] {
            // The kernel that computes the last factor writes the output instead.
            [_] => {
                let KernelSpec { inputs, value, .. } =
                    specs.pop().expect("a whole is made; this is a bug in polyshard");
                KernelSpec { inputs, value, ..kernel.spec() }
            }
            _ => {
                let (inputs, value) = product(kernel, &left);
                KernelSpec { inputs, value, ..kernel.spec() }
            }
        };
        specs.push(last);
        let check = |spec: KernelSpec| spec.check().expect("parts of a kernel are kernels; this is a bug in polyshard");
        Self { stages: renamed(kernel, specs).into_iter().map(check).collect() }
    }

    /// The terms of each contraction, independent of order.
    fn steps(&self) -> Vec<Vec<String>> {
        let step = |kernel: &Kernel| {
            let mut terms: Vec<String> = kernel.value().accesses().into_iter().map(Factor::term).collect();
            terms.sort_unstable();
            terms
        };
        let mut steps: Vec<_> = self.stages.iter().map(step).collect();
        steps.sort_unstable();
        steps
    }

    /// Returns the kernels, in the order in which they run; the last one writes the output.
    #[must_use]
    pub fn stages(&self) -> &[Kernel] {
        &self.stages
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = |kernel: &Kernel| -> String {
            let terms: Vec<_> = kernel.value().accesses().into_iter().map(Factor::term).collect();
            terms.join(",")
        };
        f.write_str(&self.stages.iter().map(step).collect::<Vec<_>>().join("; "))
    }
}

/// The factors of a product; `None` if the kernel is not a sum of products of several tensors with plain indices, or
/// has explicit ranges.
fn operands(kernel: &Kernel) -> Option<Vec<Factor>> {
    let spec = kernel.spec();
    let is_sum = [Assign::Set, Assign::Add].contains(&kernel.assign());
    let is_plain =
        |access: &Access| access.outside.is_none() && access.index.iter().all(|index| index.as_variable().is_some());
    let factors = kernel.value().factors()?;
    let all = factors.iter().copied().chain([kernel.target()]);
    if !is_sum || !spec.ranges.is_empty() || factors.len() < 2 || !all.into_iter().all(is_plain) {
        return None;
    }
    let operand =
        |(nth, access): (usize, &Access)| Factor { access: access.clone(), of: vec![nth], kernels: Vec::new() };
    Some(factors.into_iter().enumerate().map(operand).collect())
}

/// The product of these factors, summed over the indices that neither the others nor the output need.
fn joined(kernel: &Kernel, chosen: Vec<Factor>, left: &[Factor]) -> Factor {
    let target = kernel.target().index.iter().filter_map(Affine::as_variable);
    let needed: Vec<Name> = left.iter().flat_map(Factor::indices).chain(target).collect();
    let indices = each_once(chosen.iter().flat_map(Factor::indices).filter(|name| needed.contains(name)));
    // Until results are numbered, they are named after their operands.
    let of: Vec<usize> = chosen.iter().flat_map(|factor| factor.of.clone()).collect();
    let name = Name::new(&format!("{of:?}"));
    let access = Access::new(name, indices.iter().map(|&name| Affine::new([(name, 1)], 0)).collect());
    let (inputs, value) = product(kernel, &chosen);
    let made = KernelSpec {
        name: kernel.name(),
        dtype: kernel.dtype(),
        inputs,
        output: (name, indices.iter().map(|&index| extent(kernel, index) as i128).collect()),
        ranges: Vec::new(),
        scalars: Vec::new(),
        moduli: Vec::new(),
        target: access.clone(),
        assign: Assign::Set,
        value,
    };
    let kernels = chosen.into_iter().flat_map(|factor| factor.kernels).chain([made]).collect();
    Factor { access, of, kernels }
}

/// The tensors that a product reads, with their shapes, and its value.
fn product(kernel: &Kernel, factors: &[Factor]) -> (Vec<(Name, Vec<i128>)>, Value) {
    let mut inputs: Vec<(Name, Vec<i128>)> = Vec::new();
    for factor in factors {
        let given = kernel.inputs().iter().find(|tensor| tensor.name == factor.access.tensor);
        let shape = match (factor.kernels.last(), given) {
            (Some(made), _) => made.output.1.clone(),
            (None, given) => given.iter().flat_map(|tensor| &tensor.shape).map(|&extent| extent as i128).collect(),
        };
        if inputs.iter().all(|(name, _)| *name != factor.access.tensor) {
            inputs.push((factor.access.tensor, shape));
        }
    }
    let accesses = factors.iter().map(|factor| Value::Access(factor.access.clone()));
    let product = accesses.reduce(|left, right| Value::Mul(Box::new(left), Box::new(right)));
    (inputs, product.expect("a product has factors"))
}

/// Names results and kernels by their number.
fn renamed(kernel: &Kernel, mut specs: Vec<KernelSpec>) -> Vec<KernelSpec> {
    let is_taken = |name: &str| {
        let indices = kernel.vars().iter().map(|var| var.name);
        indices.chain(kernel.tensors().map(|tensor| tensor.name)).any(|other| other.as_str() == name)
    };
    let last = specs.len() - 1;
    for nth in 0..last {
        let mut text = format!("T{}", nth + 1);
        while is_taken(&text) {
            text.push('_');
        }
        let (old, new) = (specs[nth].output.0, Name::new(&text));
        specs[nth].output.0 = new;
        specs[nth].target.tensor = new;
        specs[nth].name = Name::new(&format!("{}_{}", kernel.name(), nth + 1));
        for spec in &mut specs[nth + 1..] {
            spec.inputs.iter_mut().filter(|(name, _)| *name == old).for_each(|(name, _)| *name = new);
            rename(&mut spec.value, old, new);
        }
    }
    specs
}

fn rename(value: &mut Value, old: Name, new: Name) {
    match value {
        Value::Access(access) if access.tensor == old => access.tensor = new,
        Value::Mul(left, right) => {
            rename(left, old, new);
            rename(right, old, new);
        }
        _ => {}
    }
}

/// All orders of pairwise contractions, each once.
fn pairs(kernel: &Kernel, left: Vec<Factor>, orders: &mut Vec<Order>) {
    if left.len() <= 2 {
        let order = Order::of(kernel, left);
        if orders.iter().all(|other| other.steps() != order.steps()) {
            orders.push(order);
        }
        return;
    }
    for one in 0..left.len() {
        for other in one + 1..left.len() {
            let mut rest = left.clone();
            let second = rest.remove(other);
            let first = rest.remove(one);
            let result = joined(kernel, vec![first, second], &rest);
            rest.push(result);
            pairs(kernel, rest, orders);
        }
    }
}

impl Network {
    fn new(kernel: &Kernel, operands: &[Factor]) -> Self {
        let vars = kernel.vars();
        let number = |name: Name| vars.iter().position(|var| var.name == name).expect("an index of the kernel");
        let target = Factor { access: kernel.target().clone(), of: Vec::new(), kernels: Vec::new() }.indices();
        Self {
            operands: operands.iter().map(|operand| operand.indices().into_iter().map(number).collect()).collect(),
            extents: vars.iter().map(|var| var.extent as f64).collect(),
            is_output: vars.iter().map(|var| target.contains(&var.name)).collect(),
            adds: kernel.assign() != Assign::Set,
        }
    }
}
