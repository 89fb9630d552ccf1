//! Rooms: the memory that arrays of a program share.

use super::{Carried, Program};
use crate::ids::{ArrayId, RoomId};
use polyshard_layout::in_order;

/// Which arrays are in the same memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    /// By array, the number of its room, if it is a temporary or carried from round to round.
    pub of: Vec<Option<RoomId>>,
    /// By room, the maximum number of arrays in it at one time.
    pub most: Vec<usize>,
}

impl Program {
    /// Returns the rooms of its arrays: arrays that are renamed to each other share one, which holds all of them at one time, and
    /// temporaries share one if they are not alive together.
    #[must_use]
    pub fn rooms(&self) -> Rooms {
        let mut of = self.body.slots();
        let mut count = of.iter().flatten().max().map_or(0, |last| last.0 + 1);
        for Carried { value, next, .. } in self.body.rounds.iter().flat_map(|rounds| &rounds.carried) {
            match (of[value.0], of[next.0]) {
                (Some(one), Some(other)) => {
                    of.iter_mut().filter(|room| **room == Some(other)).for_each(|room| *room = Some(one));
                }
                (one, other) => {
                    let room = one.or(other).or(Some(RoomId(count)));
                    count += 1;
                    [value, next].into_iter().for_each(|id| of[id.0] = room);
                }
            }
        }
        // Renumbers the remaining rooms from 0.
        let used = in_order(of.iter().flatten().copied().collect());
        of.iter_mut().flatten().for_each(|room| *room = RoomId(used.partition_point(|other| *other < *room)));
        let mut most = vec![0; used.len()];
        for (id, room) in of.iter().enumerate() {
            let Some(room) = *room else { continue };
            most[room.0] = if self.is_carried(ArrayId(id)) { most[room.0] + 1 } else { most[room.0].max(1) };
        }
        Rooms { of, most }
    }
}
