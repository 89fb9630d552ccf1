//! isl, in the few operations that the analysis needs.
//!
//! The bindings' handles are `Send` by accident and can be duplicated through public fields; here a
//! [`Relation`] is neither, keeps its context alive, and turns isl's errors into ours. isl is told to
//! return errors instead of ending the process, and to give up after a bounded number of operations.

use isl_rs::{Context, DimType, LibISLError, Map, Options};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// isl's `ISL_ON_ERROR_CONTINUE`.
const CONTINUE: i32 = 1;

/// Far beyond what any schedule in the test suite needs; seconds rather than hours.
const MOST_OPERATIONS: u64 = 400_000_000;

/// What isl says went wrong.
#[derive(Debug)]
pub(crate) struct IslError(pub String);

pub(crate) type IslResult<T> = Result<T, IslError>;

/// An isl context; relations of two contexts never meet.
#[derive(Clone)]
pub(crate) struct Isl {
    // What was read before, dropped before the context that it lives in.
    read: Rc<RefCell<HashMap<String, Map>>>,
    context: Rc<Context>,
}

impl Isl {
    pub(crate) fn new() -> IslResult<Self> {
        let context = Context::alloc();
        Options::set_on_error(&context, CONTINUE).map_err(|error| IslError(error.to_string()))?;
        context.set_max_operations(MOST_OPERATIONS);
        Ok(Self { read: Rc::default(), context: Rc::new(context) })
    }

    /// Reads a relation in isl's notation.
    pub(crate) fn relation(&self, text: &str) -> IslResult<Relation> {
        // Reading is a good part of the whole cost, and passes ask for the same relations.
        if let Some(map) = self.read.borrow().get(text) {
            return self.relation_of(map.copy());
        }
        let relation = self.relation_of(Map::read_from_str(&self.context, text));
        let relation = relation.map_err(|error| IslError(format!("{} in {text}", error.0)))?;
        let copy = self.checked(relation.map.copy())?;
        self.read.borrow_mut().insert(text.to_owned(), copy);
        Ok(relation)
    }

    fn relation_of(&self, map: Result<Map, LibISLError>) -> IslResult<Relation> {
        self.checked(map).map(|map| Relation { map, isl: self.clone() })
    }

    fn checked<T>(&self, result: Result<T, LibISLError>) -> IslResult<T> {
        result.map_err(|error| {
            // A failed test only says -1; what happened is with the context.
            let message = match self.context.last_error() {
                isl_rs::Error::None_ => error.to_string(),
                _ => self.context.last_error_msg().to_owned(),
            };
            self.context.reset_error();
            IslError(message)
        })
    }
}

/// A relation between integer tuples: a union of convex pieces with strides.
pub(crate) struct Relation {
    // Dropped before the context that it lives in.
    map: Map,
    isl: Isl,
}

impl Relation {
    fn map(&self, by: impl FnOnce(Map) -> Result<Map, LibISLError>) -> IslResult<Self> {
        let copy = self.isl.checked(self.map.copy())?;
        self.isl.relation_of(by(copy))
    }

    fn with(&self, other: &Self, by: impl FnOnce(Map, Map) -> Result<Map, LibISLError>) -> IslResult<Self> {
        let other = self.isl.checked(other.map.copy())?;
        self.map(|map| by(map, other))
    }

    /// `{ b -> a : self contains a -> b }`.
    pub(crate) fn reverse(&self) -> IslResult<Self> {
        self.map(Map::reverse)
    }

    /// `{ a -> c : a -> b in self, b -> c in next }`.
    pub(crate) fn then(&self, next: &Self) -> IslResult<Self> {
        self.with(next, Map::apply_range)
    }

    /// Keeps the pairs whose input is an input of `other`.
    pub(crate) fn restrict(&self, other: &Self) -> IslResult<Self> {
        let domain = self.isl.checked(other.map.copy().and_then(Map::domain))?;
        self.map(|map| map.intersect_domain(domain))
    }

    /// Keeps the output dimension `kept` alone.
    pub(crate) fn output(&self, kept: usize) -> IslResult<Self> {
        let outputs = self.isl.checked(self.map.dim(DimType::Out))? as u32;
        let kept = kept as u32;
        let tail = self.map(|map| map.project_out(DimType::Out, kept + 1, outputs - kept - 1))?;
        tail.map(|map| map.project_out(DimType::Out, 0, kept))
    }

    pub(crate) fn is_single_valued(&self) -> IslResult<bool> {
        self.isl.checked(self.map.is_single_valued())
    }

    pub(crate) fn is_injective(&self) -> IslResult<bool> {
        self.isl.checked(self.map.is_injective())
    }

    pub(crate) fn is_subset(&self, other: &Self) -> IslResult<bool> {
        self.isl.checked(self.map.is_subset(&other.map))
    }

    pub(crate) fn is_equal(&self, other: &Self) -> IslResult<bool> {
        self.isl.checked(self.map.is_equal(&other.map))
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.map.to_str().map_err(|_| fmt::Error)?)
    }
}
