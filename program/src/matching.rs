//! Whether the ranks that communicate together make the same calls.
//!
//! A call is a function of symbols: the coordinates of the rank and the counters of the loops around it. Counters are
//! the same on all ranks, since every loop has a constant extent. So the members of a group agree on a call if its
//! region, which says how much moves and whether anything does, and its root do not mention the coordinates in which
//! the members differ. Messages between pairs need less: both ends work out the other's region from its coordinates.

use crate::expr::{Expr, Ranges, Symbol};
use crate::ids::{AxisId, CounterId, Depth};
use crate::nest::{Algorithm, Direction, Leg, NestView, Owners, Region, Shift, Transfer};
use crate::proof::{Proof, Property};
use polyshard_layout::{Mesh, Name, counted, joined};

/// The parts of a kernel that decide whether calls match.
struct Matching<'a> {
    mesh: &'a Mesh,
    ranges: &'a Ranges,
    /// The number of serial loops.
    loops: usize,
}

/// Maximum number of iterations between the beginning and the end of a transfer.
pub const MOST_AHEAD: usize = 64;

impl NestView<'_> {
    /// Returns the claims proved about the calls of ranks that communicate together.
    ///
    /// # Errors
    /// The first transfer on which ranks might differ, as a clause after the kernel.
    pub fn matches(&self) -> Result<Vec<Proof>, String> {
        let ranges = self.ranges();
        let matching = Matching { mesh: self.mesh, ranges: &ranges, loops: self.loops.len() };
        let own = self.transfers.iter().filter(|transfer| transfer.reused.is_none());
        matching.check(own.map(|transfer| (self.tensor_name(transfer.tensor), transfer.row)))
    }
}

impl Matching<'_> {
    /// Checks transfers, each given with the name of its tensor.
    fn check<'t>(&self, transfers: impl IntoIterator<Item = (Name, &'t Transfer)>) -> Result<Vec<Proof>, String> {
        let mut proofs = Vec::new();
        for (tensor, transfer) in transfers {
            let claims = self.transfer(transfer);
            let claims = claims.map_err(|why| format!("has ranks that differ on the transfer of `{tensor}`: {why}"))?;
            let claim = |claim| Proof { property: Property::Matching, tensor: Some(tensor), claim, of_route: true };
            proofs.extend(claims.map(claim));
        }
        if !proofs.is_empty() {
            let claim = match self.loops {
                0 => "no loop is around a call".to_owned(),
                _ => "every loop around a call has the same number of iterations on all ranks".to_owned(),
            };
            proofs.insert(0, Proof { property: Property::Matching, tensor: None, claim, of_route: false });
        }
        Ok(proofs)
    }

    /// The claim proved for a transfer; none if ranks do not communicate.
    fn transfer(&self, transfer: &Transfer) -> Result<Option<String>, String> {
        self.ahead(transfer)?;
        self.interior_first(transfer)?;
        let (mut claims, mut shifted) = (Vec::new(), None);
        if let Some(Shift { counter, .. }) = transfer.route.shift()
            && transfer.level.innermost() != Some(counter)
        {
            return Err(format!("a shift at loop {} is inside {} loops", counter.0, transfer.level.0));
        }
        for (leg, region, level) in transfer.legs_in_place(self.ranges) {
            match (leg, self.leg(leg, &region, level, transfer.direction)?) {
                (Leg::Shift(_), claim) => shifted = claim,
                (_, claim) => claims.extend(claim),
            }
        }
        if transfer.interior_first {
            claims.push("it begins before the leaf and is awaited in the middle of it on all ranks".to_owned());
        }
        if transfer.ahead > 0 {
            claims.push("it begins and is awaited in the same iterations on all ranks".to_owned());
        }
        let claims = (!claims.is_empty()).then(|| joined(claims, "; "));
        let Some(shifted) = shifted else { return Ok(claims) };
        let end = match transfer.direction {
            Direction::In => "first",
            Direction::Out { .. } => "last",
        };
        let claims = claims.map(|claims| format!("; in the {end} iteration {claims}")).unwrap_or_default();
        Ok(Some(shifted + &claims))
    }

    /// Checks that the transfer may be awaited in the middle of the leaf.
    fn interior_first(&self, transfer: &Transfer) -> Result<(), String> {
        if !transfer.interior_first {
            return Ok(());
        }
        let comes = transfer.can_come_meanwhile(self.loops);
        comes.map_err(|refused| format!("the interior of the leaf is computed while it is in flight, but {refused}"))
    }

    /// Checks that the transfer may begin and end in different iterations.
    fn ahead(&self, transfer: &Transfer) -> Result<(), String> {
        let Transfer { ahead, direction, level, route, .. } = transfer;
        let refused = match (ahead, direction) {
            (0, _) => return Ok(()),
            (_, Direction::Out { .. }) if route.shift().is_some() => {
                "its sums travel to the next rank in each iteration"
            }
            (_, Direction::Out { any_order: true }) if route.legs.iter().any(|leg| leg.group().is_some()) => {
                "the communication library adds up its terms"
            }
            _ if *level == Depth(0) => "no loop is around it",
            _ if route.is_local() => "nothing is sent for it",
            _ if route.held.is_some() => "one leg forwards the tiles of another",
            _ if route.legs.iter().any(|leg| leg.stages().is_some()) => "a stage waits for the one before it",
            _ if route.procedure().is_some() => "a step of its procedure waits for the one before it",
            (2.., _) if route.shift().is_some() => "a tile travels to the next rank in one iteration",
            _ if *ahead > MOST_AHEAD => "there are too many buffers",
            _ => return Ok(()),
        };
        let ahead = counted(*ahead, "iteration");
        Err(match direction {
            Direction::In => format!("it begins {ahead} ahead, but {refused}"),
            Direction::Out { .. } => format!("it is awaited {ahead} later, but {refused}"),
        })
    }

    /// The claim proved for a leg.
    fn leg(&self, leg: &Leg, region: &Region, level: Depth, direction: Direction) -> Result<Option<String>, String> {
        Ok(Some(match leg {
            Leg::InPlace | Leg::Copy => return Ok(None),
            Leg::Collective { axes, owners: Owners::One(root), by } => {
                self.known(region, root, level)?;
                self.shared(axes, region, root)?;
                format!("its extent and root are independent of {}{}", self.names(axes), self.by(axes, by)?)
            }
            Leg::Collective { axes, owners: Owners::All | Owners::Parts, by } => {
                self.known(region, &[], level)?;
                self.shared(axes, region, &[])?;
                let what = match direction {
                    Direction::In => "gathered",
                    Direction::Out { .. } => "summed up",
                };
                format!("what is {what} is independent of {}{}", self.names(axes), self.by(axes, by)?)
            }
            Leg::Shift(shift) => {
                self.known(region, &[], level)?;
                format!("all ranks along {} shift in the same iterations", self.mesh.as_slice()[shift.axis.0].name)
            }
            Leg::Permute { owner, served } => {
                self.known(region, owner, level)?;
                self.known(region, served, level)?;
                "sender and receiver work out the same region".into()
            }
            Leg::Halo { .. } | Leg::Exchange { .. } => {
                self.known(region, &[], level)?;
                "sender and receiver work out the same pieces".into()
            }
        }))
    }

    /// The claim about how a collective is carried out. In stages, each of its ranks is one combination of their digits, so the groups
    /// of a stage are disjoint, and the stages connect each rank to every other. A procedure, which is already proved, combines each of
    /// the collective's groups.
    fn by(&self, axes: &[usize], by: &Algorithm) -> Result<String, String> {
        match by {
            Algorithm::Stages(stages) => {
                stages.check(self.mesh, axes).map_err(|error| error.to_string())?;
                let digits = stages.parts().concat();
                let digits = joined(digits.iter().map(|part| part.display(self.mesh)), ", ");
                Ok(format!(", of which each rank is one combination of {digits}"))
            }
            Algorithm::Procedure(procedure) => {
                procedure.check_along(self.mesh, axes).map_err(|why| format!("its procedure {why}"))?;
                Ok(format!(", and its procedure combines the ranks along {} once", self.names(axes)))
            }
            _ => Ok(String::new()),
        }
    }

    /// Checks that every symbol has a value at the call, which other ranks can work out.
    fn known(&self, region: &Region, exprs: &[Expr], level: Depth) -> Result<(), String> {
        match (level.0..self.loops).find(|&n| mentions(region, exprs, Symbol::Counter(CounterId(n)))) {
            None => Ok(()),
            Some(counter) => Err(format!("it depends on loop {counter}, which is inside the call")),
        }
    }

    /// Checks that the members of a group along `axes` agree.
    fn shared(&self, axes: &[usize], region: &Region, exprs: &[Expr]) -> Result<(), String> {
        match axes.iter().find(|&&axis| mentions(region, exprs, Symbol::Coordinate(AxisId(axis)))) {
            None => Ok(()),
            Some(&axis) => {
                let name = self.mesh.as_slice()[axis].name;
                Err(format!("ranks along {name} communicate together, but differ in the region or the root"))
            }
        }
    }

    fn names(&self, axes: &[usize]) -> String {
        joined(self.mesh.names(axes), ", ")
    }
}

fn mentions(region: &Region, exprs: &[Expr], symbol: Symbol) -> bool {
    region.mentions(symbol) || exprs.iter().any(|expr| expr.mentions(symbol))
}

#[cfg(test)]
mod tests {
    use super::Matching;
    use crate::expr::{Expr, Ranges, Symbol};
    use crate::ids::{ArrayId, AxisId, CounterId, Depth, KernelId};
    use crate::nest::{Direction, End, Leg, Owners, Region, Route, Shift, Tile, Transfer};
    use polyshard_layout::{Mesh, Name, Reach};

    fn region(symbols: &[Symbol]) -> Region {
        let low = symbols.iter().fold(Expr::constant(0), |sum, &symbol| sum.add(&Expr::symbol(symbol)));
        Region::of_ranges(vec![(low.clone(), low.offset_by(4))])
    }

    /// Checks one transfer inside one of two loops, over the mesh (x, y).
    fn check(route: impl Into<Route>, symbols: &[Symbol]) -> Result<Vec<String>, String> {
        let mesh = Mesh::new([("x", 2), ("y", 3)]);
        let (from, to) = (End::Array(ArrayId(0)), End::Tile(KernelId(0)));
        let transfer = Transfer {
            level: Depth(1),
            route: route.into(),
            tile: Tile { capacity: 4, ..Tile::default() },
            ..Transfer::in_place(from, to, Direction::In, region(symbols))
        };
        let ranges = Ranges { coordinates: vec![2, 3], counters: vec![5, 5] };
        let matching = Matching { mesh: &mesh, ranges: &ranges, loops: 2 };
        let proofs = matching.check([(Name::new("A"), &transfer)])?;
        Ok(proofs.into_iter().map(|proof| proof.claim).collect())
    }

    const X: Symbol = Symbol::Coordinate(AxisId(0));
    const Y: Symbol = Symbol::Coordinate(AxisId(1));
    const OUTER: Symbol = Symbol::Counter(CounterId(0));
    const INNER: Symbol = Symbol::Counter(CounterId(1));

    #[test]
    fn a_group_shares_region_and_root() {
        let broadcast = |root| Leg::collective(vec![1], Owners::One(vec![Expr::symbol(root)]));
        let proofs = check(broadcast(OUTER), &[X, OUTER]).expect("ranks along y agree");
        assert_eq!(proofs[1], "its extent and root are independent of y");
        for (root, symbols) in [(OUTER, [X, Y]), (Y, [X, OUTER])] {
            let mismatch = check(broadcast(root), &symbols).expect_err("ranks along y differ");
            assert!(mismatch.contains("ranks along y communicate together"), "{mismatch}");
        }
        let gather = Leg::collective(vec![0, 1], Owners::Parts);
        check(gather.clone(), &[OUTER]).expect("all ranks agree");
        check(gather, &[X]).expect_err("ranks along x differ");
    }

    #[test]
    fn a_call_depends_on_loops_around_it_alone() {
        for leg in [
            Leg::exchange([Reach::All; 2]),
            Leg::Permute {
                owner: vec![Expr::symbol(X), Expr::symbol(Y)],
                served: vec![Expr::symbol(X), Expr::symbol(Y)],
            },
            Leg::collective(vec![1], Owners::One(vec![Expr::constant(0)])),
        ] {
            check(leg.clone(), &[X, OUTER]).expect("the outer loop is around the call");
            let mismatch = check(leg, &[X, INNER]).expect_err("the inner loop is not");
            let expected =
                "has ranks that differ on the transfer of `A`: it depends on loop 1, which is inside the call";
            assert_eq!(mismatch, expected);
        }
        let to_inner = Leg::Permute { owner: vec![Expr::symbol(X), Expr::symbol(INNER)], served: vec![] };
        check(to_inner, &[X]).expect_err("the sender depends on a loop inside");
    }

    #[test]
    fn a_shift_is_as_good_as_its_first_iteration() {
        let shift = |first: Leg| Route::from(first).then_shift(Shift { axis: AxisId(1), by: 1, counter: CounterId(0) });
        check(shift(Leg::exchange([Reach::All; 2])), &[X, Y, OUTER]).expect("pairs work out the same pieces");
        check(shift(Leg::collective(vec![0], Owners::Parts)), &[X, OUTER]).expect_err("ranks along x differ");
    }

    #[test]
    fn what_nobody_sends_needs_no_proof() {
        assert_eq!(check(Leg::InPlace, &[X, Y]), Ok(Vec::new()));
    }
}
