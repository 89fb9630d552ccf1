//! isl, in the few operations that the analysis needs.
//!
//! The bindings' handles are `Send` by accident and can be duplicated through public fields; here a
//! [`Relation`] is neither, keeps its context alive, and turns isl's errors into ours. isl is told to
//! return errors instead of ending the process, and to give up after a bounded number of operations.

use isl_rs::{Context, DimType, LibISLError, Map, Options};
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
    context: Rc<Context>,
}

impl Isl {
    pub(crate) fn new() -> IslResult<Self> {
        let context = Context::alloc();
        Options::set_on_error(&context, CONTINUE).map_err(|error| IslError(error.to_string()))?;
        context.set_max_operations(MOST_OPERATIONS);
        Ok(Self { context: Rc::new(context) })
    }

    /// Reads a relation in isl's notation.
    pub(crate) fn relation(&self, text: &str) -> IslResult<Relation> {
        let map = Map::read_from_str(&self.context, text);
        self.relation_of(map).map_err(|error| IslError(format!("{} in {text}", error.0)))
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

    /// Lets the input dimension `dim` take any value, in place of those that it is related with.
    pub(crate) fn free_input(&self, dim: usize) -> IslResult<Self> {
        self.map(|map| map.eliminate(DimType::In, dim as u32, 1))
    }

    /// Whether every input of `self` is an input of `other`.
    pub(crate) fn has_inputs_in(&self, other: &Self) -> IslResult<bool> {
        let own = self.isl.checked(self.map.copy().and_then(Map::domain))?;
        let others = self.isl.checked(other.map.copy().and_then(Map::domain))?;
        self.isl.checked(own.is_subset(&others))
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
