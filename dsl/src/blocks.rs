//! The statements of a block as kernels, one after the other, with the versions of the arrays that they read and write.
//!
//! ```text
//! fn f(B: [T; n]) -> (X: [T; n], s: T) {
//!     X[i] = 0.0;
//!     let D[i] = B[i];                        D is B: a copy is a name
//!     repeat(10, until s < 1e-9) {            repeat(10, X'2 = X'1, then X'3, .., until s'3 < 1e-9)
//!         X[i] = X[i] + 0.5 * D[i];           X'3 = f(X'2, B), X'[i] = X[i] + 0.5 * D[i]
//!         s = X[i] * X[i];                    s'3 = f(X'3), s = X[i] * X[i]
//!     }
//! }
//! ```
//!
//! Each statement becomes a kernel, which has the names of the block and of its arrays, and writes a new version. Only users of the
//! values know versions, which have a prime and a number. A statement that writes a part of an array, or adds to it, continues the
//! version before. `check` then checks the kernels one by one, so that only what concerns several statements is checked here. Nothing is
//! evaluated: extents may still be names.

mod names;
mod prune;
mod records;
pub(crate) mod spec;
mod steps;

use names::plain;
pub(crate) use names::{Versions, in_names};
use spec::{BlockMistake, IndexExtent, without_value};

use crate::check::index::{alone, identifiers};
use crate::errors::{Errors, error, error_at, listed};
use crate::name::{array, moved, name, version};
use crate::reductions::Reduction;
use crate::rounds::{DEEPEST, Repeated, Rounds};
use crate::syntax::{Block, Function, Item, Line, Range, Repeat, Returned, Statement, Tensor};
use crate::value::{Access, BinaryOp, Condition, Value};
use crate::values::Values;
use polyshard_layout::{Name, are, counted, did_you_mean, each_once};
use polyshard_program::{Assign, Comparison, Continued};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use std::collections::HashMap;
use syn::{Expr, Ident, Result, Type, Visibility, parse_quote};

/// The kernels of a block, in order.
pub(crate) struct Elaborated {
    pub(crate) kernels: Vec<Part>,
    /// Outer rounds precede inner ones; kernels are numbered from 0.
    pub(crate) rounds: Vec<Repeated>,
    /// The results, each with the version that the block leaves.
    pub(crate) results: Vec<(Ident, Ident)>,
    /// The indices of accesses that stand alone, with the extents that they have there; those of one name must agree.
    pub(crate) indices: Vec<Bound>,
    /// The rounds, by number, that write arrays without a value before them, with one of these.
    pub(crate) unset: Vec<(usize, Ident)>,
    /// The arrays that have versions, parameters first.
    pub(crate) arrays: Vec<Ident>,
    /// The arrays of records, each with those that a running reduction writes.
    pub(crate) records: Vec<(Ident, Vec<Ident>)>,
}

/// A kernel of a block.
pub(crate) struct Part {
    pub(crate) block: Block,
    pub(crate) previous: Option<Continued<Ident>>,
    /// The versions of its inputs.
    pub(crate) reads: Vec<Ident>,
    /// The version that it writes.
    pub(crate) writes: Ident,
}

/// An index that stands alone in an access.
pub struct Bound {
    /// The index.
    pub index: Ident,
    /// The array.
    pub array: Ident,
    /// The number of the dimension.
    pub dim: usize,
    /// The extent of the dimension.
    pub extent: Expr,
    /// The access, as text.
    pub access: String,
}

/// A declared array.
struct Array {
    tensor: Tensor,
    /// Whether its extents are known.
    is_sized: bool,
    /// The current version, and whether it has elements: rounds begin with a version without.
    version: Option<Ident>,
    is_set: bool,
    is_visible: bool,
    /// Whether it ever has a version of its own.
    is_listed: bool,
    /// By dimension: an index that stands alone there in some access.
    indices: Vec<Option<Ident>>,
}

/// The names of pairs.
pub(crate) fn pairs(all: &[(Ident, Ident)]) -> Vec<(Name, Name)> {
    all.iter().map(|(one, other)| (name(one), name(other))).collect()
}

/// The names of arrays of records, and of those that are written by them.
pub(crate) fn of_records(all: &[(Ident, Vec<Ident>)]) -> Vec<(Name, Vec<Name>)> {
    all.iter().map(|(array, targets)| (name(array), targets.iter().map(name).collect())).collect()
}

/// The extents of indices, where they are numbers.
pub(crate) fn extents(indices: &[Bound], values: &Values) -> Vec<IndexExtent> {
    let extent = |Bound { index, array, dim, extent, access }: &Bound| {
        let extent = values.evaluate(extent)?;
        Some(IndexExtent { index: name(index), array: name(array), dim: *dim, extent, access: access.clone() })
    };
    indices.iter().filter_map(extent).collect()
}

/// Reports arrays that rounds alone write, of which there are none.
pub(crate) fn check_set(unset: &[(usize, Ident)], rounds: &[Rounds], errors: &mut Errors) {
    for (_, array) in unset.iter().filter(|(row, _)| rounds[*row].times == 0) {
        let (message, help) = without_value(array);
        errors.push(array, message, help);
    }
}

/// The mistakes of a block as errors, each at its index or step, or at the block's name.
pub(crate) fn in_place(mistakes: Vec<BlockMistake>, block: &Ident, at: &dyn Fn(usize) -> Ident) -> Result<()> {
    let mut errors = Errors::default();
    for BlockMistake { of, message, help } in mistakes {
        errors.push(of.map_or_else(|| block.clone(), at), message, help);
    }
    errors.finish(())
}

/// The state of an elaboration.
struct Elaborator<'a> {
    name: Ident,
    vis: Visibility,
    element: Type,
    arrays: Vec<Array>,
    /// By name: the number of an array.
    numbers: HashMap<String, usize>,
    /// By name of an index: its extent.
    extents: HashMap<String, Expr>,
    versions: &'a mut Versions,
    reductions: &'a [Reduction],
    /// The arrays with a sharding of their own, which are copied.
    sharded: &'a [Name],
    /// The versions that statements write or rounds carry, by name, with the number of rounds around them.
    made: HashMap<String, usize>,
    depth: usize,
    out: Elaborated,
    errors: Errors,
}

/// Returns the kernels of a block. `before` has the versions of arrays that earlier blocks leave.
/// Those that the schedule shards are not renamed.
pub(crate) fn elaborate(
    function: Function,
    before: &[(Ident, Ident)],
    versions: &mut Versions,
    reductions: &[Reduction],
    sharded: &[Name],
) -> Result<Elaborated> {
    let Function { vis, name, inputs, results, items, .. } = function;
    let declared = |returned: &Returned| match returned {
        Returned::Declared(tensor) => Some(Tensor::clone(tensor)),
        Returned::Parameter(_) => None,
    };
    let results: Vec<(Ident, Option<Tensor>)> =
        results.iter().map(|returned| (returned.name().clone(), declared(returned))).collect();
    let first = inputs.iter().chain(results.iter().filter_map(|(_, tensor)| tensor.as_ref())).next();
    let Some(element) = first.map(|tensor| tensor.element.clone()) else {
        return Err(error(&name, "the block has no array", "declare what it returns: `-> X: [f64; n]`"));
    };
    let out = Elaborated {
        kernels: Vec::new(),
        rounds: Vec::new(),
        results: Vec::new(),
        indices: Vec::new(),
        unset: Vec::new(),
        arrays: Vec::new(),
        records: Vec::new(),
    };
    let mut elaborator = Elaborator {
        name,
        vis,
        element,
        arrays: Vec::new(),
        numbers: HashMap::new(),
        extents: HashMap::new(),
        versions,
        reductions,
        sharded,
        made: HashMap::new(),
        depth: 0,
        out,
        errors: Errors::default(),
    };
    let count = inputs.len();
    for tensor in inputs.into_iter().chain(results.iter().filter_map(|(_, tensor)| tensor.clone())) {
        elaborator.declare(tensor, true);
    }
    elaborator.errors.stop()?;
    let mut given = Vec::with_capacity(count);
    for array in &mut elaborator.arrays[..count] {
        let left = before.iter().find(|(name, _)| *name == array.tensor.name);
        let version = left.map_or(&array.tensor.name, |(_, version)| version);
        array.version = Some(version.clone());
        array.is_set = true;
        array.is_listed = true;
        given.push(version.clone());
        elaborator.out.arrays.push(array.tensor.name.clone());
    }
    elaborator.declare_all(&items);
    elaborator.errors.stop()?;
    elaborator.extents_have_own_names();
    elaborator.infer(&items);
    elaborator.errors.stop()?;
    elaborator.items(&items);
    elaborator.errors.stop()?;
    for (nth, (result, _)) in results.iter().enumerate() {
        if results[..nth].iter().any(|(other, _)| other == result) {
            elaborator.errors.push(result, format!("`{result}` is returned twice"), "return each array once");
        } else {
            elaborator.result(result);
        }
    }
    elaborator.errors.stop()?;
    elaborator.out.prune();
    for (array, version) in elaborator.arrays[..count].iter().zip(&given) {
        if !elaborator.out.uses(version) {
            let name = &array.tensor.name;
            let help =
                format!("read it before it is written, or remove it; `let {name}` declares an array of the block");
            elaborator.errors.push(name, format!("no result depends on the given value of `{name}`"), help);
        }
    }
    if elaborator.out.kernels.is_empty() {
        let help = "write a statement that computes a result";
        elaborator.errors.push(&elaborator.name, "the block computes nothing", help);
    }
    elaborator.errors.finish(elaborator.out)
}

impl Elaborated {
    /// Whether a version is read, continued, or that of the first round.
    fn uses(&self, version: &Ident) -> bool {
        let of_kernel = |part: &Part| {
            let previous = part.previous.as_ref().map(|previous| &previous.array);
            part.reads.iter().chain(previous).any(|other| other == version)
        };
        self.kernels.iter().any(of_kernel) || self.rounds.iter().any(|rounds| rounds.begins_with(version))
    }
}

impl Array {
    /// An array that no statement can name.
    fn hidden(tensor: Tensor) -> Self {
        let (version, indices, is_set, is_visible) = (None, Vec::new(), false, false);
        Self { tensor, is_sized: true, version, is_set, is_visible, is_listed: true, indices }
    }
}

impl Elaborator<'_> {
    /// Declares an array, whose name must be new.
    fn declare(&mut self, tensor: Tensor, is_sized: bool) {
        let name = tensor.name.to_string();
        if name == "inf" {
            return self.errors.push(&tensor.name, "`inf` is infinity", "give the array another name");
        }
        if self.numbers.contains_key(&name) {
            let message = format!("the name `{name}` is declared twice in the block");
            return self.errors.push(&tensor.name, message, "give each array a name of its own");
        }
        self.numbers.insert(name, self.arrays.len());
        self.arrays.push(Array { is_sized, is_visible: true, is_listed: false, ..Array::hidden(tensor) });
    }

    /// Declares the arrays of `let`, which are not visible yet.
    fn declare_all(&mut self, items: &[Item]) {
        for item in items {
            let before = self.arrays.len();
            match item {
                Item::Statement(..) | Item::Reduced(..) => {
                    for target in declared(item) {
                        let (name, element) = (target.tensor.clone(), self.element.clone());
                        self.declare(Tensor { name, element, extents: Vec::new() }, target.indices.is_empty());
                    }
                }
                Item::Declared(tensor) => self.declare(tensor.clone(), true),
                Item::Repeat(repeat) => {
                    self.declare_all(&repeat.items);
                    continue;
                }
            }
            self.arrays[before..].iter_mut().for_each(|array| array.is_visible = false);
        }
    }

    /// Reports arrays with the name of an extent.
    fn extents_have_own_names(&mut self) {
        let extents = self.arrays.iter().flat_map(|array| &array.tensor.extents).flat_map(identifiers);
        for extent in each_once(extents) {
            if let Some(&number) = self.numbers.get(&extent.to_string()) {
                let help = "rename one of them; an extent is a number that is known before the block runs";
                let array = &self.arrays[number].tensor.name;
                self.errors.push(array, format!("the array `{array}` has the name of an extent"), help);
            }
        }
    }

    /// Finds the extents of indices, and of arrays that `let` declares by an access, from each other.
    fn infer(&mut self, items: &[Item]) {
        let lines = lines(items);
        loop {
            let before = (self.extents.len(), self.arrays.iter().filter(|array| array.is_sized).count());
            for (line, is_let) in &lines {
                let target = &line.statement.target;
                let accesses = line.statement.value.accesses().into_iter().chain([target]);
                for access in accesses.filter(|access| access.outside.is_none()) {
                    let Some(&number) = self.numbers.get(&access.tensor.to_string()) else { continue };
                    let tensor = &self.arrays[number].tensor;
                    if !self.arrays[number].is_sized || tensor.extents.len() != access.indices.len() {
                        continue;
                    }
                    for (index, extent) in access.indices.iter().zip(&tensor.extents) {
                        let Some(index) = alone(index).filter(|index| !is_stated(line, index)) else { continue };
                        self.extents.entry(index.to_string()).or_insert_with(|| extent.clone());
                    }
                }
                let Some(&number) = self.numbers.get(&target.tensor.to_string()) else { continue };
                if *is_let && !self.arrays[number].is_sized {
                    let extent = |index| {
                        let index = alone(index).filter(|index| !is_stated(line, index))?;
                        self.extents.get(&index.to_string()).cloned()
                    };
                    if let Some(extents) = target.indices.iter().map(extent).collect::<Option<Vec<_>>>() {
                        (self.arrays[number].tensor.extents, self.arrays[number].is_sized) = (extents, true);
                    }
                }
            }
            if before == (self.extents.len(), self.arrays.iter().filter(|array| array.is_sized).count()) {
                break;
            }
        }
        for (line, _) in &lines {
            let target = &line.statement.target;
            for access in [target].into_iter().chain(line.statement.value.accesses()) {
                let Some(&number) = self.numbers.get(&access.tensor.to_string()) else { continue };
                let Array { tensor, indices, .. } = &mut self.arrays[number];
                indices.resize(tensor.extents.len(), None);
                for (known, index) in indices.iter_mut().zip(&access.indices) {
                    *known = known.take().or_else(|| alone(index).cloned());
                }
            }
        }
        for (line, _) in lines.iter().filter(|(_, is_let)| *is_let) {
            let target = &line.statement.target;
            if !self.arrays[self.numbers[&target.tensor.to_string()]].is_sized {
                let name = &target.tensor;
                let dims = vec!["n"; target.indices.len()].join(", ");
                let help =
                    format!("declare it before the statement: `let {name}: [{}; {dims}];`", shown(&self.element));
                self.errors.push(target, format!("the extents of `{name}` are not known"), help);
            }
        }
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Statement(line, is_let) => self.statement(line, *is_let),
                Item::Reduced(reduced, is_let) => self.reduction(reduced, *is_let),
                Item::Declared(tensor) => self.show(&tensor.name),
                Item::Repeat(repeat) => self.repeat(repeat),
            }
            // A `let` does not see the name that it declares.
            declared(item).for_each(|target| self.show(&target.tensor));
        }
    }

    /// Makes a declared array visible.
    fn show(&mut self, name: &Ident) {
        let number = self.numbers[&name.to_string()];
        self.arrays[number].is_visible = true;
    }

    /// The array with this name, if one is visible.
    fn find(&self, name: &Ident) -> Option<usize> {
        self.numbers.get(&name.to_string()).copied().filter(|&number| self.arrays[number].is_visible)
    }

    /// Reports that no array has this name.
    fn unknown(&mut self, name: &Ident, what: &str, help: &str) {
        let visible = self.arrays.iter().filter(|array| array.is_visible);
        let names: Vec<String> = visible.map(|array| array.tensor.name.to_string()).collect();
        let meant = did_you_mean(&name.to_string(), names.iter().map(String::as_str));
        let help = if meant.is_empty() { help.to_owned() } else { format!("{meant}the arrays are {}", listed(&names)) };
        self.errors.push(name, format!("{what} `{name}`"), help);
    }

    /// A new version of an array.
    fn next(&mut self, number: usize, at: Span) -> Ident {
        let array = &mut self.arrays[number];
        let version = moved(&self.versions.next(&array.tensor.name), at);
        if !std::mem::replace(&mut array.is_listed, true) {
            self.out.arrays.push(array.tensor.name.clone());
        }
        self.made.insert(plain(&version), self.depth);
        version
    }

    /// The array that a statement writes, which it declares or which is visible. A declaration would be `shown`.
    fn written(&mut self, target: &Access, is_let: bool, shown: &str) -> Option<usize> {
        if is_let {
            return self.numbers.get(&target.tensor.to_string()).copied();
        }
        let found = self.find(&target.tensor);
        if found.is_none() {
            self.unknown(&target.tensor, "the statement writes", &format!("declare it: `let {shown}`"));
        }
        found
    }

    /// The value of a line, which reads scalars without brackets, and the indices of the line.
    fn value(&mut self, Line { statement, ranges }: &Line) -> (Value, Vec<Ident>) {
        let mut value = statement.value.clone();
        let indices = indices(&statement.target, &value, ranges);
        value.read_scalars(&|name| !indices.contains(name) && self.find(name).is_some_and(|at| self.is_scalar(at)));
        self.are_numbers(&value, &indices);
        (value, indices)
    }

    /// Adds the kernel of a statement.
    fn statement(&mut self, line: &Line, is_let: bool) {
        let Line { statement: Statement { target, assign, tokens, .. }, ranges } = line;
        let Some(number) = self.written(target, is_let, &target.shown()) else { return };
        let (value, indices) = self.value(line);
        for end in ranges.iter().filter_map(|range| match &range.bounds {
            Expr::Range(bounds) => Some([&bounds.start, &bounds.end]),
            _ => None,
        }) {
            end.into_iter().flatten().for_each(|end| self.is_number(end));
        }
        let Some(reads) = self.reads(&value) else { return };
        if !self.has_all_indices(target, &self.arrays[number].tensor.clone()) {
            return;
        }
        self.is_added_once(target, *assign, &value, ranges);
        self.note_indices(target, &value, ranges);
        if let Some(copied) = self.copied(target, *assign, &value, ranges, number) {
            let array = &mut self.arrays[number];
            (array.version, array.is_set) = (Some(copied), true);
            return;
        }
        let Array { version, is_set, .. } = &self.arrays[number];
        if *assign != Assign::Set && version.is_some() && !is_set {
            let name = &target.tensor;
            let message = format!("`{name}` has no value when the first round begins");
            let help = format!(
                "give it one before the rounds, such as `{}`; or declare it in them: `let {name}`",
                initial(target, *assign)
            );
            return self.errors.push(target, message, help);
        }
        let is_whole = is_whole(target, ranges);
        let current = self.arrays[number].version.clone().filter(|_| self.arrays[number].is_set);
        let previous = match (assign, current) {
            (Assign::Set, _) if is_whole => None,
            (_, Some(version)) => Some(Continued { array: version, adds: *assign != Assign::Set }),
            (_, None) if is_whole => None,
            (_, None) => {
                let name = &target.tensor;
                let message = format!("the first statement that writes `{name}` writes a part of it");
                let indices: Vec<_> = (0..target.indices.len()).map(|dim| format!("i{dim}")).collect();
                let help = format!("give all elements a value before: `{name}[{}] = 0.0`", indices.join(", "));
                return self.errors.push(target, message, help);
            }
        };
        let ranges = self.ranged(&value, ranges, &indices);
        self.kernel(number, target, *assign, value, (ranges, tokens.clone()), previous, &reads);
    }

    /// Adds a kernel that writes the next version of an array.
    #[expect(clippy::too_many_arguments, reason = "the parts of a statement, and their meaning")]
    fn kernel(
        &mut self,
        number: usize,
        target: &Access,
        assign: Assign,
        mut value: Value,
        (ranges, tokens): (Vec<Range>, TokenStream),
        previous: Option<Continued<Ident>>,
        reads: &[(Ident, usize)],
    ) {
        let (mut inputs, mut versions): (Vec<Tensor>, Vec<Ident>) = (Vec::new(), Vec::new());
        // Of several names of one version, the kernel has the first.
        let mut same: Vec<(&Ident, Ident)> = Vec::new();
        for (name, read) in reads {
            let Array { tensor, version, .. } = &self.arrays[*read];
            let Some(version) = version else { continue };
            match versions.iter().position(|other| other == version) {
                Some(nth) => same.push((name, inputs[nth].name.clone())),
                None => {
                    versions.push(version.clone());
                    inputs.push(Tensor { name: name.clone(), ..tensor.clone() });
                }
            }
        }
        value.visit_accesses(&mut |access| {
            if let Some((_, first)) = same.iter().find(|(name, _)| **name == access.tensor) {
                access.tensor = moved(first, access.tensor.span());
            }
        });
        let at = target.tensor.span();
        let writes = self.next(number, at);
        let output = match inputs.iter().any(|tensor| tensor.name == target.tensor) {
            true => moved(&version(&target.tensor, ""), at),
            false => target.tensor.clone(),
        };
        let target = Access { tensor: output.clone(), ..target.clone() };
        let output = Tensor { name: output, ..self.arrays[number].tensor.clone() };
        let statement = Statement { target, assign, value, tokens };
        let (docs, vis, name) = (Vec::new(), self.vis.clone(), moved(&self.name, at));
        let block = Block { docs, vis, name, inputs, output, statement, ranges };
        self.out.kernels.push(Part { block, previous, reads: versions, writes: writes.clone() });
        let array = &mut self.arrays[number];
        (array.version, array.is_set) = (Some(writes), true);
    }

    /// Reports names of arrays where values hold numbers that are known before the block runs.
    fn are_numbers(&mut self, value: &Value, indices: &[Ident]) {
        let names = value.names().into_iter().map(|name| (name, false));
        let outside = value.accesses().into_iter().filter_map(|access| access.outside.as_deref());
        let outside: Vec<_> = outside.flat_map(Value::names).map(|name| (name, true)).collect();
        for (name, is_outside) in names.chain(outside).filter(|(name, _)| !indices.contains(name)) {
            let Some(&number) = self.numbers.get(&name.to_string()) else { continue };
            let ndim = self.arrays[number].tensor.extents.len();
            let (message, help) = match () {
                () if is_outside => {
                    let help = "write a number, or the name of one that is known before the block runs".to_owned();
                    (format!("the value outside is `{name}`, an array of the block"), help)
                }
                () if self.find(name).is_none() => (
                    format!("`{name}` is an array of the block, which is not declared here"),
                    "give one of them another name".to_owned(),
                ),
                () => {
                    let indices = vec![".."; ndim].join(", ");
                    (format!("the array `{name}` is used without indices"), format!("write `{name}[{indices}]`"))
                }
            };
            self.errors.push(name, message, help);
        }
    }

    /// Reports names of arrays in an expression that is a number which is known before the block runs.
    fn is_number(&mut self, expr: &Expr) {
        for name in identifiers(expr).iter().filter(|name| self.numbers.contains_key(&name.to_string())) {
            let help = "write a number, or a name that no array has";
            self.errors.push(
                name,
                format!("`{name}` is an array of the block, not a number that is known before it runs"),
                help,
            );
        }
    }

    fn is_scalar(&self, number: usize) -> bool {
        let array = &self.arrays[number];
        array.is_sized && array.tensor.extents.is_empty()
    }

    /// The arrays that a value reads, or `None` after reporting those that it cannot read.
    fn reads(&mut self, value: &Value) -> Option<Vec<(Ident, usize)>> {
        let mut found: Vec<(Ident, usize)> = Vec::new();
        let mut is_wrong = false;
        for access in value.accesses() {
            let name = &access.tensor;
            let Some(number) = self.find(name) else {
                self.unknown(name, "no array", "declare it as a parameter of the block, or by `let`");
                is_wrong = true;
                continue;
            };
            let array = &self.arrays[number];
            if !array.is_set || array.version.is_none() {
                let message = format!("`{name}` is read before anything is written to it");
                self.errors.push(access, message, "write it first, or make it a parameter of the block");
                is_wrong = true;
            }
            let tensor = self.arrays[number].tensor.clone();
            is_wrong |= !self.has_all_indices(access, &tensor);
            if found.iter().all(|(other, _)| other != name) {
                found.push((name.clone(), number));
            }
        }
        (!is_wrong).then_some(found)
    }

    /// Checks the number of indices.
    fn has_all_indices(&mut self, access: &Access, tensor: &Tensor) -> bool {
        let (ndim, given) = (tensor.extents.len(), access.indices.len());
        if ndim != given {
            let (dimensions, indices) = (counted(ndim, "dimension"), counted(given, "index"));
            let message = format!("`{}` has {dimensions}, but {indices} {} given", access.tensor, are(given));
            let help = match ndim {
                0 => format!("write `{}`", tensor.name),
                _ => format!("write {}", counted(ndim, "index")),
            };
            self.errors.push(access, message, help);
        }
        ndim == given
    }

    /// Reports a term that has not all the indices that are summed over, if others have: `b[i]` in `r[i] = b[i] - A[i, j] * x[j]`, which
    /// would be added once for each `j`.
    fn is_added_once(&mut self, target: &Access, assign: Assign, value: &Value, ranges: &[Range]) {
        if !matches!(assign, Assign::Set | Assign::Add) {
            return;
        }
        let in_target: Vec<Ident> = target.indices.iter().flat_map(identifiers).collect();
        let summed = indices(target, value, ranges).into_iter().filter(|index| !in_target.contains(index));
        let terms = terms(value);
        for index in summed {
            let has = |term: &&Value| {
                let accesses = term.accesses();
                let mut in_accesses = accesses.iter().flat_map(|access| &access.indices).flat_map(identifiers);
                in_accesses.any(|other| other == index) || term.names().contains(&&index)
            };
            let Some(without) = terms.iter().find(|term| !has(term)).filter(|_| terms.iter().any(has)) else {
                continue;
            };
            let (at, shown) = match without.accesses().first() {
                Some(access) => (access.to_token_stream(), format!("the term with `{}`", access.shown())),
                None => (target.to_token_stream(), "a number".to_owned()),
            };
            let target = target.shown();
            let help = format!("add the sum by a statement of its own: `{target} = ..; {target} += ..`");
            self.errors.push(
                at,
                format!("{shown} would be added once for each value of `{index}`, which is summed over"),
                help,
            );
            return;
        }
    }

    /// The version that an array takes over, if the statement copies another array of the same shape.
    fn copied(&self, target: &Access, assign: Assign, value: &Value, ranges: &[Range], number: usize) -> Option<Ident> {
        let Value::Access(read) = value else { return None };
        let is_sharded = self.sharded.contains(&name(&target.tensor));
        if is_sharded
            || assign != Assign::Set
            || !is_whole(target, ranges)
            || !ranges.is_empty()
            || read.outside.is_some()
        {
            return None;
        }
        let source = &self.arrays[self.find(&read.tensor)?];
        let [target, read] = [&target.indices, &read.indices].map(|indices| indices.iter());
        let [wanted, given] = [&self.arrays[number].tensor, &source.tensor].map(|tensor| tensor.extents.iter());
        let is_same = target.map(shown).eq(read.map(shown)) && wanted.map(shown).eq(given.map(shown));
        source.version.clone().filter(|_| is_same)
    }

    /// The ranges of a statement, and one for each index that does not stand alone in an access that is read, but has an extent in the block.
    fn ranged(&mut self, value: &Value, ranges: &[Range], indices: &[Ident]) -> Vec<Range> {
        let mut all = ranges.to_vec();
        let inside = value.accesses().into_iter().filter(|access| access.outside.is_none());
        let alone_in: Vec<Ident> = inside.flat_map(|access| &access.indices).filter_map(alone).cloned().collect();
        for index in indices.iter().filter(|index| ranges.iter().all(|range| range.var != **index)) {
            let extent = self.extents.get(&index.to_string());
            match extent {
                Some(extent) if !alone_in.contains(index) => {
                    let bounds: Expr = parse_quote!(0..#extent);
                    all.push(Range { var: index.clone(), bounds });
                }
                Some(_) => {}
                None if self.find(index).is_some() => {
                    let help = "rename one of them; an index expression reads no array";
                    self.errors.push(index, format!("index `{index}` has the name of an array"), help);
                }
                None => {
                    let message = format!("the extent of index `{index}` is not known");
                    let help = format!("use it alone in an access, or give its range: `for {index} in 0..n`");
                    self.errors.push(index, message, help);
                }
            }
        }
        all
    }

    /// Notes the dimensions in which indices stand alone, whose extents must agree.
    fn note_indices(&mut self, target: &Access, value: &Value, ranges: &[Range]) {
        for access in value.accesses().into_iter().chain([target]).filter(|access| access.outside.is_none()) {
            let Some(&number) = self.numbers.get(&access.tensor.to_string()) else { continue };
            let tensor = &self.arrays[number].tensor;
            for (dim, (index, extent)) in access.indices.iter().zip(&tensor.extents).enumerate() {
                if let Some(index) = alone(index).filter(|index| ranges.iter().all(|range| range.var != **index)) {
                    let (array, extent, access) = (tensor.name.clone(), extent.clone(), access.shown());
                    self.out.indices.push(Bound { index: index.clone(), array, dim, extent, access });
                }
            }
        }
    }

    /// Adds rounds.
    fn repeat(&mut self, repeat: &Repeat) {
        if self.depth == DEEPEST {
            let help = format!("nest at most {DEEPEST} of them");
            return self.errors.push(&repeat.at, "rounds are nested too deeply", help);
        }
        self.is_number(&repeat.times);
        // The arrays from before the rounds that they write.
        let mut carried = Vec::new();
        for (line, is_let) in lines(&repeat.items) {
            let number = self.find(&line.statement.target.tensor).filter(|_| !is_let);
            carried.extend(number.filter(|number| !carried.contains(number)));
        }
        let was_set: Vec<bool> = carried.iter().map(|&number| self.arrays[number].is_set).collect();
        let mut firsts = Vec::with_capacity(carried.len());
        for &number in &carried {
            if self.arrays[number].version.is_none() {
                self.filled(number, repeat.at.span(), None);
                self.arrays[number].is_set = false;
            }
            firsts.extend(self.arrays[number].version.clone());
        }
        self.depth += 1;
        let mut values = Vec::with_capacity(carried.len());
        for &number in &carried {
            let value = self.next(number, repeat.at.span());
            self.arrays[number].version = Some(value.clone());
            values.push(value);
        }
        let (row, begin) = (self.out.rounds.len(), self.out.kernels.len());
        let times = repeat.times.clone();
        self.out.rounds.push(Repeated::new(repeat.at.span(), times, begin));
        self.items(&repeat.items);
        let until = repeat.until.as_ref().and_then(|condition| self.until(condition, &repeat.at));
        let mut all = Vec::new();
        let nexts: Vec<Option<Ident>> = carried.iter().map(|&number| self.arrays[number].version.clone()).collect();
        // In a circle of names, nothing would be written.
        let in_circle = |value: &Ident| {
            let mut at = value;
            (0..values.len()).any(|_| {
                match values.iter().position(|value| value == at).and_then(|nth| nexts[nth].as_ref()) {
                    Some(next) => {
                        at = next;
                        at == value
                    }
                    None => false,
                }
            })
        };
        let circles: Vec<bool> = values.iter().map(in_circle).collect();
        for (((&number, first), value), in_circle) in carried.iter().zip(firsts).zip(&values).zip(circles) {
            let Some(mut next) = self.arrays[number].version.clone() else { continue };
            let is_of_round = !in_circle && self.made.get(&plain(&next)) == Some(&self.depth);
            // Each value of the next round has a version of its own, which this round makes.
            if !is_of_round || all.iter().any(|(_, other, _)| *other == next) {
                next = self.filled(number, repeat.at.span(), Some(next));
            }
            all.push((value.clone(), next, first));
        }
        if self.out.kernels.len() == begin {
            let help = "write a statement that computes something from the round before";
            self.errors.push(&repeat.at, "the rounds compute nothing", help);
        }
        for number in 0..self.arrays.len() {
            self.arrays[number].is_visible &= !self.is_of(number, &repeat.items);
        }
        self.depth -= 1;
        for ((number, value), was_set) in carried.into_iter().zip(values).zip(was_set) {
            if !was_set && self.arrays[number].is_set {
                self.out.unset.push((row, self.arrays[number].tensor.name.clone()));
            }
            self.made.insert(plain(&value), self.depth);
            self.arrays[number].version = Some(value);
        }
        self.out.rounds[row].finish(all, until, self.out.kernels.len());
    }

    /// Whether an array is declared by one of these items, not by those of inner rounds.
    fn is_of(&self, number: usize, items: &[Item]) -> bool {
        let name = &self.arrays[number].tensor.name;
        items.iter().any(|item| match item {
            Item::Declared(tensor) => tensor.name == *name,
            _ => declared(item).any(|target| target.tensor == *name),
        })
    }

    /// The scalar that ends rounds, and the bound below which it does. For conditions that are not `scalar < number`, a kernel computes a
    /// scalar that is 0 where they hold and 1 elsewhere.
    fn until(&mut self, condition: &Condition, at: &Ident) -> Option<(Ident, Expr)> {
        let Condition { compare, left, right } = condition;
        let scalar = |value: &Value| match value {
            Value::Name(name) => Some(name.clone()),
            Value::Access(access) if access.indices.is_empty() => Some(access.tensor.clone()),
            _ => None,
        };
        let is_free = |name: &Ident| self.find(name).is_none();
        let bound = match right {
            Value::Literal(literal) => Some(quote!(#literal)),
            Value::Neg(inner) => match &**inner {
                Value::Literal(literal) => Some(quote!(-#literal)),
                _ => None,
            },
            Value::Name(name) if is_free(name) => Some(quote!(#name)),
            _ => None,
        };
        let number = scalar(left).and_then(|name| self.find(&name)).filter(|&number| self.is_scalar(number));
        if let (Comparison::Less, Some(number), Some(bound)) = (compare, number, bound) {
            let array = &self.arrays[number];
            let version = array.version.clone().filter(|_| array.is_set);
            if let Some(version) = version.filter(|version| self.made.get(&plain(version)) == Some(&self.depth)) {
                return syn::parse2(bound).ok().map(|bound| (version, bound));
            }
        }
        let [mut left, mut right] = [left.clone(), right.clone()];
        for side in [&mut left, &mut right] {
            side.read_scalars(&|name| self.find(name).is_some_and(|at| self.is_scalar(at)));
        }
        let met = Condition { compare: *compare, left, right };
        let value = met.chosen(Value::whole("0"), Value::whole("1"));
        let reads = self.reads(&value)?;
        if let Some(array) = value.accesses().into_iter().find(|access| !access.indices.is_empty()) {
            let message = format!("`{}` ends the rounds, but is an element of an array", array.shown());
            self.errors.push(array, message, "compute a scalar by a statement of the round, and compare it here");
            return None;
        }
        if let Some(array) = value.names().into_iter().find(|name| self.find(name).is_some()) {
            let message = format!("`{array}` ends the rounds, but is an array");
            let help = format!(
                "compute a scalar by a statement of the round, such as `s max= abs({array}[i])`, and compare it here"
            );
            self.errors.push(array, message, help);
            return None;
        }
        let Some(at) = value.accesses().first().map(|access| access.tensor.span()) else {
            let at = at.span();
            let help = "compare a scalar that the round computes: `until s < 1e-9`";
            self.errors.add(error_at(at, "nothing in the condition changes from round to round", help));
            return None;
        };
        let name = Ident::new("until", at);
        let number = self.arrays.len();
        let tensor = Tensor { name: name.clone(), element: self.element.clone(), extents: Vec::new() };
        self.arrays.push(Array::hidden(tensor));
        let target = Access::scalar(name);
        let tokens = target.to_token_stream();
        self.kernel(number, &target, Assign::Set, value, (Vec::new(), tokens), None, &reads);
        let version = self.arrays[number].version.clone()?;
        Some((version, parse_quote!(0.5)))
    }

    /// Adds a kernel that copies a version of an array into the next one, or fills it with zeros.
    fn filled(&mut self, number: usize, at: Span, from: Option<Ident>) -> Ident {
        let tensor = self.arrays[number].tensor.clone();
        let mut target = Access::scalar(moved(&tensor.name, at));
        let mut ranges = Vec::new();
        for (dim, extent) in tensor.extents.iter().enumerate() {
            let index = self.index(number, dim, at);
            target.indices.push(parse_quote!(#index));
            ranges.push(Range { var: index, bounds: parse_quote!(0..#extent) });
        }
        let tokens = target.to_token_stream();
        let mut reads = Vec::new();
        let value = match from {
            None => Value::whole("0"),
            Some(version) => {
                ranges.clear();
                // The array, whose current version this is, has the name of the one that it is a copy of.
                let source = moved(&array(&version), at);
                self.arrays[number].version = Some(version);
                reads.push((source.clone(), number));
                Value::Access(Access { tensor: source, ..target.clone() })
            }
        };
        self.kernel(number, &target, Assign::Set, value, (ranges, tokens), None, &reads);
        self.arrays[number].version.clone().unwrap_or(tensor.name)
    }

    /// An index for a dimension: one that a statement has there, so that steps for its loop apply.
    fn index(&self, number: usize, dim: usize, at: Span) -> Ident {
        let indices = &self.arrays[number].indices;
        let known = indices.get(dim).cloned().flatten();
        if let Some(known) = known.filter(|known| indices.iter().flatten().filter(|other| *other == known).count() == 1)
        {
            return moved(&known, at);
        }
        let mut index = format!("i{dim}");
        while self.numbers.contains_key(&index) || self.extents.contains_key(&index) {
            index.push('_');
        }
        Ident::new(&index, at)
    }

    /// Notes the version of a result. An array that is a copy of a parameter, or of another result, is copied.
    fn result(&mut self, name: &Ident) {
        let Some(number) = self.find(name) else { return };
        let Array { version, is_set, .. } = &self.arrays[number];
        let Some(mut version) = version.clone().filter(|_| *is_set) else {
            let message = format!("`{name}` is returned, but nothing is written to it");
            return self.errors.push(
                name,
                message,
                format!("write a statement `{name}[..] = ..`, or do not return it"),
            );
        };
        let is_shared = self.out.results.iter().any(|(_, other)| *other == version);
        if is_shared || !self.made.contains_key(&plain(&version)) {
            version = self.filled(number, name.span(), Some(version));
        }
        self.out.results.push((name.clone(), version));
    }
}

/// The statements of items and of the rounds among them, and whether each has a `let`.
fn lines(items: &[Item]) -> Vec<(&Line, bool)> {
    let mut all = Vec::new();
    for item in items {
        match item {
            Item::Repeat(repeat) => all.extend(lines(&repeat.items)),
            _ => {
                let (lines, is_let) = item.lines();
                all.extend(lines.iter().map(|line| (line, is_let)));
            }
        }
    }
    all
}

/// The targets that an item declares.
fn declared(item: &Item) -> impl Iterator<Item = &Access> {
    let (lines, is_let) = item.lines();
    lines.iter().filter(move |_| is_let).map(|line| &line.statement.target)
}

/// The identifiers of the indices of a statement, and those with ranges, each once.
fn indices(target: &Access, value: &Value, ranges: &[Range]) -> Vec<Ident> {
    let accesses = value.accesses().into_iter().chain([target]);
    let in_accesses = accesses.flat_map(|access| &access.indices).flat_map(identifiers);
    each_once(in_accesses.chain(ranges.iter().map(|range| range.var.clone())))
}

fn is_stated(line: &Line, index: &Ident) -> bool {
    line.ranges.iter().any(|range| range.var == *index)
}

/// Whether a statement writes all elements of an array: all indices stand alone, and none has a range.
fn is_whole(target: &Access, ranges: &[Range]) -> bool {
    let indices: Option<Vec<&Ident>> = target.indices.iter().map(alone).collect();
    indices.is_some_and(|indices| {
        let is_twice = |nth: usize| indices[..nth].contains(&indices[nth]);
        !(0..indices.len()).any(|nth| is_twice(nth) || ranges.iter().any(|range| range.var == *indices[nth]))
    })
}

/// The terms of a sum.
fn terms(value: &Value) -> Vec<&Value> {
    match value {
        Value::Binary(left, BinaryOp::Add | BinaryOp::Sub, right) => [terms(left), terms(right)].concat(),
        Value::Neg(inner) => terms(inner),
        _ => vec![value],
    }
}

/// A statement that gives an array a value that does not change those that are combined with it.
fn initial(target: &Access, assign: Assign) -> String {
    let value = match assign {
        Assign::Set | Assign::Add => "0",
        Assign::Mul => "1",
        Assign::Max => "-inf",
        Assign::Min => "inf",
        Assign::Running(_) => "..",
    };
    let all = if target.indices.is_empty() { "" } else { "[..]" };
    format!("{}{all} = {value}", target.tensor)
}

fn shown(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string()
}

#[cfg(test)]
mod tests;
