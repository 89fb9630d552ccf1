//! Prints a program as a page of pseudo-code. Tests: `polyhedral/tests/it/sums.rs`.

use crate::expr::Expr;
use crate::ids::{BlockDepth, LeafLoopId, TensorId, TileId, TransferId};
use crate::leg_text::LegText;
use crate::nest::{Direction, LeafOp, Loop, LoopBlock, NestView, Product, Region, Shift, Transfer, TransferView};
use crate::statement::{At, Iteration, LeafPart, Statement};
use polyshard_layout::{Sharding, counted, joined};
use std::fmt;

/// Writes a nest that runs these statements as a page.
pub(crate) fn page(nest: &NestView<'_>, statements: &[Statement], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "// {}: {}, {}", nest.kernel.name(), nest.kernel.statement(), nest.kernel.dtype())?;
    let size = nest.mesh.size();
    writeln!(f, "// mesh({}), {}", nest.mesh, counted(size, "rank"))?;
    for (tensor, sharding) in nest.kernel.tensors().zip(&nest.shardings) {
        writeln!(f, "// {}{:?}: {}", tensor.name, tensor.shape, nest.placement(tensor.name.as_str(), sharding))?;
    }
    let axes = nest.mesh.as_slice().iter().map(|axis| axis.name);
    writeln!(f, "on each rank ({}):", joined(axes, ", "))?;
    Page { nest, f }.statements(statements, 1)
}

impl NestView<'_> {
    /// Returns the sharding of a tensor as text, with dimensions named by their index if it is a single variable: `m @ x, k @ y`.
    #[must_use]
    pub fn placement(&self, tensor: &str, sharding: &Sharding) -> String {
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
        let ranges = joined(ranges, ", ");
        let when = region.when.iter().map(|(a, b)| format!("{} < {}", self.show(a), self.show(b)));
        let when = if region.when.is_empty() { String::new() } else { format!(" when {}", joined(when, " and ")) };
        format!("[{ranges}]{when}")
    }

    /// A transfer's route as text.
    pub(crate) fn show_route(&self, transfer: &Transfer) -> String {
        let Transfer { route, direction, .. } = transfer;
        let expr = |expr: &Expr| self.show(expr);
        let text = LegText { mesh: self.mesh, direction: *direction, expr: &expr };
        let legs: Vec<_> = route.at_owners().iter().map(|leg| text.of(leg)).collect();
        let at_owners = match (&legs[..], &route.held) {
            ([first, next], Some(held)) => format!("{first} of {}; then {next}", self.show_region(held)),
            (legs, _) => legs.join("; then "),
        };
        let Some(Shift { axis, by, counter }) = route.shift() else { return at_owners };
        let at = transfer.iteration_at_owners(self.loops[counter.0].extent);
        let (axis, counter) = (self.mesh.as_slice()[axis.0].name, self.loops[counter.0].name);
        match direction {
            Direction::In => {
                let sign = if by < 0 { '-' } else { '+' };
                let from = format!("{axis} {sign} {}", by.unsigned_abs());
                format!("shift along {axis} by {by}: from {axis} = {from}; at {counter} = {at}: {at_owners}")
            }
            Direction::Out { .. } => format!("sums shift along {axis} by {by}; at {counter} = {at}: {at_owners}"),
        }
    }

    /// What a transfer moves: the tensor's name, or, if the tensor has several transfers, the accesses that read this one.
    pub(crate) fn show_moved(&self, transfer: &TransferView<'_>) -> String {
        let same = self.transfers.iter().filter(|other| other.tensor == transfer.tensor).count();
        if same == 1 {
            return self.tensor_name(transfer.tensor).to_string();
        }
        let accesses = self.kernel.written_value().accesses();
        joined(transfer.operands.iter().map(|operand| accesses[operand.0]), ", ")
    }

    /// An iteration of the innermost loop around a transfer other than the current one, as text.
    fn show_iteration(&self, transfer: &Transfer, iteration: Iteration) -> String {
        let Some(counter) = transfer.level.innermost() else { return String::new() };
        let Loop { name, extent, .. } = self.loops[counter.0];
        match iteration {
            Iteration::Now => name.to_string(),
            Iteration::At(value) => format!("{name} = {value}"),
            Iteration::Later(by) => format!("{name} + {by}, if below {extent}"),
            Iteration::Earlier(by) => format!("{name} - {by}, if not below 0"),
        }
    }

    /// The tile's largest shape, as text.
    pub(crate) fn show_extents(&self, region: &Region) -> String {
        format!("[{}]", joined(region.max_extents(&self.ranges()), ", "))
    }
}

/// Whether a statement ends a transfer in the current iteration.
fn is_end(statement: &Statement, id: TransferId) -> bool {
    matches!(statement, Statement::End(ended, at) if *ended == id && at.iteration == Iteration::Now)
}

struct Page<'a, 'f, 'b> {
    nest: &'a NestView<'a>,
    f: &'f mut fmt::Formatter<'b>,
}

impl Page<'_, '_, '_> {
    fn statements(&mut self, statements: &[Statement], depth: usize) -> fmt::Result {
        let each = |nth: usize| self.statement(&statements[nth], [&statements[..nth], &statements[nth + 1..]], depth);
        (0..statements.len()).try_for_each(each)
    }

    fn line(&mut self, depth: usize, text: &str) -> fmt::Result {
        writeln!(self.f, "{:indent$}{text}", "", indent = 4 * depth)
    }

    /// A statement between those before and after it.
    fn statement(&mut self, statement: &Statement, [before, after]: [&[Statement]; 2], depth: usize) -> fmt::Result {
        let nest = self.nest;
        match statement {
            Statement::Loop(id, body) => {
                let counter = nest.row.loops.iter().position(|number| number == id);
                let Loop { name, extent, steps } = nest.loops[counter.expect("it is around the leaf")];
                let shown = joined(steps.iter().map(|step| &nest.steps[step.0 - 1]), ", ");
                let note = if steps.is_empty() { String::new() } else { format!("    // {shown}") };
                self.line(depth, &format!("for {name} in 0..{extent}:{note}"))?;
                self.statements(body, depth + 1)
            }
            Statement::Fill(_) => {
                let output = nest.output();
                let (name, most) = (nest.tensor_name(output.tensor), nest.show_extents(&output.region));
                let start = match output.route.shift() {
                    Some(Shift { axis, by, counter }) => {
                        let (axis, sign) = (nest.mesh.as_slice()[axis.0].name, if by < 0 { '-' } else { '+' });
                        let (counter, by) = (nest.loops[counter.0].name, by.unsigned_abs());
                        format!("empty at {counter} = 0, then the sums of {axis} {sign} {by}")
                    }
                    None => "empty".into(),
                };
                let region = nest.show_region(&output.region);
                self.line(depth, &format!("{name}_tile{most} = {region} of {name}, {start}"))
            }
            Statement::Begin(id, At { iteration: Iteration::Now, .. }) => {
                let (tile, transfer) = self.tile(*id);
                if transfer.interior_first {
                    return self.line(depth, &format!("begin {}", nest.tile_name(tile)));
                }
                if after.first().is_some_and(|next| is_end(next, *id)) || transfer.ahead > 0 {
                    return self.transfer(tile, depth);
                }
                self.line(depth, "begin")?;
                self.transfer(tile, depth + 1)
            }
            Statement::Begin(id, At { iteration, .. }) => {
                let (tile, transfer) = self.tile(*id);
                let which = nest.show_iteration(&transfer, *iteration);
                self.line(depth, &format!("begin {} for {which}", nest.tile_name(tile)))
            }
            Statement::End(id, At { iteration: Iteration::Now, .. }) => {
                let (tile, transfer) = self.tile(*id);
                let is_begun = |before: &Statement| matches!(before, Statement::Begin(begun, at) if begun == id && at.iteration == Iteration::Now);
                if before.last().is_some_and(is_begun) {
                    return Ok(());
                }
                if transfer.is_under_way() {
                    return self.transfer(tile, depth);
                }
                self.line(depth, &format!("await {}", nest.tile_name(tile)))
            }
            Statement::End(id, At { iteration, .. }) => {
                let (tile, transfer) = self.tile(*id);
                let (tensor, which) = (nest.tensor_name(transfer.tensor), nest.show_iteration(&transfer, *iteration));
                self.line(depth, &format!("await {tensor} <- {} for {which}", nest.tile_name(tile)))
            }
            Statement::Compute(_, LeafPart::Whole) => self.leaf(depth, ""),
            Statement::Compute(_, LeafPart::Interior) => self.interior(depth),
            Statement::Compute(_, LeafPart::Rims) => self.leaf(depth, ", all but the interior"),
            Statement::Rounds(..) | Statement::Free(_) => {
                unreachable!("no statement of a kernel; this is a bug in polyshard")
            }
        }
    }

    /// The tile of a transfer, and the transfer as the kernel uses it.
    fn tile(&self, id: TransferId) -> (TileId, TransferView<'_>) {
        let mut own = (0..).map(TileId).zip(self.nest.transfers.iter().copied());
        own.find(|(_, transfer)| transfer.id == id).expect("a transfer of the kernel; this is a bug in polyshard")
    }

    fn transfer(&mut self, tile: TileId, depth: usize) -> fmt::Result {
        let nest = self.nest;
        let (transfer, tile) = (&nest.transfers[tile.0], nest.tile_name(tile));
        let (name, route) = (nest.tensor_name(transfer.tensor), nest.show_route(transfer));
        if transfer.direction != Direction::In {
            let begun = if transfer.ahead > 0 { "begin " } else { "" };
            return self.line(depth, &format!("{begun}{name} <- {tile}: {route}"));
        }
        let (region, most) = (nest.show_region(&transfer.region), nest.show_extents(&transfer.region));
        let awaited = if transfer.is_under_way() { "await " } else { "" };
        self.line(depth, &format!("{awaited}{tile}{most} = {name}{region}: {route}"))
    }

    /// The interior of the leaf: the loops that are cut, where each begins and ends.
    fn interior(&mut self, depth: usize) -> fmt::Result {
        let leaf = &self.nest.leaf;
        let interior = leaf
            .interior
            .iter()
            .flat_map(|interior| self.nest.cut_loops().into_iter().map(|l| (l, &interior.ranges[l.0])));
        let shown = interior.map(|(l, (low, high))| {
            let l = &leaf.loops[l.0];
            let [first, end] = [low, high].map(|at| self.nest.show(&l.low.add(&at.multiply(l.stride))));
            format!("{} in {first}..{end}", l.var)
        });
        self.leaf(depth, &format!(", the interior alone: {}", joined(shown, "; ")))
    }

    fn leaf(&mut self, depth: usize, part: &str) -> fmt::Result {
        let leaf = &self.nest.leaf;
        let loops = leaf.loops.iter().map(|l| {
            let stride = if l.stride == 1 { String::new() } else { format!(" step {}", l.stride) };
            format!("{}: {} from {}{stride}", l.var, self.nest.show(&l.count), self.nest.show(&l.low))
        });
        let kind = match &leaf.op {
            LeafOp::Contraction { roles, .. } => {
                let roles = leaf.loops.iter().zip(roles).map(|(l, role)| format!("{}={role:?}", l.var));
                format!("product ({})", joined(roles, ", "))
            }
            LeafOp::Products { .. } => "products of two at a time".into(),
            LeafOp::Nest => "nest".into(),
            LeafOp::Named { name, statement, .. } => format!("{name}: {statement}"),
        };
        self.line(depth, &format!("{}    // {kind}{part}", self.nest.kernel.counted_statement()))?;
        self.line(depth + 1, &format!("over {}", joined(loops, "; ")))?;
        if let Some(steps) = &self.nest.time_steps {
            let last = self.nest.loops[steps.counter.0].extent - 1;
            let [input, output] = [0, 1].map(|tensor| self.nest.tensor_name(TensorId(tensor)));
            let (name, region) = (self.nest.loops[steps.counter.0].name, self.nest.show_region(&steps.region));
            let read = format!("the next step reads it as {input}");
            self.line(
                depth + 1,
                &format!("into {region} of a buffer, where {read}; at {name} = {last} into {output}"),
            )?;
        }
        match &leaf.op {
            LeafOp::Products { steps, blocks, .. } => self.products(steps, blocks, depth + 1),
            LeafOp::Contraction { .. } | LeafOp::Nest | LeafOp::Named { .. } => Ok(()),
        }
    }

    /// The products of a leaf of several operands, inside their blocks.
    fn products(&mut self, steps: &[Product], blocks: &[LoopBlock], depth: usize) -> fmt::Result {
        let path = self.nest.path();
        let var = |l: LeafLoopId| self.nest.leaf.loops[l.0].var;
        for level in 0..=blocks.len() {
            if let Some(block) = level.checked_sub(1).map(|outer| blocks[outer]) {
                self.line(depth + level - 1, &format!("for blocks of {} of {}:", block.size, var(block.number)))?;
            }
            for (number, step) in path.iter().enumerate().filter(|(_, step)| step.level == BlockDepth(level)) {
                let how = if step.is_product {
                    let roles = steps[number].loops.iter().zip(&steps[number].roles);
                    let roles = roles.map(|(&l, role)| format!("{}={role:?}", var(l)));
                    format!("product ({})", joined(roles, ", "))
                } else {
                    "nest".into()
                };
                let sign = if step.elements.is_some() { "=" } else { "+=" };
                let [left, right] = &step.factors;
                self.line(depth + level, &format!("{} {sign} {left} * {right}    // {how}", step.result))?;
            }
        }
        Ok(())
    }
}
