//! Random blocks of statements over 64-bit integers, as text, and their meaning, statement by statement on whole arrays.
//!
//! Nothing here knows versions, kernels or ranks: an array is a vector that statements write.

use super::Choices;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The extents of the indices: `i` and `l` run over rows, `j` and `k` over columns.
pub struct Block {
    rows: usize,
    columns: usize,
    params: Vec<(String, Shape)>,
    results: Vec<String>,
    items: Vec<Item>,
    chain: String,
    /// The ranks that the chain needs.
    pub ranks: usize,
}

/// The shape of an array: of no dimensions, rows, columns, or both.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Scalar,
    Row,
    Column,
    Matrix,
}

#[derive(Clone)]
enum Item {
    Statement(Statement),
    Repeat(usize, Option<(String, i64)>, Vec<Item>),
}

/// A statement, with the ranges of `i` and `j` if it has them.
#[derive(Clone)]
struct Statement {
    is_let: bool,
    target: String,
    shape: Shape,
    assign: &'static str,
    terms: Vec<Term>,
    ranges: Option<[(usize, usize); 2]>,
    /// Whether it sums over `k`.
    is_summed: bool,
}

/// A factor times accesses, each with the shifts of its indices.
#[derive(Clone)]
struct Term {
    factor: i64,
    reads: Vec<Read>,
}

#[derive(Clone)]
struct Read {
    array: String,
    shape: Shape,
    shift: i64,
    /// How it stays inside: `%`, or `else` with this value.
    outside: Option<i64>,
    /// For products over `k`: `A[i, k]`, `z[k]`; otherwise its own indices.
    over_k: bool,
}

/// The arrays of a run.
pub type Arrays = BTreeMap<String, Vec<i64>>;

impl Block {
    /// A random block, with its schedule.
    pub fn new(choices: &mut Choices<'_>) -> Self {
        let (rows, columns) = (1 + choices.below(9), 1 + choices.below(9));
        let shapes = [Shape::Matrix, Shape::Row, Shape::Column, Shape::Scalar];
        let params = (0..1 + choices.below(3)).map(|nth| (format!("P{nth}"), shapes[(nth + choices.below(2)) % 4]));
        let params: Vec<_> = [("A".to_owned(), Shape::Matrix)].into_iter().chain(params).collect();
        let mut made = Made { rows, columns, visible: params.clone(), count: 0, depth: 0 };
        let count = 2 + choices.below(7);
        let mut items = Vec::new();
        // The first statement has all loops, and reads all parameters.
        let mut first = made.statement(choices, Some(Shape::Matrix));
        let read = |(array, shape): &(String, Shape)| {
            let read = Read { array: array.clone(), shape: *shape, shift: 0, outside: None, over_k: false };
            Term { factor: 1, reads: vec![read] }
        };
        first.terms = params.iter().map(read).collect();
        items.push(Item::Statement(first));
        items.extend(made.items(choices, count));
        let written = written(&items);
        let mut results: Vec<String> = made.visible.iter().map(|(name, _)| name.clone()).collect();
        results.retain(|name| written.contains(name) && !choices.one_in(5));
        if results.is_empty() {
            results.push("T0".to_owned());
        }
        let (chain, ranks) = chain(choices, &params);
        Self { rows, columns, params, results, items, chain, ranks }
    }

    /// The parameters, with their shapes.
    pub fn params(&self) -> Vec<(&str, Vec<usize>)> {
        self.params.iter().map(|(name, shape)| (&**name, self.extents(*shape))).collect()
    }

    /// The names of the results.
    pub fn results(&self) -> &[String] {
        &self.results
    }

    fn extents(&self, shape: Shape) -> Vec<usize> {
        match shape {
            Shape::Scalar => vec![],
            Shape::Row => vec![self.rows],
            Shape::Column => vec![self.columns],
            Shape::Matrix => vec![self.rows, self.columns],
        }
    }

    /// The block and its schedule as a file.
    pub fn text(&self) -> String {
        let declared = |(name, shape): &(String, Shape)| {
            let extents: Vec<String> = self.extents(*shape).iter().map(ToString::to_string).collect();
            if extents.is_empty() { format!("{name}: i64") } else { format!("{name}: [i64; {}]", extents.join(", ")) }
        };
        let params: Vec<_> = self.params.iter().map(declared).collect();
        let shape_of = |name: &str| shape_of(&self.items, name).unwrap_or(Shape::Scalar);
        let result = |name: &String| match self.params.iter().any(|(other, _)| other == name) {
            true => name.clone(),
            false => declared(&(name.clone(), shape_of(name))),
        };
        let results: Vec<_> = self.results.iter().map(result).collect();
        let mut text = format!("fn block({}) -> ({}) {{\n", params.join(", "), results.join(", "));
        self.write(&self.items, 1, &mut text);
        let text = text.replace("ROWS", &self.rows.to_string()).replace("COLUMNS", &self.columns.to_string());
        text + "}\n" + &self.chain + "\n"
    }

    fn write(&self, items: &[Item], depth: usize, text: &mut String) {
        let margin = "    ".repeat(depth);
        for item in items {
            match item {
                Item::Statement(statement) => {
                    let is_result = self.results.contains(&statement.target);
                    let word = if statement.is_let && !is_result { "let " } else { "" };
                    writeln!(text, "{margin}{word}{};", statement.text()).expect("a string takes all");
                }
                Item::Repeat(times, until, items) => {
                    let until =
                        until.as_ref().map_or(String::new(), |(name, below)| format!(", until {name} < {below}"));
                    writeln!(text, "{margin}repeat({times}{until}) {{").expect("a string takes all");
                    self.write(items, depth + 1, text);
                    writeln!(text, "{margin}}}").expect("a string takes all");
                }
            }
        }
    }

    /// The arrays after the block, which begins with these.
    pub fn interpret(&self, arrays: &mut Arrays) {
        self.run(&self.items, arrays);
    }

    fn run(&self, items: &[Item], arrays: &mut Arrays) {
        for item in items {
            match item {
                Item::Statement(statement) => self.assign(statement, arrays),
                Item::Repeat(times, until, items) => {
                    for _ in 0..*times {
                        self.run(items, arrays);
                        if until.as_ref().is_some_and(|(name, below)| arrays[name][0] < *below) {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Evaluates a statement on the arrays as they are, then writes.
    fn assign(&self, statement: &Statement, arrays: &mut Arrays) {
        let Statement { target, shape, assign, terms, ranges, is_summed, .. } = statement;
        let [of_i, of_j] = ranges.unwrap_or([(0, self.rows), (0, self.columns)]);
        let [i, j] = match shape {
            Shape::Scalar => [0..1, 0..1],
            Shape::Row => [of_i.0..of_i.1, 0..1],
            Shape::Column => [0..1, of_j.0..of_j.1],
            Shape::Matrix => [of_i.0..of_i.1, of_j.0..of_j.1],
        };
        let len = self.extents(*shape).iter().product();
        let mut next = match arrays.get(target) {
            Some(before) if !(statement.is_let) => before.clone(),
            _ => vec![if *assign == "max=" { i64::MIN } else { 0 }; len],
        };
        for i in i {
            for j in j.clone() {
                // A scalar sums over everything that its terms have.
                let all = *shape == Shape::Scalar
                    && terms.iter().flat_map(|term| &term.reads).any(|read| read.shape != Shape::Scalar);
                let over: Vec<[usize; 3]> = match () {
                    () if all => {
                        let has = |wanted: [Shape; 2]| {
                            terms.iter().flat_map(|term| &term.reads).any(|read| wanted.contains(&read.shape))
                        };
                        let rows = if has([Shape::Matrix, Shape::Row]) { self.rows } else { 1 };
                        let columns = if has([Shape::Matrix, Shape::Column]) { self.columns } else { 1 };
                        (0..rows).flat_map(|i| (0..columns).map(move |j| [i, j, 0])).collect()
                    }
                    () if *is_summed => (0..self.columns).map(|k| [i, j, k]).collect(),
                    () => vec![[i, j, 0]],
                };
                let values = over
                    .iter()
                    .map(|at| terms.iter().fold(0i64, |sum, term| sum.wrapping_add(self.term(term, *at, arrays))));
                let at = match shape {
                    Shape::Scalar => 0,
                    Shape::Row => i,
                    Shape::Column => j,
                    Shape::Matrix => i * self.columns + j,
                };
                let old = next[at];
                next[at] = match *assign {
                    "max=" => values.fold(old, i64::max),
                    "+=" => values.fold(old, i64::wrapping_add),
                    _ => values.fold(0, i64::wrapping_add),
                };
            }
        }
        arrays.insert(target.clone(), next);
    }

    fn term(&self, Term { factor, reads }: &Term, at: [usize; 3], arrays: &Arrays) -> i64 {
        let read = |read: &Read| {
            let array = &arrays[&read.array];
            let [i, j, k] = at.map(|index| index as i64);
            let column = if read.over_k { k } else { j };
            let mut at = match read.shape {
                Shape::Scalar => return array[0],
                Shape::Row => vec![(i, self.rows)],
                Shape::Column => vec![(column, self.columns)],
                Shape::Matrix => vec![(i, self.rows), (column, self.columns)],
            };
            at[0].0 += read.shift;
            let mut flat = 0;
            for (index, extent) in at {
                let extent = extent as i64;
                match read.outside {
                    Some(outside) if !(0..extent).contains(&index) => return outside,
                    _ => flat = flat * extent + index.rem_euclid(extent),
                }
            }
            array[flat as usize]
        };
        reads.iter().fold(*factor, |product, one| product.wrapping_mul(read(one)))
    }
}

impl Statement {
    fn text(&self) -> String {
        let target = match self.shape {
            Shape::Scalar => self.target.clone(),
            Shape::Row => format!("{}[i]", self.target),
            Shape::Column => format!("{}[j]", self.target),
            Shape::Matrix => format!("{}[i, j]", self.target),
        };
        let mut text = format!("{target} {} ", self.assign);
        for (nth, term) in self.terms.iter().enumerate() {
            let sign = if nth > 0 { " + " } else { "" };
            let reads: Vec<_> = term.reads.iter().map(Read::text).collect();
            let factor = if term.factor < 0 { format!("({})", term.factor) } else { term.factor.to_string() };
            let factor = (term.factor != 1 || reads.is_empty()).then_some(factor);
            let product = factor.into_iter().chain(reads).collect::<Vec<_>>().join(" * ");
            write!(text, "{sign}{product}").expect("a string takes all");
        }
        if let Some([i, j]) = self.ranges {
            let has = |shapes: [Shape; 2]| shapes.contains(&self.shape);
            if has([Shape::Row, Shape::Matrix]) {
                write!(text, " for i in {}..{}", i.0, i.1).expect("a string takes all");
            }
            if has([Shape::Column, Shape::Matrix]) {
                write!(text, " for j in {}..{}", j.0, j.1).expect("a string takes all");
            }
        }
        text
    }
}

impl Read {
    fn text(&self) -> String {
        let column = if self.over_k { "k" } else { "j" };
        let shifted = |index: &str| match self.shift {
            0 => index.to_owned(),
            shift @ 1.. => format!("{index} + {shift}"),
            shift => format!("{index} - {}", -shift),
        };
        let (name, first) = (&self.array, |index: &str, extent: &str| match self.outside {
            None if self.shift != 0 => format!("({}) % {extent}", shifted(index)),
            _ => shifted(index),
        });
        let access = match self.shape {
            Shape::Scalar => return name.clone(),
            Shape::Row => format!("{name}[{}]", first("i", "ROWS")),
            Shape::Column => format!("{name}[{}]", first(column, "COLUMNS")),
            Shape::Matrix => format!("{name}[{}, {column}]", first("i", "ROWS")),
        };
        match self.outside {
            Some(outside) if outside < 0 => format!("({access} else -{})", -outside),
            Some(outside) => format!("({access} else {outside})"),
            None => access,
        }
    }
}

/// The arrays that statements may name so far.
struct Made {
    rows: usize,
    columns: usize,
    visible: Vec<(String, Shape)>,
    count: usize,
    depth: usize,
}

impl Made {
    fn items(&mut self, choices: &mut Choices<'_>, count: usize) -> Vec<Item> {
        let mut items = Vec::new();
        for _ in 0..count {
            if self.depth < 2 && choices.one_in(4) {
                let visible = self.visible.len();
                self.depth += 1;
                let len = 1 + choices.below(3);
                let mut inner = self.items(choices, len);
                self.depth -= 1;
                // It writes an array from before.
                let outer = self.visible[choices.below(visible)].clone();
                inner.push(Item::Statement(self.onto(choices, outer)));
                let scalars: Vec<_> = written(&inner)
                    .into_iter()
                    .filter(|name| self.visible.iter().any(|(other, shape)| other == name && *shape == Shape::Scalar))
                    .collect();
                let until = (!scalars.is_empty() && choices.one_in(2))
                    .then(|| (scalars[choices.below(scalars.len())].clone(), choices.below(100) as i64 - 50));
                self.visible.truncate(visible);
                items.push(Item::Repeat(1 + choices.below(3), until, inner));
                continue;
            }
            let statement = match choices.below(3) {
                0 => {
                    let outer = self.visible[choices.below(self.visible.len())].clone();
                    self.onto(choices, outer)
                }
                _ => self.statement(choices, None),
            };
            items.push(Item::Statement(statement));
        }
        items
    }

    /// A statement that declares an array.
    fn statement(&mut self, choices: &mut Choices<'_>, shape: Option<Shape>) -> Statement {
        let shape = shape.unwrap_or_else(|| choices.pick(&[Shape::Matrix, Shape::Row, Shape::Column, Shape::Scalar]));
        let name = format!("T{}", self.count);
        self.count += 1;
        let mut statement = self.body(choices, &name, shape);
        statement.is_let = true;
        statement.ranges = None;
        self.visible.push((name, shape));
        statement
    }

    /// A statement that writes an array which has a value.
    fn onto(&mut self, choices: &mut Choices<'_>, (name, shape): (String, Shape)) -> Statement {
        let mut statement = self.body(choices, &name, shape);
        if choices.one_in(3) {
            statement.assign = choices.pick(&["+=", "max="]);
        }
        if shape != Shape::Scalar && choices.one_in(3) {
            let range = |choices: &mut Choices<'_>, extent: usize| {
                let begin = choices.below(extent);
                (begin, begin + 1 + choices.below(extent - begin))
            };
            statement.ranges = Some([range(choices, self.rows), range(choices, self.columns)]);
        }
        statement
    }

    fn body(&mut self, choices: &mut Choices<'_>, target: &str, shape: Shape) -> Statement {
        let fits = |other: &Shape| match shape {
            Shape::Matrix => true,
            Shape::Scalar => true,
            _ => *other == shape || *other == Shape::Scalar,
        };
        let (target, assign, ranges) = (target.to_owned(), "=", None);
        let statement = |terms, is_summed| Statement {
            is_let: false,
            target: target.clone(),
            shape,
            assign,
            terms,
            ranges,
            is_summed,
        };
        let matrices: Vec<_> = self.visible.iter().filter(|(_, shape)| *shape == Shape::Matrix).cloned().collect();
        let read = |(array, shape): (String, Shape)| Read { array, shape, shift: 0, outside: None, over_k: false };
        if shape == Shape::Row && choices.one_in(2) {
            // A product: of a matrix and a vector of its columns, if there is one.
            let matrix = matrices[choices.below(matrices.len())].clone();
            let vector = self.visible.iter().find(|(_, shape)| *shape == Shape::Column).cloned();
            let reads = [Some(matrix), vector].into_iter().flatten();
            let reads = reads.map(|array| Read { over_k: true, ..read(array) }).collect();
            return statement(vec![Term { factor: 1 + choices.below(3) as i64, reads }], true);
        }
        if shape == Shape::Scalar {
            // A sum over all elements of one or two arrays.
            let first = self.visible[choices.below(self.visible.len())].clone();
            let second = self.visible[choices.below(self.visible.len())].clone();
            let reads = [first, second].map(read).into();
            return statement(vec![Term { factor: choices.below(5) as i64 - 2, reads }], false);
        }
        let arrays: Vec<_> = self.visible.iter().filter(|(_, shape)| fits(shape)).cloned().collect();
        let mut terms = Vec::new();
        for _ in 0..1 + choices.below(3) {
            let mut reads = Vec::new();
            for _ in 0..choices.below(3) {
                let Some(array) = (!arrays.is_empty()).then(|| arrays[choices.below(arrays.len())].clone()) else {
                    break;
                };
                let mut read = read(array);
                if read.shape != Shape::Scalar && choices.one_in(3) {
                    read.shift = choices.below(5) as i64 - 2;
                    // All accesses of a statement to an array wrap at the same place, or none.
                    let wraps = read.array.bytes().last().is_some_and(|digit| digit % 2 == 0);
                    read.outside = (!wraps).then(|| choices.below(9) as i64 - 4);
                    let extent = if read.shape == Shape::Column { self.columns } else { self.rows };
                    if read.shift.unsigned_abs() as usize >= extent && read.outside.is_none() {
                        read.shift = 0;
                    }
                }
                reads.push(read);
            }
            terms.push(Term { factor: choices.below(7) as i64 - 3, reads });
        }
        statement(terms, false)
    }
}

/// The arrays that items write.
fn written(items: &[Item]) -> Vec<String> {
    let of_item = |item: &Item| match item {
        Item::Statement(statement) => vec![statement.target.clone()],
        Item::Repeat(_, _, items) => written(items),
    };
    let mut all: Vec<_> = items.iter().flat_map(of_item).collect();
    all.sort();
    all.dedup();
    all
}

fn shape_of(items: &[Item], name: &str) -> Option<Shape> {
    items.iter().find_map(|item| match item {
        Item::Statement(statement) => (statement.target == name).then_some(statement.shape),
        Item::Repeat(_, _, items) => shape_of(items, name),
    })
}

/// A schedule, and the ranks that it needs.
fn chain(choices: &mut Choices<'_>, params: &[(String, Shape)]) -> (String, usize) {
    let (x, y) = choices.pick(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (2, 2), (3, 2), (2, 3), (4, 3)]);
    let is_both = y > 1;
    let mut chain = match is_both {
        true => format!("mesh(x: {x}, y: {y})\n.distribute([i, j], [io, jo], [ii, ji])"),
        false => format!("mesh(x: {x})\n.distribute([{0}], [{0}o], [{0}i])", choices.pick(&["i", "j"])),
    };
    for (name, shape) in params {
        let axis = if is_both { choices.pick(&["x", "y"]) } else { "x" };
        if *shape != Shape::Scalar && choices.one_in(2) {
            write!(chain, "\n.shard({name}, dim(0) @ {axis})").expect("a string takes all");
        }
    }
    (chain, x * y)
}
