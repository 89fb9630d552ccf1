//! Which ranks can never continue, decided from the reports of all ranks.
//!
//! ```text
//! a rank that runs, or does not answer                 may still do anything
//! one in a collective of a group                       continues if every member has reached it, or may still do so
//! one that waits for messages                          continues if a peer may still do anything, or waits in the other half
//! one that waits for a flight                          continues if each peer may still do anything, or has posted the other half
//! ```
//!
//! A posted message arrives whatever its sender waits for, since every call of MPI progresses messages; so a rank that waits for a
//! long message is not taken to be stuck. A rank that polls counts as running.
//!
//! The other ranks wait for each other, or for one that has left: no message can arrive any more.

use super::report::{Place, Posted, Report};

/// Returns, by rank, whether it can never continue; `reports` are of the same moment, none for a rank that does not answer.
pub(super) fn stuck(reports: &[Option<Report>]) -> Vec<bool> {
    let runs = |report: &Option<Report>| report.as_ref().is_none_or(|report| report.place == Place::Runs);
    let mut stuck: Vec<bool> = reports.iter().map(|report| !runs(report)).collect();
    loop {
        let goes_on = |rank: usize| reports[rank].as_ref().is_none_or(|report| goes_on(report, reports, &stuck));
        let Some(rank) = (0..stuck.len()).find(|&rank| stuck[rank] && goes_on(rank)) else { return stuck };
        stuck[rank] = false;
    }
}

/// Whether the rank of this report may continue if the stuck ranks do not.
fn goes_on(report: &Report, reports: &[Option<Report>], stuck: &[bool]) -> bool {
    let of = |rank: usize| reports.get(rank).and_then(Option::as_ref);
    match &report.place {
        Place::Runs => true,
        Place::Meets { group, number, call, members } => members.iter().all(|&member| {
            let Some(other) = of(member).filter(|_| stuck[member]) else { return true };
            match &other.place {
                Place::Meets { group: g, number: n, call: c, .. } if (g, n) == (group, number) => c.meets(call),
                _ => other.calls.iter().any(|(id, calls)| id == group && calls >= number),
            }
        }),
        Place::Messages { peers } => {
            let other_half = |peer: usize, sent: bool| match of(peer).map(|other| &other.place) {
                Some(Place::Messages { peers }) => peers.contains(&(report.rank, !sent)),
                _ => false,
            };
            let goes_on = |&(peer, sent)| !stuck.get(peer).is_some_and(|stuck| *stuck) || other_half(peer, sent);
            peers.iter().any(goes_on)
        }
        Place::Flies { group, messages } => {
            let is_posted = |other: &Report, sent: bool, number: u64| {
                // A rank that has left the group no longer reports its posted messages there.
                let has_left = other.calls.iter().all(|(id, _)| id != group);
                let here = |it: &&Posted| (it.group, it.peer) == (*group, report.rank);
                let count = other.posted.iter().find(here).map_or(0, |it| it.counts[usize::from(!sent)]);
                has_left || count >= number
            };
            messages.iter().all(|&(peer, sent, number)| {
                of(peer).filter(|_| stuck[peer]).is_none_or(|other| is_posted(other, sent, number))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::words::Operation;

    const WORLD: u64 = 0;
    const END: u64 = 1;

    fn at(place: Place, calls: &[(u64, u64)]) -> Option<Report> {
        let (calls, operation) = (calls.to_vec(), Operation::Runs);
        Some(Report { round: 1, rank: 0, turn: 1, waited: 0, place, calls, posted: Vec::new(), operation })
    }

    fn meets(group: u64, number: u64, call: Call, members: &[usize], calls: &[(u64, u64)]) -> Option<Report> {
        at(Place::Meets { group, number, call, members: members.to_vec() }, calls)
    }

    fn receives(from: usize) -> Option<Report> {
        at(Place::Messages { peers: vec![(from, false)] }, &[])
    }

    fn sends(to: usize) -> Option<Report> {
        at(Place::Messages { peers: vec![(to, true)] }, &[])
    }

    #[track_caller]
    fn check(mut reports: Vec<Option<Report>>, expected: &[usize]) {
        for (rank, report) in reports.iter_mut().enumerate() {
            if let Some(report) = report {
                report.rank = rank;
            }
        }
        let found: Vec<_> = stuck(&reports).iter().enumerate().filter(|rank| *rank.1).map(|rank| rank.0).collect();
        assert_eq!(found, expected);
    }

    const ALL: [usize; 3] = [0, 1, 2];

    fn barrier() -> Option<Report> {
        meets(WORLD, 5, Call::Barrier, &ALL, &[(WORLD, 5), (END, 0)])
    }

    #[test]
    fn ranks_in_one_collective_go_on() {
        check(vec![barrier(), barrier(), barrier()], &[]);
        // A rank that has left it early has done its part.
        let ended = || meets(END, 1, Call::End, &ALL, &[(WORLD, 5), (END, 1)]);
        check(vec![barrier(), barrier(), ended()], &[]);
    }

    #[test]
    fn a_rank_that_has_ended_keeps_the_others_waiting() {
        let ended = || meets(END, 1, Call::End, &ALL, &[(WORLD, 4), (END, 1)]);
        check(vec![barrier(), barrier(), ended()], &[0, 1, 2]);
    }

    #[test]
    fn while_a_rank_runs_or_does_not_answer_those_that_wait_for_it_may_go_on() {
        check(vec![barrier(), at(Place::Runs, &[(WORLD, 4)]), barrier()], &[]);
        check(vec![barrier(), None, barrier()], &[]);
        // But ranks that do not wait for it are stuck.
        check(vec![receives(1), receives(0), at(Place::Runs, &[])], &[0, 1]);
    }

    #[test]
    fn different_collectives_do_not_meet() {
        let other = || meets(WORLD, 5, Call::SharedMemory, &ALL, &[(WORLD, 5), (END, 0)]);
        check(vec![barrier(), other(), barrier()], &[0, 1, 2]);
        let pair = |id: u64, members: &[usize]| meets(id, 1, Call::Barrier, members, &[(id, 1)]);
        check(vec![pair(8, &[0, 1]), pair(9, &[1, 2]), pair(7, &[2, 0])], &[0, 1, 2]);
        check(vec![pair(8, &[0, 1]), pair(8, &[0, 1]), pair(7, &[2, 0])], &[]);
    }

    #[test]
    fn a_message_needs_its_other_half() {
        check(vec![receives(1), receives(2), receives(0)], &[0, 1, 2]);
        check(vec![sends(1), sends(2), sends(0)], &[0, 1, 2]);
        check(vec![receives(1), sends(0), receives(0)], &[]);
        check(vec![receives(1), barrier(), barrier()], &[0, 1, 2]);
    }

    /// A rank at this place that has posted this many messages to rank 0, and none from it.
    fn has_posted(count: u64, mut report: Option<Report>) -> Option<Report> {
        if let Some(report) = &mut report {
            report.posted = vec![Posted { group: WORLD, peer: 0, counts: [0, count] }];
        }
        report
    }

    fn flies(from: usize, number: u64) -> Option<Report> {
        at(Place::Flies { group: WORLD, messages: vec![(from, false, number)] }, &[(WORLD, 4), (END, 0)])
    }

    #[test]
    fn a_flight_needs_what_is_posted_and_not_what_its_peer_does() {
        check(vec![flies(1, 3), has_posted(3, barrier()), barrier()], &[]);
        check(vec![flies(1, 3), has_posted(2, barrier()), barrier()], &[0, 1, 2]);
        check(vec![flies(1, 3), has_posted(2, at(Place::Runs, &[(WORLD, 4)])), barrier()], &[]);
        // Of two messages, one can never arrive.
        let messages = vec![(1, false, 1), (2, false, 1)];
        let both = at(Place::Flies { group: WORLD, messages }, &[(WORLD, 4), (END, 0)]);
        check(vec![both, has_posted(1, barrier()), barrier()], &[0, 1, 2]);
        // Messages that a rank has sent to others do not help.
        check(vec![barrier(), has_posted(9, flies(0, 1)), barrier()], &[0, 1, 2]);
    }
}
