//! The links that rounds use: known before anything is sent over them.

use super::circulant::skips;
use crate::Result;
use crate::comm::Communicator;

/// How far apart in a group the ranks are of which one sends to the other, whoever begins: in a chain, which goes round, a circulant
/// broadcast, and where any rank may send to any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    Chain,
    Circulant,
    All,
}

impl Links {
    /// The distances from the rank that sends to the one that receives, each once.
    fn distances(self, size: usize) -> Vec<usize> {
        let mut distances = match self {
            Self::Chain => vec![1],
            Self::Circulant => skips(size),
            Self::All => (1..size).collect(),
        };
        distances.retain(|distance| !distance.is_multiple_of(size));
        distances.dedup();
        distances
    }

    /// Sends an empty message over each link of this rank, and receives those that come: a library connects two processes when the first
    /// message goes from one to the other, which nobody should wait for who computes meanwhile. Collective.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn connect(self, comm: &dyn Communicator) -> Result<()> {
        let (rank, size) = (comm.rank(), comm.size());
        let distances = self.distances(size);
        let sends: Vec<(usize, &[u8])> = distances.iter().map(|distance| ((rank + distance) % size, &[][..])).collect();
        let mut receives: Vec<(usize, &mut [u8])> =
            distances.iter().map(|distance| ((rank + size - distance) % size, &mut [][..])).collect();
        comm.exchange(&sends, &mut receives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Rounds;
    use crate::spmd;
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
            assert_eq!(chain, Links::Chain.distances(size), "{size} ranks");
            let circulant = used(&|rank, root| Rounds::circulant(size, rank, root, bounds()));
            assert_eq!(circulant, Links::Circulant.distances(size), "{size} ranks");
        }
    }

    #[test]
    fn empty_messages_go_over_all_links() {
        for size in [1, 2, 3, 5, 8] {
            for links in [Links::Chain, Links::Circulant, Links::All] {
                let bytes = spmd(size, |world| {
                    links.connect(world.comm())?;
                    Ok::<_, crate::Error>(world.comm().received().bytes())
                });
                assert_eq!(bytes.expect("all links are connected"), vec![0; size], "{links:?}");
            }
        }
    }
}
