//! The spans of a subarray along a dimension, stored compactly.
//!
//! A block-cyclic array has a span per block. Spans that repeat at equal distances are stored once:
//!
//! ```text
//! blocks of 2 on 3 ranks     . . a b . . . . c d . . . . e f . .
//! rank 1 has                 3 spans of 2, starting at 2 and then every 6
//! ```

use super::Place;
use smallvec::SmallVec;

/// Indices along a dimension that are contiguous in all places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The position of the first index in each of the three places.
    pub(super) starts: [usize; 3],
    pub(super) len: usize,
}

impl Span {
    pub(super) fn end(&self, place: Place) -> usize {
        self.starts[place as usize] + self.len
    }

    /// The distance from another span in each place, if this one precedes it in none.
    fn beyond(&self, other: &Self) -> Option<[usize; 3]> {
        let beyond = |place: usize| self.starts[place].checked_sub(other.starts[place]);
        Some([beyond(0)?, beyond(1)?, beyond(2)?])
    }

    /// Whether it begins where `before` ends, in `place` and in a message.
    fn follows(&self, before: &Self, place: Place) -> bool {
        [place, Place::Packed].iter().all(|&place| before.end(place) == self.starts[place as usize])
    }
}

/// Spans that repeat.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The spans of the first turn; at least one.
    pub(super) pattern: SmallVec<[Span; 1]>,
    /// The distance from one turn to the next in each place.
    pub(super) steps: [usize; 3],
    /// The number of turns, at least one.
    pub(super) turns: usize,
}

impl Group {
    /// A span of the pattern in one of the turns.
    pub(super) fn span(&self, turn: usize, nth: usize) -> Span {
        let Span { starts, len } = self.pattern[nth];
        Span { starts: [0, 1, 2].map(|place| starts[place] + turn * self.steps[place]), len }
    }

    fn last(&self) -> Span {
        self.span(self.turns - 1, self.pattern.len() - 1)
    }
}

/// A span of a list of groups, by the indices of the group, of the turn and of the span in the pattern.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) group: usize,
    pub(super) turn: usize,
    pub(super) nth: usize,
}

impl Cursor {
    /// The next span; after the last one, its group is past the end of the list.
    pub(super) fn next(self, groups: &[Group]) -> Self {
        let Self { group, turn, nth } = self;
        let Group { pattern, turns, .. } = &groups[group];
        match (nth + 1 < pattern.len(), turn + 1 < *turns) {
            (true, _) => Self { nth: nth + 1, ..self },
            (false, true) => Self { group, turn: turn + 1, nth: 0 },
            (false, false) => Self { group: group + 1, turn: 0, nth: 0 },
        }
    }
}

/// The spans in order.
pub(super) fn spans(groups: &[Group]) -> impl Iterator<Item = Span> {
    groups.iter().flat_map(|group| {
        (0..group.turns).flat_map(move |turn| (0..group.pattern.len()).map(move |nth| group.span(turn, nth)))
    })
}

/// The number of spans.
pub(super) fn count(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.pattern.len() * group.turns).sum()
}

pub(super) fn first(groups: &[Group]) -> Option<Span> {
    groups.first().map(|group| group.pattern[0])
}

pub(super) fn last(groups: &[Group]) -> Option<Span> {
    groups.last().map(Group::last)
}

/// Whether the indices are contiguous in `place`, in order and each once.
pub(super) fn is_run(groups: &[Group], place: Place) -> bool {
    let inside = |group: &Group| {
        let turns = group.turns == 1 || group.span(1, 0).follows(&group.span(0, group.pattern.len() - 1), place);
        turns && group.pattern.windows(2).all(|pair| pair[1].follows(&pair[0], place))
    };
    groups.iter().all(inside) && groups.windows(2).all(|pair| pair[1].pattern[0].follows(&pair[0].last(), place))
}

/// Adds spans; if they continue the last group, as another turn of it.
pub(super) fn push(groups: &mut Vec<Group>, window: &[Span]) {
    let Some(first) = window.first() else { return };
    if let Some(Group { pattern, steps, turns }) = groups.last_mut()
        && let Some(beyond) = first.beyond(&pattern[0])
        && pattern.len() == window.len()
        && pattern.iter().zip(window).all(|(old, new)| old.len == new.len && new.beyond(old) == Some(beyond))
    {
        if *turns == 1 {
            *steps = beyond;
        }
        if beyond == steps.map(|step| step * *turns) {
            *turns += 1;
            return;
        }
    }
    groups.push(Group { pattern: window.into(), steps: [0; 3], turns: 1 });
}

/// Joins pieces of a dimension that are adjacent in both places, and finds those that repeat after `period` indices. A piece is its
/// first global index, its positions in the block and the region, and its length. Returns the first index of all, and the spans.
pub(super) fn group(
    pieces: impl IntoIterator<Item = (usize, [usize; 2], usize)>,
    period: Option<usize>,
) -> (usize, Vec<Group>) {
    let mut groups = Vec::new();
    // The spans that begin less than a period after `start`, their first global index.
    let mut window: SmallVec<[Span; 4]> = SmallVec::new();
    let (mut first, mut start, mut packed) = (None, 0, 0);
    for (global, [block, region], len) in pieces {
        packed += len;
        // Cyclic blocks of an axis of one rank, for example, are adjacent in every place.
        if let Some(last) = window.last_mut()
            && last.end(Place::Block) == block
            && last.end(Place::Region) == region
        {
            last.len += len;
            continue;
        }
        let is_near = |start: usize| global.checked_sub(start).is_some_and(|distance| Some(distance) < period);
        if period.is_some() && !is_near(start) {
            push(&mut groups, &window);
            window.clear();
        }
        if window.is_empty() {
            start = global;
        }
        first.get_or_insert(global);
        window.push(Span { starts: [block, region, packed - len], len });
    }
    push(&mut groups, &window);
    (first.unwrap_or(0), groups)
}

/// Adds the places where spans of the first `period` positions of the region repeat within `len` positions.
pub(super) fn repeat(groups: &mut Vec<Group>, period: usize, len: usize) {
    let once = groups.clone();
    for round in (period..len).step_by(period) {
        for span in spans(&once) {
            let start = span.starts[Place::Region as usize] + round;
            if start < len {
                let starts = [span.starts[Place::Block as usize], start, span.starts[Place::Packed as usize]];
                groups.push(Group {
                    pattern: SmallVec::from_elem(Span { starts, len: span.len.min(len - start) }, 1),
                    steps: [0; 3],
                    turns: 1,
                });
            }
        }
    }
}

/// Removes the spans that are not `kept`.
pub(super) fn retain(groups: &mut Vec<Group>, kept: impl Fn(&Span) -> bool) {
    for group in std::mem::take(groups) {
        for turn in 0..group.turns {
            let spans = (0..group.pattern.len()).map(|nth| group.span(turn, nth));
            let window: SmallVec<[Span; 4]> = spans.filter(|span| kept(span)).collect();
            push(groups, &window);
        }
    }
}
