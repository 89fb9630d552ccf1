//! Proofs as passes collect them, each with what it asked.

use polyshard_layout::Name;
use polyshard_program::{Proof, Property};
use std::cell::RefCell;

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
