//! Explains each transfer: the reasons for its pattern, its bytes, and the proofs.

use crate::ids::{Depth, TensorId};
use crate::lower_bound::LowerBound;
use crate::nest::{Algorithm, Buffers, Direction, InPlace, LeafOp, NestView, Overlap, Transfer, TransferView};
use crate::program::Body;
use polyshard_layout::{Name, Sharding, are, counted};
use std::fmt::Write;

/// How a transfer is carried out: a line for each decision.
fn decided(Transfer { route, direction, tile, .. }: &Transfer, in_place: Option<InPlace>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |line: &str| lines.push(line.to_owned());
    for (.., by) in route.collectives() {
        match by {
            Algorithm::Chain(segments) => {
                say(&format!("each rank forwards it to the next, in {}", counted(segments, "segment")));
            }
            Algorithm::Circulant(segments) => {
                say(&format!("it is broadcast in the fewest rounds, in {}", counted(segments, "segment")));
            }
            _ => {}
        }
    }
    if tile.buffers == Buffers::Relay {
        say("two alternating buffers: one is forwarded while the other receives");
    }
    if tile.is_fixed {
        say("the same in all iterations: messages are planned once");
    }
    if *direction == Direction::In && !route.is_local() {
        in_place.iter().for_each(|ranks| say(ranks.line()));
    }
    lines
}

impl NestView<'_> {
    /// Writes, for each transfer, the pattern found, the tests that led to it and the bytes per rank and step.
    ///
    /// `body` holds the kernels whose tiles are reused; transfers of `first`, by number, are in the first round only.
    pub(crate) fn explain_transfers(&self, text: &mut String, body: &Body, first: &[bool]) -> std::fmt::Result {
        let in_place = body.in_place(self.id);
        for (transfer, volume) in self.transfers.iter().zip(self.volumes()) {
            let Transfer { route, region, tile, .. } = transfer.row;
            let (name, moved) = (self.tensor_name(transfer.tensor), self.show_moved(transfer));
            if let Some((kernel, tile)) = transfer.reused {
                let other = body.nest(kernel);
                let (kernel, tensor) = (other.kernel.name(), other.tensor_name(other.transfers[tile.0].tensor));
                writeln!(text, "{moved}: reused from `{kernel}`, nothing is sent")?;
                writeln!(text, "    its tile of {tensor} holds it, and nothing has written it since")?;
                continue;
            }
            writeln!(text, "{moved}: {}, {}", self.pattern_of(transfer), self.place(transfer.level))?;
            if !route.is_in_place() {
                writeln!(text, "    {}", self.show_route(transfer))?;
            }
            if !route.is_in_place() || transfer.direction == Direction::In {
                writeln!(text, "    tile {} of {name}{}", self.show_extents(region), self.show_region(region))?;
            }
            if !route.is_local() {
                // With too many steps to count, a rank's own elements are not subtracted.
                let own = match volume.is_counted || transfer.direction != Direction::In {
                    true => "",
                    false => ", possibly counting its own elements",
                };
                writeln!(text, "    at most {} bytes received per rank and step{own}", volume.each)?;
            }
            let steps = (1..).zip(route.procedure().into_iter().flat_map(|procedure| procedure.lines()));
            steps.into_iter().try_for_each(|(step, line)| writeln!(text, "    {step}. {line}"))?;
            if transfer.direction == Direction::In && route.among().is_some() && route.shift().is_none() {
                writeln!(text, "    messages with at most {}", counted(route.partners(self.mesh), "other rank"))?;
            }
            if transfer.ahead > 0 {
                writeln!(text, "    {}", self.show_overlap(transfer))?;
            }
            if transfer.interior_first {
                let percent = 100.0 * self.interior_part();
                writeln!(
                    text,
                    "    in messages, in flight while the leaf computes its interior, {percent:.1} % of its \
                     iterations on a rank in the middle of the mesh"
                )?;
            }
            if first[transfer.id.0] {
                writeln!(text, "    fetched in the first of these rounds only, since none of them writes {name}")?;
            }
            if tile.own_in_place {
                writeln!(text, "    a rank's own elements are read in place")?;
            }
            decided(transfer, in_place).into_iter().try_for_each(|line| writeln!(text, "    {line}"))?;
            transfer.tests.iter().try_for_each(|test| writeln!(text, "    - {test}"))?;
            for (leg, why) in &transfer.carried_out {
                let is_by_procedure = transfer.route.legs.get(leg.0).is_some_and(|leg| leg.procedure().is_some());
                writeln!(text, "    - {}: {why}", if is_by_procedure { "procedure" } else { "stages" })?;
            }
        }
        if let Some(steps) = &self.time_steps {
            let (times, [input, output]) =
                (self.applications(), [0, 1].map(|tensor| self.tensor_name(TensorId(tensor))));
            let most = self.show_extents(&steps.region);
            writeln!(
                text,
                "time steps: the kernel is applied {times} times, after the first time to its previous {output} as \
                 {input}"
            )?;
            writeln!(
                text,
                "    two buffers of at most {most}: ranks also compute elements of their neighbours, and need no \
                 messages between steps"
            )?;
        }
        if let LeafOp::Named { name, statement, .. } = &self.leaf.op {
            writeln!(text, "leaf: {name}, to be registered as {statement}")?;
        }
        self.explain_bound(text)
    }

    /// How much of a pipelined transfer can be in flight while a leaf computes.
    fn show_overlap(&self, transfer: &TransferView<'_>) -> String {
        let ahead = counted(transfer.ahead, "iteration");
        let (begins, kept) = match transfer.direction {
            Direction::In => (format!("it begins {ahead} ahead"), "first"),
            Direction::Out { .. } => {
                (format!("it is awaited {ahead} later and combined in the order of iterations"), "last")
            }
        };
        let Overlap { iterations, hidden } = self.overlap(transfer);
        let most = match hidden == iterations {
            true => "all of it".to_owned(),
            false => {
                let percent = 100.0 * self.hidden_part(transfer);
                format!("{percent:.1} % of it, all but the {kept} of {iterations} iterations,")
            }
        };
        let buffers = transfer.tile.buffers.count();
        format!("in messages, {begins}, in {buffers} buffers: at most {most} is in flight while others are computed")
    }

    /// Writes the lower bound, if it is positive, and how far this program is from it.
    fn explain_bound(&self, text: &mut String) -> std::fmt::Result {
        let [here, single] = self.lower_bounds();
        let received = self.report.traffic_bytes;
        let bytes = |bound: &LowerBound| bound.elements().saturating_mul(self.kernel.dtype().size() as u64);
        let ratio = |bound: &LowerBound| match (received, bytes(bound)) {
            (0, _) | (_, 0) => String::new(),
            (received, bound) => format!(", {:.2} times as many", received as f64 / bound as f64),
        };
        if single.words.max(here.words) == 0.0 {
            return Ok(());
        }
        let (least, ranks) = (bytes(&single), self.mesh.size());
        let of_all = "by any algorithm that divides the work evenly, from one copy of each tensor";
        writeln!(text, "lower bound")?;
        writeln!(text, "    at least {least} bytes received by one of {ranks} ranks, {of_all}")?;
        writeln!(text, "    - here at most {received} bytes{}", ratio(&single))?;
        let mut uneven = Vec::new();
        let mut is_single = true;
        for (tensor, sharding) in self.kernel.tensors().zip(&self.shardings) {
            match self.show_copies(tensor.name, sharding) {
                Some(line) => {
                    is_single = false;
                    writeln!(text, "    - {line}")?;
                }
                None if !sharding.is_in_even_shares() => uneven.push(tensor.name.to_string()),
                None => {}
            }
        }
        let is_even = uneven.is_empty() || is_single && here.elements() == single.elements();
        if !uneven.is_empty() {
            let (names, verb) = (uneven.join(", "), are(uneven.len()));
            let so =
                if is_even { "which does not change the bound" } else { "so some ranks must receive more than others" };
            writeln!(text, "    - {names} {verb} not divided evenly, {so}")?;
        }
        if !is_single || !is_even {
            writeln!(text, "    - so with these shardings, at least {} bytes{}", bytes(&here), ratio(&here))?;
        }
        Ok(())
    }

    /// Why the bound differs for a tensor that does not have exactly one copy.
    fn show_copies(&self, name: Name, sharding: &Sharding) -> Option<String> {
        let terms = self.mesh.group_size(sharding.partial());
        let [least, most] = sharding.copies();
        if terms > 1 {
            return Some(format!("{name} stays a sum of {terms} terms, which no rank has to add"));
        }
        if most == 1 {
            return None;
        }
        let copies = if least == most { most.to_string() } else { format!("{least} to {most}") };
        Some(match name == self.kernel.output().name {
            true => format!(
                "each element of {name} must be on {copies} ranks in the end, so all but one of them receive it"
            ),
            false => format!("each element of {name} is on {copies} ranks at the start, which need not fetch it"),
        })
    }

    /// Returns when transfers at this level are carried out: `in each iteration of ko`.
    ///
    /// # Panics
    /// If there are fewer loops.
    #[must_use]
    pub fn place(&self, level: Depth) -> String {
        match level.innermost() {
            None => "once, outside all serial loops".into(),
            Some(counter) => format!("in each iteration of {}", self.loops[counter.0].name),
        }
    }
}
