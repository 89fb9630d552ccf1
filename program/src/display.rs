//! A program as one page of pseudo-code.

use crate::expr::Expr;
use crate::nest::{
    Factor, LeafOp, Loop, LoopBlock, Nest, NestStatement, OutputRoute, Product, Region, Route, Transfer, TransferId,
};
use crate::pattern::list;
use polyshard_layout::{Reach, Sharding};
use std::fmt;

impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "// {}: {}, {}", self.kernel.name(), self.kernel.statement(), self.kernel.dtype())?;
        let size = self.mesh.size();
        writeln!(f, "// mesh({}), {size} {}", self.mesh, if size == 1 { "rank" } else { "ranks" })?;
        for (tensor, sharding) in self.kernel.tensors().zip(&self.shardings) {
            writeln!(f, "// {}{:?}: {}", tensor.name, tensor.shape, self.placement(tensor.name.as_str(), sharding))?;
        }
        let axes: Vec<_> = self.mesh.as_slice().iter().map(|axis| axis.name).collect();
        writeln!(f, "on each rank ({}):", list(&axes))?;
        let mut page = Page { program: self, f };
        page.statements(&self.body, 1)
    }
}

impl Nest {
    /// The sharding with dimensions by the index that walks them, where there is one.
    pub(crate) fn placement(&self, tensor: &str, sharding: &Sharding) -> String {
        let accesses = self.kernel.written_accesses_of(tensor.into());
        let index = |dim: usize| accesses.first()?.index.get(dim)?.as_variable();
        let clauses = sharding.clauses(|dim| index(dim).map_or_else(|| format!("dim({dim})"), |name| name.to_string()));
        if clauses.is_empty() { "replicated".into() } else { clauses.join(", ") }
    }

    pub(crate) fn show(&self, expr: &Expr) -> String {
        expr.show(&|symbol| self.symbol_name(symbol).to_string())
    }

    /// `64*x .. +64` per dimension.
    pub(crate) fn show_region(&self, region: &Region) -> String {
        let dims = region.ranges.iter().zip(region.periods.iter().zip(&region.blocks));
        let ranges = dims.map(|((low, high), (period, blocks))| {
            let length = high.subtract(low);
            let range = match (low.as_constant(), length.as_constant()) {
                (Some(low), Some(length)) => format!("{low}..{}", low.saturating_add(length)),
                (None, Some(length)) => format!("{} .. +{length}", self.show(low)),
                _ => format!("{}..{}", self.show(low), self.show(high)),
            };
            match (period, blocks) {
                (Some(period), _) => format!("({range}) % {period}"),
                (_, Some(blocks)) => {
                    format!("{range} by blocks of {} every {}", self.show(&blocks.size), blocks.stride)
                }
                (None, None) => range,
            }
        });
        let ranges = ranges.collect::<Vec<_>>().join(", ");
        let when: Vec<_> = region.when.iter().map(|(a, b)| format!("{} < {}", self.show(a), self.show(b))).collect();
        let when = if when.is_empty() { String::new() } else { format!(" when {}", when.join(" and ")) };
        format!("[{ranges}]{when}")
    }

    /// What a route does, as text.
    pub(crate) fn show_route(&self, route: &Route) -> String {
        let name = |axis: usize| self.mesh.as_slice()[axis].name;
        let names = |axes: &[usize]| list(&self.mesh.names(axes));
        match route {
            Route::Hold => "own shard".into(),
            Route::Copy => "gathered from own shard".into(),
            Route::Broadcast { axes, root } => {
                format!("broadcast along {} from {}", names(axes), self.show_root(axes, root))
            }
            Route::Shift { axis, by, counter, first } => {
                let sign = if *by < 0 { '-' } else { '+' };
                let from = format!("{} {sign} {}", name(*axis), by.unsigned_abs());
                let at_first = self.show_route(first);
                format!(
                    "shift along {} by {by}: from {} = {from}; at {} = 0: {at_first}",
                    name(*axis),
                    name(*axis),
                    self.loops[*counter].name,
                )
            }
            Route::Permute { from, to } => {
                format!("permute: from rank {}, to rank {}", self.show_rank(from), self.show_rank(to))
            }
            Route::AllGather { axes } => format!("all-gather along {}", names(axes)),
            Route::Sequence { first, held, next } => {
                format!("{} of {}; then {}", self.show_route(first), self.show_region(held), self.show_route(next))
            }
            Route::Halo { reach } => format!("halo from {}", self.show_reach(reach)),
            Route::Exchange { reach } => format!("exchange with the owners at {}", self.show_reach(reach)),
        }
    }

    /// Which ranks are looked at: `x - 1 ..= x + 1, any y`.
    fn show_reach(&self, reach: &[Reach]) -> String {
        let along = self.mesh.as_slice().iter().zip(reach).filter(|(axis, _)| axis.extent > 1).map(|(axis, reach)| {
            let name = axis.name;
            let at = |by: i64| match by {
                0 => name.to_string(),
                _ => format!("{name} {} {}", if by < 0 { '-' } else { '+' }, by.unsigned_abs()),
            };
            match reach {
                Reach::All => format!("any {name}"),
                Reach::Within { low, high } | Reach::Around { low, high } if low == high => at(*low),
                Reach::Within { low, high } => format!("{}..={}", at(*low), at(*high)),
                Reach::Around { low, high } => format!("{}..={} around the axis", at(*low), at(*high)),
            }
        });
        along.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn show_rank(&self, coordinates: &[Expr]) -> String {
        let coordinates: Vec<_> = coordinates.iter().map(|coordinate| self.show(coordinate)).collect();
        format!("({})", coordinates.join(", "))
    }

    /// `x = ko, y = 0`.
    fn show_root(&self, axes: &[usize], root: &[Expr]) -> String {
        let names = self.mesh.names(axes);
        let coordinates = names.iter().zip(root).map(|(name, root)| format!("{name} = {}", self.show(root)));
        coordinates.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn show_output_route(&self, route: &OutputRoute) -> String {
        let name = |axis: usize| self.mesh.as_slice()[axis].name;
        let names = |axes: &[usize]| list(&self.mesh.names(axes));
        let order = if self.output.any_order { ", in any order" } else { "" };
        match route {
            OutputRoute::InPlace => "own shard, in place".into(),
            OutputRoute::Combine => "combined into own shard".into(),
            OutputRoute::Reduce { axes, root } => {
                format!("reduce along {} to {}{order}", names(axes), self.show_root(axes, root))
            }
            OutputRoute::AllReduce { axes } => format!("all-reduce along {}{order}", names(axes)),
            OutputRoute::ReduceScatter { axes } => format!("reduce-scatter along {}{order}", names(axes)),
            OutputRoute::Shift { axis, by, counter, last } => {
                let (axis, end) = (name(*axis), self.loops[*counter].extent - 1);
                let (counter, at_last) = (self.loops[*counter].name, self.show_output_route(last));
                format!("sums shift along {axis} by {by}; at {counter} = {end}: {at_last}")
            }
            OutputRoute::Permute { to, from } => {
                format!("permute: to rank {}, from rank {}", self.show_rank(to), self.show_rank(from))
            }
            OutputRoute::Halo { reach } => format!("halo to {}", self.show_reach(reach)),
            OutputRoute::Exchange { reach } => format!("exchange with the owners at {}", self.show_reach(reach)),
        }
    }

    /// What a transfer is of: the tensor, or the accesses that read what it brings if others read something else.
    pub(crate) fn show_read(&self, transfer: &Transfer) -> String {
        let same = self.transfers.iter().filter(|other| other.tensor == transfer.tensor).count();
        if same == 1 {
            return self.kernel.inputs()[transfer.tensor].name.to_string();
        }
        let accesses = self.kernel.written_value().accesses();
        let read: Vec<_> = transfer.operands.iter().map(|&operand| accesses[operand].to_string()).collect();
        read.join(", ")
    }

    /// The tile's largest shape, as text.
    pub(crate) fn show_extents(&self, region: &Region) -> String {
        let most: Vec<_> = region.max_extents(&self.ranges()).iter().map(i64::to_string).collect();
        format!("[{}]", most.join(", "))
    }
}

struct Page<'a, 'f, 'b> {
    program: &'a Nest,
    f: &'f mut fmt::Formatter<'b>,
}

impl Page<'_, '_, '_> {
    fn statements(&mut self, statements: &[NestStatement], depth: usize) -> fmt::Result {
        statements.iter().try_for_each(|statement| self.statement(statement, depth))
    }

    fn line(&mut self, depth: usize, text: &str) -> fmt::Result {
        writeln!(self.f, "{:indent$}{text}", "", indent = 4 * depth)
    }

    fn statement(&mut self, statement: &NestStatement, depth: usize) -> fmt::Result {
        let program = self.program;
        match statement {
            NestStatement::Loop { counter, body } => {
                let Loop { name, extent, steps } = &program.loops[*counter];
                let steps: Vec<_> = steps.iter().map(|&step| program.steps[step - 1].as_str()).collect();
                let note = if steps.is_empty() { String::new() } else { format!("    // {}", steps.join(", ")) };
                self.line(depth, &format!("for {name} in 0..{extent}:{note}"))?;
                self.statements(body, depth + 1)
            }
            NestStatement::Fetch(number) => self.fetch(*number, depth),
            NestStatement::Start => {
                let output = &program.output;
                let (name, most) = (program.kernel.output().name, program.show_extents(&output.region));
                let start = match &output.route {
                    OutputRoute::Shift { axis, by, counter, .. } => {
                        let (axis, sign) = (program.mesh.as_slice()[*axis].name, if *by < 0 { '-' } else { '+' });
                        let (counter, by) = (program.loops[*counter].name, by.unsigned_abs());
                        format!("empty at {counter} = 0, then the sums of {axis} {sign} {by}")
                    }
                    _ => "empty".into(),
                };
                let region = program.show_region(&output.region);
                self.line(depth, &format!("{name}_tile{most} = {region} of {name}, {start}"))
            }
            NestStatement::Finish => {
                let output = &program.output;
                let name = program.kernel.output().name;
                self.line(depth, &format!("{name} <- {name}_tile: {}", program.show_output_route(&output.route)))
            }
            NestStatement::Leaf => self.leaf(depth),
        }
    }

    fn fetch(&mut self, number: TransferId, depth: usize) -> fmt::Result {
        let program = self.program;
        let (transfer, tile) = (&program.transfers[number.0], program.tile_name(number));
        let name = program.kernel.inputs()[transfer.tensor].name;
        let region = program.show_region(&transfer.region);
        let route = program.show_route(&transfer.route);
        let most = program.show_extents(&transfer.region);
        self.line(depth, &format!("{tile}{most} = {name}{region}: {route}"))
    }

    fn leaf(&mut self, depth: usize) -> fmt::Result {
        let leaf = &self.program.leaf;
        let loops: Vec<_> = leaf
            .loops
            .iter()
            .map(|l| {
                let stride = if l.stride == 1 { String::new() } else { format!(" step {}", l.stride) };
                format!("{}: {} from {}{stride}", l.var, self.program.show(&l.count), self.program.show(&l.low))
            })
            .collect();
        let kind = match &leaf.op {
            LeafOp::Contraction { roles, .. } => {
                let roles: Vec<_> =
                    leaf.loops.iter().zip(roles).map(|(l, role)| format!("{}={role:?}", l.var)).collect();
                format!("product ({})", roles.join(", "))
            }
            LeafOp::Products { .. } => "products of two at a time".into(),
            LeafOp::Nest => "nest".into(),
            LeafOp::Named { name, statement, .. } => format!("{name}: {statement}"),
        };
        self.line(depth, &format!("{}    // {kind}", self.program.kernel.counted_statement()))?;
        self.line(depth + 1, &format!("over {}", loops.join("; ")))?;
        match &leaf.op {
            LeafOp::Products { steps, blocks, .. } => self.products(steps, blocks, depth + 1),
            LeafOp::Contraction { .. } | LeafOp::Nest | LeafOp::Named { .. } => Ok(()),
        }
    }

    /// The products of a leaf of several operands, inside the blocks that they run in.
    fn products(&mut self, steps: &[Product], blocks: &[LoopBlock], depth: usize) -> fmt::Result {
        let program = self.program;
        let var = |l: usize| program.leaf.loops[l].var.to_string();
        let accesses = program.kernel.value().accesses();
        let result = |step: usize| {
            let kept: Vec<_> = steps[step].kept.iter().map(|&l| var(l)).collect();
            format!("T{step}[{}]", kept.join(", "))
        };
        for level in 0..=blocks.len() {
            if let Some(block) = level.checked_sub(1).map(|outer| blocks[outer]) {
                self.line(depth + level - 1, &format!("for blocks of {} of {}:", block.size, var(block.number)))?;
            }
            for (number, step) in steps.iter().enumerate().filter(|(_, step)| step.level == level) {
                let factors = step.factors.map(|factor| match factor {
                    Factor::Operand(operand) => accesses[operand].to_string(),
                    Factor::Scratch(step) => result(step),
                });
                let [left, right] = factors;
                let made = if number + 1 == steps.len() {
                    format!("{} +=", program.kernel.target())
                } else {
                    format!("{} =", result(number))
                };
                let how = if step.roles.is_empty() {
                    "nest".into()
                } else {
                    let roles = step.loops.iter().zip(&step.roles);
                    let roles: Vec<_> = roles.map(|(&l, role)| format!("{}={role:?}", var(l))).collect();
                    format!("product ({})", roles.join(", "))
                };
                self.line(depth + level, &format!("{made} {left} * {right}    // {how}"))?;
            }
        }
        Ok(())
    }
}
