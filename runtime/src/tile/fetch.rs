//! Regions that a tile gets without messages: from memory that this rank sees, its own shard or that of another rank.

use super::in_flight::Posted;
use super::link::{End, Fetching, Link, When};
use super::route::{Fetch, is_seen_in, this_rank};
use super::{Held, one_box};
use crate::comm::Piece;
use crate::{Element, Group, Region, Result, Shards};
use std::rc::Rc;

impl<T: Element> Link<T> {
    /// Holds `region` of this rank's own shard: in place if the program says so, else copied if it is scattered there. Moves no data between
    /// ranks.
    pub(crate) fn own(&mut self, of: Fetching<'_, T>, is_in_place: bool) -> Result<()> {
        if is_in_place && of.when == When::Now {
            one_box(of.here);
            self.tile.held = Held::Shard(of.here.clone());
            return Ok(());
        }
        let route = self.own_route(of.source, of.here);
        self.fetch(of, route)
    }

    /// Holds the region that a route assembles from memory that this rank sees.
    pub(super) fn fetch(&mut self, of: Fetching<'_, T>, route: Rc<Fetch>) -> Result<()> {
        if of.when == When::Now {
            return self.hold_fetched(of.source, of.here, &route, &[]);
        }
        self.begin(of.here, Posted::Messages(None), End::Fetched(route));
        Ok(())
    }

    /// The route of `region` in this rank's own shard.
    pub(super) fn own_route(&mut self, source: Shards<'_, T>, region: &Region) -> Rc<Fetch> {
        self.known(region, || Fetch::of_one(source, this_rank(source), region))
    }

    /// The route of `region`, which all members of a group read and the member `root` owns, or, without a root, the members own together;
    /// `None` unless they all see it. Elements that this rank reads from others count as received.
    pub(super) fn near(
        &mut self,
        source: Shards<'_, T>,
        group: &Group,
        root: Option<usize>,
        region: &Region,
    ) -> Option<Rc<Fetch>> {
        if region.is_empty() || group.size() == 1 {
            return Some(self.own_route(source, region));
        }
        if !is_seen_in(source, group) {
            return None;
        }
        let found = self.known(region, || Fetch::in_group(source, group, region));
        source.count(match root {
            None => region.distinct() - found.own,
            Some(root) if root == group.rank() => 0,
            Some(_) => region.len(),
        });
        Some(found)
    }

    /// The route of `region`, which the world's rank `from` owns, if this rank sees it; it counts as received if that is another rank.
    pub(super) fn near_one(&mut self, source: Shards<'_, T>, from: usize, region: &Region) -> Option<Rc<Fetch>> {
        if region.is_empty() || from == this_rank(source) {
            return Some(self.own_route(source, region));
        }
        source.sees(from).then(|| {
            source.count(region.len());
            self.known(region, || Fetch::of_one(source, from, region))
        })
    }

    /// The route of `region` in the shards of all ranks, if this one sees them all; it counts as received if a message would have carried
    /// it.
    pub(super) fn anywhere(&mut self, source: Shards<'_, T>, region: &Region, is_received: bool) -> Option<Rc<Fetch>> {
        if !source.are_everywhere() {
            return None;
        }
        if is_received {
            source.count(region.len());
        }
        Some(self.known(region, || Fetch::anywhere(source, region)))
    }

    /// The cached route of the region, or the one that `find` returns.
    pub(super) fn known(&mut self, region: &Region, find: impl FnOnce() -> Fetch) -> Rc<Fetch> {
        self.found.get(region, false, || if region.is_empty() { Fetch::default() } else { find() })
    }

    /// Holds `region`: without a copy if it is one box of a shard, else in the buffer, where data from messages is already or is copied to
    /// from `received`.
    pub(super) fn hold_fetched(
        &mut self,
        source: Shards<'_, T>,
        region: &Region,
        fetch: &Fetch,
        received: &[Piece],
    ) -> Result<()> {
        let tile = &mut self.tile;
        if region.is_empty() {
            tile.held = Held::Nothing;
        } else if let Some(place) = &fetch.whole {
            source.block_of(place.rank)?;
            tile.held = Held::InPlace(region.clone(), place.clone());
        } else {
            fetch.exchange.put_together(source, received, tile.room(region))?;
            tile.held = fetch.held(region);
        }
        Ok(())
    }
}
