//! Whether the ranks that communicate together make the same calls.
//!
//! A call is a function of symbols: the coordinates of the rank and the counters of the loops around it. Counters are
//! the same on all ranks, since every loop has a constant extent. So the members of a group agree on a call if its
//! region, which says how much moves and whether anything does, and its root do not mention the coordinates in which
//! the members differ. Messages between pairs need less: both ends work out the other's region from its coordinates.

use crate::expr::{Expr, Ranges, Symbol};
use crate::nest::{Output, OutputRoute, Region, Route, Transfer};
use crate::pattern::list;
use crate::proof::{Proof, Property};
use polyshard_layout::{Mesh, Name};

/// What is decided about one program.
pub struct Matching<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The ranges of coordinates and counters.
    pub ranges: &'a Ranges,
    /// The number of serial loops of the program.
    pub loops: usize,
}

/// A call on which ranks might differ: the tensor, and why.
#[derive(Debug, PartialEq)]
pub struct Mismatch {
    /// The tensor.
    pub tensor: Name,
    /// Why.
    pub why: String,
}

impl Matching<'_> {
    /// Decides it for every transfer of an input and for the output; `name` is of a tensor, the output's last.
    ///
    /// # Errors
    /// The first transfer on which ranks might differ.
    pub fn check(
        &self,
        transfers: &[Transfer],
        output: &Output,
        name: impl Fn(usize) -> Name,
        output_name: Name,
    ) -> Result<Vec<Proof>, Mismatch> {
        let mut proofs = Vec::new();
        let mut record = |tensor, claim: Result<Option<String>, String>| match claim {
            Ok(None) => Ok(()),
            Ok(Some(claim)) => {
                proofs.push(Proof { property: Property::Matching, tensor: Some(tensor), claim, of_route: true });
                Ok(())
            }
            Err(why) => Err(Mismatch { tensor, why }),
        };
        for transfer in transfers {
            let tensor = name(transfer.tensor);
            record(tensor, self.input(&transfer.route, &transfer.region, transfer.level))?;
        }
        record(output_name, self.output(&output.route, &output.region, output.level))?;
        if !proofs.is_empty() {
            let claim = match self.loops {
                0 => "no loop is around a call".to_owned(),
                _ => "every loop around a call has the same number of iterations on all ranks".to_owned(),
            };
            proofs.insert(0, Proof { property: Property::Matching, tensor: None, claim, of_route: false });
        }
        Ok(proofs)
    }

    /// What was decided of an input's route; nothing if ranks do not communicate.
    fn input(&self, route: &Route, region: &Region, level: usize) -> Result<Option<String>, String> {
        match route {
            Route::Hold | Route::Copy => Ok(None),
            Route::Broadcast { axes, root } => {
                self.known(region, root, level)?;
                self.shared(axes, region, root)?;
                Ok(Some(format!("its extent and root are independent of {}", self.names(axes))))
            }
            Route::AllGather { axes } => {
                self.known(region, &[], level)?;
                self.shared(axes, region, &[])?;
                Ok(Some(format!("what is gathered is independent of {}", self.names(axes))))
            }
            Route::Shift { axis, counter, first, .. } => {
                self.known(region, &[], level)?;
                if *counter + 1 != level {
                    return Err(format!("a shift at loop {counter} is inside {level} loops"));
                }
                let axis = self.mesh.as_slice()[*axis].name;
                let start = region.fixed(Symbol::Counter(*counter), 0, self.ranges);
                let first = self.input(first, &start, level - 1)?;
                let first = first.map(|first| format!("; in the first iteration {first}")).unwrap_or_default();
                Ok(Some(format!("all ranks along {axis} shift in the same iterations{first}")))
            }
            Route::Permute { from, to } => {
                self.known(region, from, level)?;
                self.known(region, to, level)?;
                Ok(Some("sender and receiver work out the same region".into()))
            }
            Route::Sequence { first, held, next } => {
                let steps = [self.input(first, held, level)?, self.input(next, region, level)?];
                Ok(Some(steps.into_iter().flatten().collect::<Vec<_>>().join("; ")))
            }
            Route::Halo { .. } | Route::Exchange { .. } => {
                self.known(region, &[], level)?;
                Ok(Some("sender and receiver work out the same pieces".into()))
            }
        }
    }

    /// What was decided of the output's route; nothing if ranks do not communicate.
    fn output(&self, route: &OutputRoute, region: &Region, level: usize) -> Result<Option<String>, String> {
        match route {
            OutputRoute::InPlace | OutputRoute::Combine => Ok(None),
            OutputRoute::Reduce { axes, root } => {
                self.known(region, root, level)?;
                self.shared(axes, region, root)?;
                Ok(Some(format!("its extent and root are independent of {}", self.names(axes))))
            }
            OutputRoute::AllReduce { axes } | OutputRoute::ReduceScatter { axes } => {
                self.known(region, &[], level)?;
                self.shared(axes, region, &[])?;
                Ok(Some(format!("what is summed up is independent of {}", self.names(axes))))
            }
            OutputRoute::Shift { axis, counter, last, .. } => {
                self.known(region, &[], level)?;
                if *counter + 1 != level {
                    return Err(format!("a shift at loop {counter} is inside {level} loops"));
                }
                let axis = self.mesh.as_slice()[*axis].name;
                let end = region.fixed(Symbol::Counter(*counter), self.ranges.counters[*counter] - 1, self.ranges);
                let last = self.output(last, &end, level - 1)?;
                let last = last.map(|last| format!("; in the last iteration {last}")).unwrap_or_default();
                Ok(Some(format!("all ranks along {axis} shift in the same iterations{last}")))
            }
            OutputRoute::Permute { to, from } => {
                self.known(region, to, level)?;
                self.known(region, from, level)?;
                Ok(Some("sender and receiver work out the same region".into()))
            }
            OutputRoute::Halo { .. } | OutputRoute::Exchange { .. } => {
                self.known(region, &[], level)?;
                Ok(Some("sender and receiver work out the same pieces".into()))
            }
        }
    }

    /// Every symbol has a value where the call is made, which other ranks can work out.
    fn known(&self, region: &Region, exprs: &[Expr], level: usize) -> Result<(), String> {
        match (level..self.loops).find(|&n| mentions(region, exprs, Symbol::Counter(n))) {
            None => Ok(()),
            Some(counter) => Err(format!("it depends on loop {counter}, which is inside the call")),
        }
    }

    /// The members of a group along `axes` agree.
    fn shared(&self, axes: &[usize], region: &Region, exprs: &[Expr]) -> Result<(), String> {
        match axes.iter().find(|&&axis| mentions(region, exprs, Symbol::Coordinate(axis))) {
            None => Ok(()),
            Some(&axis) => {
                let name = self.mesh.as_slice()[axis].name;
                Err(format!("ranks along {name} communicate together, but differ in the region or the root"))
            }
        }
    }

    fn names(&self, axes: &[usize]) -> String {
        list(&self.mesh.names(axes))
    }
}

fn mentions(region: &Region, exprs: &[Expr], symbol: Symbol) -> bool {
    region.mentions(symbol) || exprs.iter().any(|expr| expr.mentions(symbol))
}

#[cfg(test)]
mod tests {
    use super::{Matching, Mismatch};
    use crate::expr::{Expr, Ranges, Symbol};
    use crate::nest::{Output, OutputRoute, Region, Route, Transfer};
    use polyshard_layout::{Mesh, Name, Reach};

    fn region(symbols: &[Symbol]) -> Region {
        let low = symbols.iter().fold(Expr::constant(0), |sum, &symbol| sum.add(&Expr::symbol(symbol)));
        Region::of_ranges(vec![(low.clone(), low.offset_by(4))])
    }

    /// Decides it for one transfer inside one of two loops, over the mesh (x, y).
    fn check(route: Route, symbols: &[Symbol]) -> Result<Vec<String>, Mismatch> {
        let mesh = Mesh::new([("x", 2), ("y", 3)]);
        let transfer = Transfer {
            tensor: 0,
            operands: vec![0],
            level: 1,
            region: region(symbols),
            route,
            capacity: 4,
            buffers: 1,
            step: None,
            tests: Vec::new(),
        };
        let output = Output {
            level: 0,
            region: region(&[]),
            route: OutputRoute::InPlace,
            any_order: false,
            capacity: 0,
            step: None,
            tests: Vec::new(),
        };
        let ranges = Ranges { coordinates: vec![2, 3], counters: vec![5, 5] };
        let matching = Matching { mesh: &mesh, ranges: &ranges, loops: 2 };
        let proofs = matching.check(&[transfer], &output, |_| Name::new("A"), Name::new("C"))?;
        Ok(proofs.into_iter().map(|proof| proof.claim).collect())
    }

    const X: Symbol = Symbol::Coordinate(0);
    const Y: Symbol = Symbol::Coordinate(1);
    const OUTER: Symbol = Symbol::Counter(0);
    const INNER: Symbol = Symbol::Counter(1);

    #[test]
    fn a_group_shares_region_and_root() {
        let broadcast = |root| Route::Broadcast { axes: vec![1], root: vec![Expr::symbol(root)] };
        let proofs = check(broadcast(OUTER), &[X, OUTER]).expect("ranks along y agree");
        assert_eq!(proofs[1], "its extent and root are independent of y");
        for (root, symbols) in [(OUTER, [X, Y]), (Y, [X, OUTER])] {
            let mismatch = check(broadcast(root), &symbols).expect_err("ranks along y differ");
            assert!(mismatch.why.contains("ranks along y communicate together"), "{}", mismatch.why);
        }
        let gather = Route::AllGather { axes: vec![0, 1] };
        check(gather.clone(), &[OUTER]).expect("all ranks agree");
        check(gather, &[X]).expect_err("ranks along x differ");
    }

    #[test]
    fn a_call_depends_on_loops_around_it_alone() {
        for route in [
            Route::Exchange { reach: vec![Reach::All; 2] },
            Route::Permute { from: vec![Expr::symbol(X), Expr::symbol(Y)], to: vec![Expr::symbol(X), Expr::symbol(Y)] },
            Route::Broadcast { axes: vec![1], root: vec![Expr::constant(0)] },
        ] {
            check(route.clone(), &[X, OUTER]).expect("the outer loop is around the call");
            let mismatch = check(route, &[X, INNER]).expect_err("the inner loop is not");
            assert_eq!(mismatch.why, "it depends on loop 1, which is inside the call");
        }
        let to_inner = Route::Permute { from: vec![Expr::symbol(X), Expr::symbol(INNER)], to: vec![] };
        check(to_inner, &[X]).expect_err("the sender depends on a loop inside");
    }

    #[test]
    fn a_shift_is_as_good_as_its_first_iteration() {
        let shift = |first| Route::Shift { axis: 1, by: 1, counter: 0, first: Box::new(first) };
        check(shift(Route::Exchange { reach: vec![Reach::All; 2] }), &[X, Y, OUTER])
            .expect("pairs work out the same pieces");
        check(shift(Route::AllGather { axes: vec![0] }), &[X, OUTER]).expect_err("ranks along x differ");
    }

    #[test]
    fn what_nobody_sends_needs_no_proof() {
        assert_eq!(check(Route::Hold, &[X, Y]), Ok(Vec::new()));
    }
}
