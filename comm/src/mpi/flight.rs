//! Non-blocking messages by MPI's requests (MPI 3.1, sections 3.7.2 and 3.7.5).
//!
//! All flights of a group have one tag: MPI matches messages of one tag in the order posted, which is all that flights
//! promise. The requests of a flight refer to its pieces, which it owns until all are done; a flight that is dropped earlier
//! leaks them, and does not call MPI, since it may be dropped on any thread.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::MpiCommunicator;
use super::poll::pause;
use super::status::{arrived, completed, empty};
use crate::flight::Transfer;
use crate::{Error, Piece, Result};
use mpi::ffi;
use std::ffi::c_int;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

/// The tag of flights: they match neither the messages of blocking calls nor those of checked programs.
const TAG: c_int = 3;

/// The messages of a flight between processes.
pub(super) struct MpiTransfer {
    /// The requests of the receives and then those of the sends; completed ones are null.
    requests: Vec<ffi::MPI_Request>,
    left: usize,
    /// The error that prevents its completion.
    error: Option<Error>,
    /// Result buffers of a poll.
    places: Vec<c_int>,
    statuses: Vec<ffi::MPI_Status>,
    sends: Vec<(usize, Arc<Piece>)>,
    receives: Vec<(usize, Piece)>,
    /// The world ranks of this rank and of all members of the group.
    this: usize,
    members: Arc<[usize]>,
}

// SAFETY: requests are handles, which only `poll` passes to MPI. It is called by a communicator, which stays on the thread that MPI belongs
// to, or by a lane, for which `Handed` gives the reason. The statuses are integers.
unsafe impl Send for MpiTransfer {}

impl MpiCommunicator {
    /// Posts messages to and from other ranks.
    pub(super) fn start(
        &self,
        sends: Vec<(usize, Arc<Piece>)>,
        mut receives: Vec<(usize, Piece)>,
    ) -> Result<MpiTransfer> {
        let messages = sends.len() + receives.len();
        let mut requests = Vec::with_capacity(messages);
        let leaving: Vec<(usize, &[u8])> = sends.iter().map(|(to, piece)| (*to, &***piece)).collect();
        let mut coming: Vec<(usize, &mut [u8])> =
            receives.iter_mut().map(|(from, piece)| (*from, &mut **piece)).collect();
        let started = self.start_all(TAG, &leaving, &mut coming, &mut requests);
        let left = requests.len();
        let members = Arc::clone(&self.members);
        let (places, statuses) = (vec![0; messages], vec![empty(); messages]);
        // If not all have started, it is dropped, and the pieces are leaked.
        let transfer = MpiTransfer {
            requests,
            left,
            error: None,
            places,
            statuses,
            sends,
            receives,
            this: members[self.rank],
            members,
        };
        started.map(|()| transfer)
    }
}

impl MpiTransfer {
    /// Finds the messages that are done; at least one is not yet.
    fn test(&mut self) -> Result<()> {
        let mut done = 0;
        // SAFETY: all three arrays have as many entries as there are requests, whose buffers are owned by this transfer and not
        // touched, and `done` is a local.
        let code = unsafe {
            let (requests, places) = (self.requests.as_mut_ptr(), self.places.as_mut_ptr());
            let count = self.requests.len() as c_int;
            ffi::MPI_Testsome(count, requests, &mut done, places, self.statuses.as_mut_ptr())
        };
        // If there is no error, some request is active, so the number is not undefined.
        let done = usize::try_from(done).unwrap_or(0);
        let receive = |place: c_int| self.receives.get(place as usize).map(|(from, piece)| (*from, piece.len()));
        let messages = self.places.iter().zip(&self.statuses).take(done);
        let messages = messages.map(|(&place, status)| (status, receive(place)));
        completed("polling a flight", code, messages, |code, status, from, expected| {
            arrived(code, status, [self.this, self.members[from]], expected)
        })?;
        self.left -= done;
        Ok(())
    }
}

impl Transfer for MpiTransfer {
    fn poll(&mut self) -> Result<bool> {
        if self.left > 0 && self.error.is_none() {
            self.error = self.test().err();
        }
        self.error.clone().map_or(Ok(self.left == 0), Err)
    }

    fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.poll()? {
            pause(began);
        }
        Ok(())
    }

    fn take(&mut self) -> Vec<Piece> {
        self.receives.drain(..).map(|(_, piece)| piece).collect()
    }
}

impl Drop for MpiTransfer {
    fn drop(&mut self) {
        if self.left > 0 {
            // MPI may still read from these pieces and write into them.
            mem::forget(mem::take(&mut self.sends));
            mem::forget(mem::take(&mut self.receives));
        }
    }
}
