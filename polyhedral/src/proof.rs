//! What was proved of a program: each line is written by the pass that asked, with what it asked.

use polyshard_layout::Name;
use std::cell::RefCell;
use std::fmt;

/// A property that holds of every program that is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Property {
    /// Every statement instance runs exactly once.
    EveryInstanceOnce,
    /// At each leaf, all that it reads is on that rank, and fresh.
    Residency,
    /// Each contribution to the output reaches each rank that owns the element once.
    Delivery,
    /// Ranks that communicate together make the same calls, and each message that is sent is received.
    Matching,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EveryInstanceOnce => "every instance once",
            Self::Residency => "residency",
            Self::Delivery => "delivery",
            Self::Matching => "matching",
        })
    }
}

/// One thing that was asked of a program, and held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The property that it is part of.
    pub property: Property,
    /// The tensor that it is about; none if it is about the whole program.
    pub tensor: Option<Name>,
    /// What was asked, as a sentence that holds.
    pub asked: String,
    /// Whether it depends on the route by which the tensor moves.
    pub of_route: bool,
}

/// The proofs so far, which passes add to as they are made.
#[derive(Debug, Default)]
pub(crate) struct Proofs(RefCell<Vec<Proof>>);

impl Proofs {
    pub(crate) fn add(&self, property: Property, tensor: Option<Name>, asked: impl Into<String>) {
        self.push(Proof { property, tensor, asked: asked.into(), of_route: false });
    }

    /// Adds what the trail of a route has proved.
    pub(crate) fn add_route(&self, tensor: Name, proved: Vec<(Property, String)>) {
        for (property, asked) in proved {
            self.push(Proof { property, tensor: Some(tensor), asked, of_route: true });
        }
    }

    /// What is asked of several regions of one tensor is said once.
    fn push(&self, proof: Proof) {
        let mut all = self.0.borrow_mut();
        if !all.contains(&proof) {
            all.push(proof);
        }
    }

    /// The proofs so far; none are left.
    pub(crate) fn take(&self) -> Vec<Proof> {
        self.0.take()
    }
}

/// The proofs as lines, one per property and tensor: `residency of A: ..; ..`.
pub(crate) fn lines(proofs: &[Proof]) -> Vec<String> {
    let mut groups: Vec<(Property, Option<Name>, Vec<&str>)> = Vec::new();
    for proof in proofs {
        match groups.iter_mut().find(|group| (group.0, group.1) == (proof.property, proof.tensor)) {
            Some(group) => group.2.push(&proof.asked),
            None => groups.push((proof.property, proof.tensor, vec![&proof.asked])),
        }
    }
    groups.sort_by_key(|group| group.0);
    let line = |(property, tensor, asked): (Property, Option<Name>, Vec<&str>)| {
        let about = tensor.map(|tensor| format!(" of {tensor}")).unwrap_or_default();
        format!("{property}{about}: {}", asked.join("; "))
    };
    groups.into_iter().map(line).collect()
}

/// How a route was found: the tests made, for people, and what they proved.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// A line for each test made, whatever came out.
    pub tests: Vec<String>,
    /// What the tests proved of the route that was taken.
    pub proved: Vec<(Property, String)>,
}

impl Trail {
    pub(crate) fn test(&mut self, line: impl Into<String>) {
        self.tests.push(line.into());
    }

    pub(crate) fn proved(&mut self, property: Property, asked: impl Into<String>) {
        self.proved.push((property, asked.into()));
    }
}
