//! Closed forms: the values that an index takes while some loops are fixed and the others run.
//!
//! A range is a hull, or equally spaced blocks: it contains every value taken. If it is not exact, lowering finds out, since
//! each range is compared with isl's relation of the same loops.

use crate::nest::{Definition, Depth, Nest, NodeId};
use polyshard_layout::{Name, gcd};
use polyshard_program::{Affine, AxisId, Blocks, CounterId, Expr, Kernel, Ranges, Symbol};

/// The values in `low..high`, all of them or those in blocks, the first of which starts at `low`; empty if `high <= low`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub low: Expr,
    pub high: Expr,
    pub blocks: Option<Blocks>,
}

impl Span {
    fn point(value: Expr) -> Self {
        Self { high: value.offset_by(1), low: value, blocks: None }
    }

    fn whole(extent: i64) -> Self {
        Self { low: Expr::constant(0), high: Expr::constant(extent), blocks: None }
    }

    pub(crate) fn is_point(&self) -> bool {
        self.high.subtract(&self.low).as_constant() == Some(1)
    }

    fn is_whole(&self, extent: i64) -> bool {
        self.low.as_constant() == Some(0) && self.high.as_constant() == Some(extent) && self.blocks.is_none()
    }

    /// The distance between adjacent values, if it is always the same.
    fn even_stride(&self) -> Option<i64> {
        match &self.blocks {
            None => Some(1),
            Some(Blocks { size, stride }) => (size.as_constant() == Some(1)).then_some(*stride),
        }
    }

    /// The stride of a loop over the values; a loop also runs over the gaps between blocks.
    pub(crate) fn stride(&self) -> i64 {
        self.even_stride().unwrap_or(1)
    }

    /// The number of values that a loop runs over; a negative number means none.
    pub(crate) fn count(&self, ranges: &Ranges) -> Expr {
        let (length, stride) = (self.high.subtract(&self.low), self.stride());
        if stride == 1 { length } else { length.offset_by(stride - 1).div(stride, ranges) }
    }

    /// The hull of the spans, of which there is at least one; in blocks if all of them are, with the same stride.
    pub(crate) fn hull(spans: &[Self], ranges: &Ranges) -> Self {
        let low =
            spans.iter().map(|span| span.low.clone()).reduce(|a, b| Expr::min(&a, &b, ranges)).unwrap_or_default();
        let high =
            spans.iter().map(|span| span.high.clone()).reduce(|a, b| Expr::max(&a, &b, ranges)).unwrap_or_default();
        let blocks = spans.iter().map(|span| {
            let blocks = span.blocks.as_ref()?;
            Some((blocks, span.low.subtract(&low).as_constant()?))
        });
        let blocks = blocks.collect::<Option<Vec<_>>>().and_then(|blocks| {
            let (first, _) = *blocks.first()?;
            let spread = blocks.iter().map(|(_, offset)| *offset).max()?;
            let size = first.size.offset_by(spread);
            let fits = blocks.iter().all(|(blocks, _)| *blocks == first) && size.bounds(ranges).1 <= first.stride;
            if fits { Blocks::new(size, first.stride) } else { None }
        });
        Self { low, high, blocks }
    }

    /// `high - low`, computed for each operand if `high` is a minimum.
    fn length(&self, ranges: &Ranges) -> Expr {
        let lengths = self.high.operands(false).into_iter().map(|high| high.subtract(&self.low));
        lengths.reduce(|a, b| Expr::min(&a, &b, ranges)).unwrap_or_default()
    }
}

/// The view of a nest at a depth, where the loops around it are fixed.
pub(crate) struct Fixed<'a> {
    pub nest: &'a Nest,
    pub depth: Depth,
    pub ranges: &'a Ranges,
}

impl Fixed<'_> {
    /// The values of an index variable.
    pub(crate) fn variable(&self, position: usize) -> Span {
        self.span(NodeId(position))
    }

    /// The values of an affine index expression.
    pub(crate) fn index(&self, index: &Affine, kernel: &Kernel) -> Span {
        if let [(name, 1)] = index.terms[..] {
            let Span { low, high, blocks } = self.variable(position(kernel, name));
            return Span { low: low.offset_by(index.constant), high: high.offset_by(index.constant), blocks };
        }
        // Blocks of sums of several indices are not tracked.
        let start = Span::point(Expr::constant(index.constant));
        index.terms.iter().fold(start, |sum, &(name, factor)| {
            let span = self.variable(position(kernel, name));
            let first = span.low.multiply(factor);
            // The last value is below `high` by less than the stride of blocks; `high - 1` bounds it.
            let last = span.high.offset_by(-1).multiply(factor);
            let (low, high) = if factor > 0 { (first, last) } else { (last, first) };
            Span { low: sum.low.add(&low), high: sum.high.add(&high), blocks: None }
        })
    }

    fn span(&self, id: NodeId) -> Span {
        let node = self.nest.node(id);
        match &node.definition {
            Definition::Loop => self.of_loop(id, node.extent),
            Definition::Split { outer, inner, factor, offset } => {
                let span = self.split(*outer, *inner, *factor);
                self.clipped(span, *offset, node.extent)
            }
            Definition::FusedOuter { fused, inner } => {
                let span = self.span(*fused);
                let low = span.low.div(*inner, self.ranges);
                if self.inside_row(&span, *inner) {
                    return Span::point(low);
                }
                let high = span.high.offset_by(-1).div(*inner, self.ranges).offset_by(1);
                let stride = span.even_stride().filter(|stride| stride % inner == 0).unwrap_or(*inner);
                Span { low, high, blocks: Blocks::points(stride / inner) }
            }
            Definition::FusedInner { fused, inner } => {
                let span = self.span(*fused);
                let low = span.low.rem(*inner, self.ranges);
                if span.even_stride().is_some_and(|stride| stride % inner == 0) && *inner > 1 {
                    Span::point(low)
                } else if self.inside_row(&span, *inner) {
                    Span { high: low.add(&span.high).subtract(&span.low), low, blocks: span.blocks }
                } else {
                    Span::whole(node.extent)
                }
            }
            Definition::Rotated { rotated, by } => {
                let span = self.span(*rotated);
                let by: Vec<_> = by.iter().map(|&id| self.span(id)).collect();
                if self.at_most_one(&span) && by.iter().all(|by| self.at_most_one(by)) {
                    // In a short or empty tile the single value may be missing, so its length is kept.
                    let length = span.high.subtract(&span.low);
                    let sum = by.iter().fold(span.low, |sum, by| sum.add(&by.low));
                    let low = sum.rem(node.extent.max(1), self.ranges);
                    Span { high: low.add(&length), low, blocks: None }
                } else {
                    Span::whole(node.extent)
                }
            }
        }
    }

    /// Whether an index takes all values from its lowest to its highest, for any fixed loops around it, as far as its
    /// definition shows.
    pub(crate) fn is_surely_range(&self, position: usize) -> bool {
        self.is_range(NodeId(position))
    }

    fn is_range(&self, id: NodeId) -> bool {
        match &self.nest.node(id).definition {
            Definition::Loop => true,
            Definition::Split { outer, inner, factor, .. } => {
                let [o, i] = [outer, inner].map(|&id| self.span(id));
                let block = i.blocks.is_none() && o.is_point();
                let blocks = o.blocks.is_none() && i.is_whole(*factor);
                (block || blocks) && [outer, inner].into_iter().all(|&id| self.is_range(id))
            }
            Definition::FusedOuter { .. } | Definition::FusedInner { .. } | Definition::Rotated { .. } => false,
        }
    }

    fn of_loop(&self, id: NodeId, extent: i64) -> Span {
        match self.nest.around(self.depth).iter().position(|&other| other == id) {
            Some(position) => Span::point(Expr::symbol(symbol(self.nest, position))),
            None => Span::whole(extent),
        }
    }

    /// The values of `outer * factor + inner`, which may exceed the end.
    fn split(&self, outer: NodeId, inner: NodeId, factor: i64) -> Span {
        let (o, i) = (self.span(outer), self.span(inner));
        let low = o.low.multiply(factor).add(&i.low);
        let (high, blocks) = if o.is_point() {
            (o.low.multiply(factor).add(&i.high), i.blocks)
        } else if o.blocks.is_none() && i.is_whole(factor) {
            (o.high.multiply(factor), None)
        } else {
            let high = o.high.offset_by(-1).multiply(factor).add(&i.high);
            let blocks = if self.at_most_one(&o) {
                i.blocks
            } else {
                // A block of the outer loop, from the first value of its first iteration to the last one of its last.
                let iterations = o.blocks.as_ref().map_or(Expr::constant(1), |blocks| blocks.size.clone());
                let size = iterations.offset_by(-1).multiply(factor).add(&i.length(self.ranges));
                let stride = o.blocks.as_ref().map_or(1, |blocks| blocks.stride);
                Blocks::new(size, stride.saturating_mul(factor))
            };
            (high, blocks)
        };
        Span { low, high, blocks }
    }

    /// The span minus `offset`, clipped to `0..extent`.
    fn clipped(&self, span: Span, offset: i64, extent: i64) -> Span {
        let (low, high) = (span.low.offset_by(-offset), span.high.offset_by(-offset));
        let high = Expr::min(&high, &Expr::constant(extent), self.ranges);
        if low.bounds(self.ranges).0 >= 0 {
            return Span { low, high, blocks: span.blocks };
        }
        let not_below = |first: Expr| Expr::max(&low, &first, self.ranges);
        match span.even_stride() {
            // The first value that is not negative, of those that are whole strides apart.
            Some(stride) => Span { low: not_below(low.rem(stride, self.ranges)), high, blocks: span.blocks },
            None => Span { low: not_below(Expr::constant(0)), high, blocks: None },
        }
    }

    fn at_most_one(&self, span: &Span) -> bool {
        span.high.subtract(&span.low).bounds(self.ranges).1 <= 1
    }

    /// Whether a span of fused iterations stays in one row of `inner` iterations, by its alignment.
    fn inside_row(&self, span: &Span, inner: i64) -> bool {
        span.high.subtract(&span.low).bounds(self.ranges).1 <= gcd(alignment(&span.low), inner)
    }
}

/// The largest number that divides every value of the expression, as far as its form shows.
pub(crate) fn alignment(expr: &Expr) -> i64 {
    expr.terms().fold(expr.offset(), |divisor, (_, factor)| gcd(divisor, factor))
}

/// The symbol of the loop at `position`: a coordinate if it is distributed, else a counter.
pub(crate) fn symbol(nest: &Nest, position: usize) -> Symbol {
    match position.checked_sub(nest.distributed) {
        None => Symbol::Coordinate(AxisId(position)),
        Some(number) => Symbol::Counter(CounterId(number)),
    }
}

pub(crate) fn position(kernel: &Kernel, name: Name) -> usize {
    let found = kernel.vars().iter().position(|var| var.name == name);
    found.expect("a checked kernel binds all its indices; this is a bug in polyshard")
}

#[cfg(test)]
mod tests;
