//! Segments: memory that other processes of the node can map, as a file in memory.
//!
//! A process creates a segment when an array needs one, and sends its handle to the processes that are to read it. Arrays are
//! therefore created and dropped at any time without communication, unlike windows of MPI, whose creation and destruction are
//! collective (MPI 3.1, section 11.2.3). The files have no name, take no space in `/dev/shm`, and disappear with the last
//! process that maps them. They are opened as `/proc/PID/fd/N`, which works between processes of one user in one PID
//! namespace; processes that cannot open them exchange messages.
#![expect(unsafe_code, reason = "maps files in memory")]

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a handle: the id of the segment, its descriptor, and the cache line at which the block starts.
const BITS: [u32; 3] = [26, 18, 20];

/// The descriptors left to the process for other purposes, such as mapping segments of others.
#[cfg(target_os = "linux")]
const SPARE: i32 = 32;

/// The id of the next segment of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file in memory that this process has made.
#[derive(Debug)]
pub struct Segment {
    id: u64,
    file: File,
}

/// How another process finds a block in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The id of the segment, unique among all of its process.
    pub id: u64,
    /// The file's descriptor in that process.
    descriptor: u64,
    /// The start of the block, in bytes.
    pub offset: usize,
}

impl Segment {
    /// Alignment of blocks in a segment, in bytes.
    #[doc(hidden)]
    pub const LINE: usize = 64;

    /// Makes a segment of `bytes` zeros, and maps it.
    ///
    /// # Errors
    /// If the system has no such files, or refuses this process another.
    #[doc(hidden)]
    pub fn new(bytes: usize) -> io::Result<(Self, MmapMut)> {
        let file = create()?;
        file.set_len(bytes as u64)?;
        // SAFETY: the file has no name, and is known only to this process and to those that it sends the handle. They read and
        // write it as threads do memory: never bytes that another writes at that time. It gets shorter only when the segment is
        // dropped, when no process uses it any more.
        let pages = unsafe { options(bytes).map_mut(&file)? };
        Ok((Self::of(file), pages))
    }

    /// Makes a segment of `bytes` zeros that takes memory only where it is touched, and maps it.
    pub(super) fn sparse(bytes: usize) -> io::Result<(Self, MmapRaw)> {
        let file = create()?;
        file.set_len(bytes as u64)?;
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        Ok((Self::of(file), map))
    }

    fn of(file: File) -> Self {
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), file }
    }

    /// Returns the memory of unused whole pages to the system; they are zeros afterwards.
    pub(super) fn empty(&self, start: usize, len: usize) {
        // If the system does not do it, the pages stay allocated until the segment is dropped.
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fallocate(
            &self.file,
            rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
            start as u64,
            len as u64,
        );
        #[cfg(not(target_os = "linux"))]
        let _ = (start, len);
    }

    /// Returns the handle of the block at `offset` bytes from the start, if it fits the bits of a handle.
    ///
    /// # Panics
    /// If the block does not begin a cache line: a bug in polyshard.
    #[doc(hidden)]
    pub fn handle(&self, offset: usize) -> Option<u64> {
        let words = [self.id, descriptor(&self.file)?, (offset / Segment::LINE) as u64];
        assert!(
            offset.is_multiple_of(Segment::LINE),
            "a place in a segment is not aligned; this is a bug in polyshard"
        );
        let fits = words.iter().zip(BITS).all(|(word, bits)| word >> bits == 0);
        fits.then(|| words.iter().zip(BITS).fold(0, |handle, (word, bits)| handle << bits | word))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // Other processes keep their mappings for a while: unused pages should not occupy memory until then. If the system does
        // not do it, they are freed later.
        let _ = self.file.set_len(0);
    }
}

impl Handle {
    /// Reads a handle.
    pub fn read(mut handle: u64) -> Self {
        let mut part = |bits: u32| {
            let part = handle & ((1 << bits) - 1);
            handle >>= bits;
            part
        };
        let [line, descriptor, id] = [part(BITS[2]), part(BITS[1]), part(BITS[0])];
        Self { id, descriptor, offset: line as usize * Segment::LINE }
    }

    /// Maps the whole segment of the process with the id `process`, which must still have it; touches no page.
    ///
    /// # Errors
    /// If this process is not allowed to open it.
    pub fn map(self, process: u32) -> io::Result<MmapRaw> {
        let path = format!("/proc/{process}/fd/{}", self.descriptor);
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        MmapOptions::new().len(bytes).map_raw(&file)
    }
}

/// Maps all pages at once: one by one, as they are touched, takes far longer.
fn options(bytes: usize) -> MmapOptions {
    let mut options = MmapOptions::new();
    options.len(bytes).populate();
    options
}

#[cfg(target_os = "linux")]
fn create() -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let file = File::from(rustix::fs::memfd_create("polyshard", rustix::fs::MemfdFlags::CLOEXEC)?);
    // A duplicate with a descriptor at least this much higher is refused if the process may not have one.
    rustix::io::fcntl_dupfd_cloexec(&file, file.as_raw_fd() + SPARE)
        .map_err(|_| io::Error::other("it may have few more files open"))?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn descriptor(file: &File) -> Option<u64> {
    use std::os::fd::AsRawFd;
    u64::try_from(file.as_raw_fd()).ok()
}

#[cfg(not(target_os = "linux"))]
fn create() -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no files in memory"))
}

#[cfg(not(target_os = "linux"))]
fn descriptor(_file: &File) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_handle_sees_what_the_owner_writes() {
        let (segment, mut pages) = Segment::new(3 * 4096).expect("a segment");
        pages[4096] = 7;
        let handle = Handle::read(segment.handle(4096).expect("a handle"));
        assert_eq!((handle.id, handle.offset), (segment.id, 4096));
        let seen = handle.map(std::process::id()).expect("the process sees itself");
        assert_eq!(seen.len(), 3 * 4096);
        // SAFETY: it is mapped as long as the owner has it, which does not write here meanwhile.
        assert_eq!(unsafe { [seen.as_ptr().add(4096).read(), seen.as_ptr().read()] }, [7, 0]);
    }

    #[test]
    fn what_does_not_fit_a_handle_has_none() {
        let (segment, _pages) = Segment::new(4096).expect("a segment");
        assert_eq!(segment.handle(Segment::LINE << BITS[2]), None);
        assert!(segment.handle((Segment::LINE << BITS[2]) - Segment::LINE).is_some());
    }
}
