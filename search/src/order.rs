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
use crate::variant::{fresh, names_of};
use network::{Contracted, Network, Tree};
use polyshard_layout::{Name, each_once};
use polyshard_program::{Access, Affine, Assign, Kernel, KernelSpec};
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

/// A term of an order: an operand, or the result of others.
struct Term {
    /// Its number among the parts of the network.
    part: usize,
    tree: Tree,
    /// Its indices.
    text: String,
    name: String,
}

impl Term {
    fn operand((nth, access): (usize, &&Access)) -> Self {
        Self { part: nth, tree: Tree::Operand(nth), text: text_of(access), name: access.tensor.to_string() }
    }
}

/// The text of an operand or a result in an order.
fn text_of(access: &Access) -> String {
    access.index.iter().filter_map(Affine::as_variable).map(|name| name.to_string()).collect()
}

impl Order {
    /// Parses an order such as `ij,jk; ik,kl`: the terms that each step contracts. A term is the indices of an operand
    /// or of a result, or the name of a tensor. Terms that are left at the end are contracted together.
    ///
    /// # Errors
    /// [`SearchError::NoOrder`] if the kernel is not a summed product of several tensors, [`SearchError::Order`] if a
    /// step names fewer than two terms, or a term that does not exist.
    pub fn parse(kernel: &Kernel, text: &str) -> Result<Self, SearchError> {
        let operands = operands(kernel).ok_or_else(|| SearchError::NoOrder { kernel: kernel.statement() })?;
        let network = Network::new(kernel, &operands);
        let mut contracted = Contracted::new(&network);
        let mut left: Vec<Term> = operands.iter().enumerate().map(Term::operand).collect();
        for step in text.split(';').map(str::trim).filter(|step| !step.is_empty()) {
            let mut chosen = Vec::new();
            for term in step.split(',').map(str::trim) {
                let sorted = |text: &str| {
                    let mut letters: Vec<char> = text.chars().collect();
                    letters.sort_unstable();
                    letters
                };
                let exact = |other: &Term| other.text == term || other.name == term;
                let alike = |other: &Term| sorted(&other.text) == sorted(term);
                let found = left.iter().position(exact).or_else(|| left.iter().position(alike));
                let Some(found) = found else {
                    // A term without indices is shown by its name.
                    let shown = |term: &Term| if term.text.is_empty() { term.name.clone() } else { term.text.clone() };
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
            let (parts, trees): (Vec<_>, Vec<_>) = chosen.into_iter().map(|term| (term.part, term.tree)).unzip();
            let ((part, _), tree) = (contracted.join(&parts), Tree::Product(trees));
            let text = contracted.indices(part).iter().map(|&index| kernel.vars()[index].name.to_string()).collect();
            // Its kernel has no name yet.
            let name = format!("{:?}", tree.operands());
            left.push(Term { part, tree, text, name });
        }
        let mut trees: Vec<Tree> = left.into_iter().map(|term| term.tree).collect();
        let whole = if trees.len() == 1 { trees.remove(0) } else { Tree::Product(trees) };
        Ok(Self::of_tree(kernel, &operands, &whole))
    }

    /// Returns an order of pairwise contractions with few operations, whatever the machine; `None` if there is nothing
    /// to order.
    #[must_use]
    pub fn pairwise(kernel: &Kernel) -> Option<Self> {
        let operands = operands(kernel).filter(|operands| operands.len() >= 3)?;
        let tree = Network::new(kernel, &operands).greedy();
        Some(Self::of_tree(kernel, &operands, &tree))
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
        let (trees, least) = if operands.len() <= MAX_COMPARED {
            let mut trees = Vec::new();
            add_trees((0..operands.len()).map(Tree::Operand).collect(), &mut trees);
            (trees, None)
        } else {
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
            (trees.into_iter().map(|(_, tree)| tree).collect(), Some(least))
        };
        let mut orders: Vec<Self> = Vec::new();
        for order in trees.iter().map(|tree| Self::of_tree(kernel, &operands, tree)) {
            if orders.iter().all(|other| other.steps() != order.steps()) {
                orders.push(order);
            }
        }
        (orders, least)
    }

    /// The kernels that contract operands as a tree says, a kernel for each product; the last one writes the output.
    fn of_tree(kernel: &Kernel, operands: &[&Access], tree: &Tree) -> Self {
        let shape_of = |access: &&Access| {
            let given = kernel.inputs().iter().find(|tensor| tensor.name == access.tensor);
            given.iter().flat_map(|tensor| &tensor.shape).map(|&extent| extent as i128).collect()
        };
        // All parts of the network, with their shapes: operands, then results.
        let mut parts: Vec<(Access, Vec<i128>)> =
            operands.iter().map(|access| ((*access).clone(), shape_of(access))).collect();
        let mut specs: Vec<KernelSpec> = Vec::new();
        let network = Network::new(kernel, operands);
        Contracted::new(&network).contract(tree, &mut |factors, kept| {
            let number = specs.len() + 1;
            let name = fresh(&format!("T{number}"), |name| names_of(kernel).any(|other| other == name));
            let vars: Vec<_> = kept.iter().map(|&index| &kernel.vars()[index]).collect();
            let target = Access::new(name, vars.iter().map(|var| Affine::new([(var.name, 1)], 0)).collect());
            let shape: Vec<i128> = vars.iter().map(|var| var.extent as i128).collect();
            let factors = factors.iter().map(|&factor| parts[factor].clone()).collect();
            let of = Name::new(&format!("{}_{number}", kernel.name()));
            let spec = KernelSpec::product(of, kernel.dtype(), factors, (target.clone(), shape.clone()));
            specs.push(spec.expect("a product has factors"));
            parts.push((target, shape));
        });
        let KernelSpec { inputs, value, .. } = specs.pop().expect("a whole is made; this is a bug in polyshard");
        specs.push(KernelSpec { inputs, value, ..kernel.spec().clone() });
        let check = |spec: KernelSpec| spec.check().expect("parts of a kernel are kernels; this is a bug in polyshard");
        Self { stages: specs.into_iter().map(check).collect() }
    }

    /// The terms of each contraction, independent of order.
    fn steps(&self) -> Vec<Vec<String>> {
        let mut steps: Vec<_> = self.stages.iter().map(terms).collect();
        steps.iter_mut().for_each(|terms| terms.sort_unstable());
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
        f.write_str(&self.stages.iter().map(|stage| terms(stage).join(",")).collect::<Vec<_>>().join("; "))
    }
}

/// The terms that a kernel contracts.
fn terms(kernel: &Kernel) -> Vec<String> {
    kernel.value().accesses().into_iter().map(text_of).collect()
}

/// The factors of a product; `None` if the kernel is not a sum of products of several tensors with plain indices, or
/// has explicit ranges.
fn operands(kernel: &Kernel) -> Option<Vec<&Access>> {
    let is_sum = [Assign::Set, Assign::Add].contains(&kernel.assign());
    let is_plain =
        |access: &Access| access.outside.is_none() && access.index.iter().all(|index| index.as_variable().is_some());
    let factors = kernel.value().factors()?;
    let all = factors.iter().copied().chain([kernel.target()]);
    if !is_sum || !kernel.spec().ranges.is_empty() || factors.len() < 2 || !all.into_iter().all(is_plain) {
        return None;
    }
    Some(factors)
}

/// Adds the trees that contract these parts in pairs.
fn add_trees(left: Vec<Tree>, trees: &mut Vec<Tree>) {
    if left.len() <= 2 {
        trees.push(Tree::Product(left));
        return;
    }
    for one in 0..left.len() {
        for other in one + 1..left.len() {
            let mut rest = left.clone();
            let second = rest.remove(other);
            let first = rest.remove(one);
            rest.push(Tree::pair([first, second]));
            add_trees(rest, trees);
        }
    }
}

impl Network {
    fn new(kernel: &Kernel, operands: &[&Access]) -> Self {
        let vars = kernel.vars();
        let number = |index: &Affine| vars.iter().position(|var| Some(var.name) == index.as_variable());
        let numbers = |access: &Access| each_once(access.index.iter().filter_map(number));
        let target = numbers(kernel.target());
        Self {
            operands: operands.iter().map(|operand| numbers(operand)).collect(),
            extents: vars.iter().map(|var| var.extent as f64).collect(),
            is_output: (0..vars.len()).map(|var| target.contains(&var)).collect(),
            adds: kernel.assign() != Assign::Set,
        }
    }
}
