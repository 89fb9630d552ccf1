//! Several messages at once: MPI's combined and non-blocking calls (MPI 3.1, sections 3.7 and 3.10).
//!
//! Requests refer to the caller's slices, so none may be left when a call returns, not even with an error.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::span::{address, address_mut};
use super::status::{checked, completed, empty};
use super::{MpiCommunicator, TAG, poll, process};
use crate::{Communicator, Result};
use mpi::ffi;
use smallvec::SmallVec;
use std::ffi::c_int;
use std::iter;

/// Minimum bytes of a message for which a rank sleeps while it waits.
const LONG: usize = 1 << 20;

impl MpiCommunicator {
    /// Sends to one rank and receives from one: a shift, without any allocation if it is short. Neither is this rank.
    pub(super) fn send_receive(&self, to: usize, data: &[u8], from: usize, into: &mut [u8]) -> Result<()> {
        if data.len().max(into.len()) >= LONG {
            return self.send_receive_all(&[(to, data)], &mut [(from, into)]);
        }
        let (out, back) = (self.span(data.len())?, self.span(into.len())?);
        let mut status = empty();
        // SAFETY: the spans describe the slices, which do not overlap because one is borrowed mutably.
        let code = unsafe {
            ffi::MPI_Sendrecv(
                address(data),
                out.count,
                out.datatype,
                to as c_int,
                TAG,
                address_mut(into),
                back.count,
                back.datatype,
                from as c_int,
                TAG,
                self.raw(),
                &mut status,
            )
        };
        self.arrived(code, &status, from, into.len())
    }

    /// Sends and receives all messages except those of this rank to itself.
    pub(super) fn send_receive_all(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        let mut requests = SmallVec::<[_; 4]>::new();
        if let Err(error) = self.start_all(TAG, sends, receives, &mut requests) {
            if !requests.is_empty() {
                // MPI holds pointers into the caller's buffers, and the messages may never complete.
                process::fail(&error.to_string());
            }
            return Err(error);
        }
        let mut statuses = SmallVec::<[_; 4]>::from_elem(empty(), requests.len());
        let lengths = sends.iter().map(|send| send.1.len()).chain(receives.iter().map(|receive| receive.1.len()));
        let is_long = lengths.max() >= Some(LONG);
        let code = poll::wait_all(&mut requests, &mut statuses, is_long);
        // The receives are first, in the order listed.
        let others = receives.iter().filter(|receive| receive.0 != self.rank);
        let others = others.map(|(from, into)| Some((*from, into.len()))).chain(iter::repeat(None));
        let result = completed("exchange", code, statuses.iter().zip(others), |code, status, from, expected| {
            self.arrived(code, status, from, expected)
        });
        // SAFETY: the constant is set once MPI is initialised.
        let null = unsafe { ffi::RSMPI_REQUEST_NULL };
        if let Err(error) = &result
            && requests.iter().any(|&request| request != null)
        {
            process::fail(&error.to_string());
        }
        result
    }

    /// Gathers parts that are together too long for one call: every rank sends its own to every other.
    pub(super) fn all_gather_by_messages(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        let sends: Vec<_> = (0..self.size()).map(|rank| (rank, send)).collect();
        let mut receives = Vec::with_capacity(counts.len());
        let mut rest = into;
        for (rank, &count) in counts.iter().enumerate() {
            let (part, tail) = rest.split_at_mut(count);
            receives.push((rank, part));
            rest = tail;
        }
        self.exchange(&sends, &mut receives)
    }

    /// Starts all receives and then all sends. Stops at the first error, with the requests started so far in `requests`.
    pub(super) fn start_all(
        &self,
        tag: c_int,
        sends: &[(usize, &[u8])],
        receives: &mut [(usize, &mut [u8])],
        requests: &mut impl Extend<ffi::MPI_Request>,
    ) -> Result<()> {
        // SAFETY: the constant is set once MPI is initialised.
        let null = unsafe { ffi::RSMPI_REQUEST_NULL };
        for (from, into) in receives.iter_mut().filter(|receive| receive.0 != self.rank) {
            let span = self.span(into.len())?;
            let (from, mut request) = (*from as c_int, null);
            // SAFETY: the span describes the slice, which the caller keeps borrowed until the request is done.
            let code = unsafe {
                let into = address_mut(into);
                ffi::MPI_Irecv(into, span.count, span.datatype, from, tag, self.raw(), &mut request)
            };
            checked("starting a receive", code)?;
            requests.extend([request]);
        }
        for &(to, data) in sends.iter().filter(|send| send.0 != self.rank) {
            let span = self.span(data.len())?;
            let mut request = null;
            // SAFETY: as above; MPI reads the slice only.
            let code = unsafe {
                let data = address(data);
                ffi::MPI_Isend(data, span.count, span.datatype, to as c_int, tag, self.raw(), &mut request)
            };
            checked("starting a send", code)?;
            requests.extend([request]);
        }
        Ok(())
    }
}
