//! The state of a rank while others wait, for reports of deadlocks.

use super::super::call::Call;
use super::super::words::{Operation, amount, messages, within};
use super::state::{State, Status};

impl State {
    /// Returns the state of `rank`.
    pub(super) fn operation(&self, rank: usize) -> Operation {
        match &self.ranks[rank].status {
            Status::Running => Operation::Runs,
            Status::Ended => Operation::Ended,
            Status::Receives { from, bytes, .. } => {
                Operation::Waits(format!("to receive {} from rank {from}", amount(*bytes)))
            }
            Status::Sends => {
                let inboxes = self.ranks.iter().enumerate().flat_map(|(to, other)| {
                    let of_rank = other.inbox.iter().filter(|((_, from), _)| *from == rank);
                    of_rank.flat_map(move |(_, queue)| queue.iter().map(move |(message, _)| (to, message)))
                });
                match inboxes.into_iter().find(|(_, message)| message.is_borrowed()) {
                    Some((to, message)) => {
                        Operation::Waits(format!("for rank {to} to receive {}", amount(message.len())))
                    }
                    None => Operation::Runs,
                }
            }
            Status::Flies { peers: [receives, sends], .. } => {
                let ranks = |peers: &[(usize, usize)]| peers.iter().map(|peer| peer.0).collect();
                let bytes = |peers: &[(usize, usize)]| peers.iter().map(|peer| peer.1).sum();
                Operation::Waits(messages([ranks(receives), ranks(sends)], [bytes(receives), bytes(sends)]))
            }
            Status::Meets { group, rank } => {
                let collective = &self.groups[group];
                let call = collective.call(*rank).map_or_else(String::new, Call::to_string);
                Operation::Waits(within(&call, &collective.members, self.ranks.len()))
            }
        }
    }
}
