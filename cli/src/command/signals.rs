//! Signals that end the program: partial files are removed, and mapped memory that no longer exists is reported by name.
//!
//! Only the command line has handlers; a library leaves that to its program.
#![cfg_attr(unix, expect(unsafe_code, reason = "handlers of signals are installed by calls of C"))]

#[cfg(all(test, target_os = "linux"))]
mod tests;

/// How long the other processes wait for rank 0, the only one that writes files, to remove its partial ones: Open MPI
/// sends `SIGTERM` to all processes of an interrupted run, and `SIGKILL` as soon as one has ended.
#[cfg(unix)]
const REMOVAL: std::time::Duration = std::time::Duration::from_millis(500);

#[cfg(not(unix))]
pub(super) fn install() {}

/// Installs the handlers. If that is not possible, the system's own remain.
#[cfg(unix)]
pub(super) fn install() {
    use crate::say::is_first;
    use polyshard::runtime::remove_partial_files;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // `nohup` and shells ignore some of them in background jobs.
    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(ending) {
        // A thread may make calls that a handler must not.
        let end = move || {
            if let Some(signal) = signals.forever().next() {
                remove_partial_files();
                if !is_first() {
                    std::thread::sleep(REMOVAL);
                }
                signal_hook::low_level::exit(128 + signal);
            }
        };
        let _ = std::thread::Builder::new().name("signals".into()).spawn(end);
    }
    #[cfg(target_os = "linux")]
    bus::install();
}

#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros are a valid action, and the call only reads the current one and changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Access to mapped memory that no longer exists: a file was truncated, or shared memory is exhausted. The system sends `SIGBUS`, and the
/// program cannot continue.
#[cfg(target_os = "linux")]
mod bus {
    use std::fs::File;
    use std::io::Read;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex, OnceLock};

    /// Room for a line of `/proc/self/maps`: a handler has a small stack, and must not allocate.
    static LINE: Mutex<[u8; 8192]> = Mutex::new([0; 8192]);

    /// The previous action.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// Seconds that other processes wait for the first one to report the same error, after which the launcher ends all.
    static PATIENCE: AtomicU32 = AtomicU32::new(0);

    pub(super) fn install() {
        if !crate::say::is_first() {
            PATIENCE.store(crate::say::PATIENCE.as_secs() as u32, Ordering::Relaxed);
        }
        // SAFETY: all zeros are a valid action, which is changed to one with a handler of the form that its flag says, on
        // the stack that the standard library has made for handlers. The handler makes calls that are safe in one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) == 0 && BEFORE.set(before).is_ok() {
                libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
            }
        }
    }

    extern "C" fn handle(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
        // A second thread returns and faults again, until the first one ends the process.
        let Ok(mut line) = LINE.try_lock() else { return };
        // SAFETY: the system passes a valid description of the signal.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
        let mapped = (code > 0).then(|| mapping(address, &mut line[..])).flatten();
        let Some((is_shared, path)) = mapped else {
            // Not a file: the previous action applies. A fault recurs; a signal that was sent has to be raised again.
            // SAFETY: the action is one that was installed before.
            unsafe {
                libc::sigaction(signal, BEFORE.get().map_or(std::ptr::null(), |before| before), std::ptr::null_mut());
                if code <= 0 {
                    libc::raise(signal);
                }
            }
            return;
        };
        let no_memory = "`, which processes share; free some in `/dev/shm`, or start fewer ranks\n";
        let is_cut = "`: it has become shorter since it was opened; run again when nothing writes to it\n";
        let [start, end] = match is_shared {
            true => ["error: no memory left for `", no_memory],
            false => ["error: cannot read `", is_cut],
        };
        let mut seconds = PATIENCE.load(Ordering::Relaxed);
        while seconds > 0 {
            // SAFETY: it only waits; a signal from the launcher wakes it.
            seconds = unsafe { libc::sleep(seconds) };
        }
        for part in [start.as_bytes(), path, end.as_bytes()] {
            // SAFETY: the bytes are valid; the descriptor need not be open.
            unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
        }
        // SAFETY: it ends the process immediately, and runs nothing else in it.
        unsafe { libc::_exit(1) }
    }

    /// Finds the file that is mapped at an address, and whether it is shared memory that can be written to.
    fn mapping(address: usize, line: &mut [u8]) -> Option<(bool, &[u8])> {
        let mut maps = File::open("/proc/self/maps").ok()?;
        let mut len = 0;
        loop {
            maps.read_exact(line.get_mut(len..=len)?).ok()?;
            match line[len] {
                b'\n' if covers(&line[..len], address)? => break,
                b'\n' => len = 0,
                _ => len += 1,
            }
        }
        // `7f3c00000000-7f3c00400000 rw-s 00000000 00:01 2 /dev/shm/name`
        let line = &line[..len];
        let permissions = line.iter().position(|&byte| byte == b' ')? + 1;
        let path = line.iter().position(|&byte| byte == b'/')?;
        Some((line.get(permissions + 1) == Some(&b'w') && line.get(permissions + 3) == Some(&b's'), &line[path..]))
    }

    fn covers(line: &[u8], address: usize) -> Option<bool> {
        let mut ends = line.splitn(2, |&byte| byte == b' ').next()?.splitn(2, |&byte| byte == b'-');
        let mut end = || usize::from_str_radix(std::str::from_utf8(ends.next()?).ok()?, 16).ok();
        Some((end()?..end()?).contains(&address))
    }
}
