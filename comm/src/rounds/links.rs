//! The links that rounds use: known before the first message.

use super::circulant::skips;
use crate::{Communicator, Result};

/// The links of a group over which its members forward data, from any root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// From each member to all others.
    All,
    /// From each member to the next one, around the group.
    Chain,
    /// Those of a [circulant graph](super::Rounds::circulant).
    Circulant,
}

/// Connects these links of a group, by an empty message over each: a library connects two
/// processes at their first message, and a rank that computes meanwhile should not wait for that. Collective.
///
/// # Errors
/// If another rank failed.
pub fn connect(comm: &dyn Communicator, links: Links) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let distances = distances(links, size);
    let to = distances.iter().map(|distance| (rank + distance) % size);
    connect_with(comm, to, distances.iter().map(|distance| (rank + size - distance) % size))
}

/// As [`connect`], over the links to some ranks and from some, which must name this rank in turn.
///
/// # Errors
/// As for [`connect`].
pub fn connect_with(
    comm: &dyn Communicator,
    to: impl Iterator<Item = usize>,
    from: impl Iterator<Item = usize>,
) -> Result<()> {
    let sends: Vec<(usize, &[u8])> = to.map(|rank| (rank, &[][..])).collect();
    let mut receives: Vec<(usize, &mut [u8])> = from.map(|rank| (rank, &mut [][..])).collect();
    comm.exchange(&sends, &mut receives)
}

/// The distances from a sender to its receivers, each once.
fn distances(links: Links, size: usize) -> Vec<usize> {
    let mut distances = match links {
        Links::All => (1..size).collect(),
        Links::Chain => vec![1],
        Links::Circulant => skips(size),
    };
    distances.retain(|distance| !distance.is_multiple_of(size));
    distances.dedup();
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rounds;
    use crate::ranks::on_threads;
    use std::collections::BTreeSet;

    #[test]
    fn rounds_use_all_links_and_no_others() {
        for size in 1..20 {
            let used = |of: &dyn Fn(usize, usize) -> Rounds| {
                let (mut sent, mut received) = (BTreeSet::new(), BTreeSet::new());
                for (rank, root) in (0..size).flat_map(|rank| (0..size).map(move |root| (rank, root))) {
                    for round in of(rank, root).rounds {
                        sent.extend(round.send.map(|(to, _)| (to + size - rank) % size));
                        received.extend(round.receive.map(|receive| (rank + size - receive.from) % size));
                    }
                }
                assert_eq!(sent, received);
                Vec::from_iter(sent)
            };
            let bounds = || Rounds::segments(100, 7, 1);
            let chain = used(&|rank, root| {
                Rounds::chain((0..size).map(|place| (root + place) % size).collect(), rank, bounds())
            });
            assert_eq!(chain, distances(Links::Chain, size), "{size} ranks");
            let circulant = used(&|rank, root| Rounds::circulant(size, rank, root, bounds()));
            assert_eq!(circulant, distances(Links::Circulant, size), "{size} ranks");
        }
    }

    #[test]
    fn empty_messages_go_over_all_links() {
        for size in [1, 2, 3, 5, 8] {
            for links in [Links::Chain, Links::Circulant, Links::All] {
                let bytes = on_threads(size, |comm| {
                    connect(&comm, links)?;
                    Ok(comm.received().bytes())
                });
                assert_eq!(bytes.expect("all links are connected"), vec![0; size], "{links:?}");
            }
        }
    }
}
