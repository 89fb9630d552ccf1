//! Signals that end the program: what is half written is removed, and memory that is gone is named.
//!
//! Only the command line has handlers; a library leaves that to its program.
#![cfg_attr(unix, expect(unsafe_code, reason = "handlers of signals are installed by calls of C"))]

#[cfg(not(unix))]
pub(super) fn install() {}

/// Installs the handlers. Where that is not possible, the system does what it does without them.
#[cfg(unix)]
pub(super) fn install() {
    use polyshard::runtime::remove_partial_files;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // `nohup` and shells that start something in the background have some ignored.
    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(ending) {
        // A thread may do what a handler must not.
        let end = move || {
            if let Some(signal) = signals.forever().next() {
                remove_partial_files();
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
    // SAFETY: all zeros are a valid action, and the call reads which one there is and changes none.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Memory that has been mapped and is not there when it is touched: of a file that has been cut, or that processes share
/// where no more is left for that. The system sends `SIGBUS`, and nothing that is under way can go on.
#[cfg(target_os = "linux")]
mod bus {
    use std::fs::File;
    use std::io::Read;
    use std::sync::{Mutex, OnceLock};

    /// Room for a line of `/proc/self/maps`: a handler has little on its stack, and must not allocate.
    static LINE: Mutex<[u8; 8192]> = Mutex::new([0; 8192]);

    /// What was done with the signal before.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    pub(super) fn install() {
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
        // Another thread that finds the same waits here, by touching the memory again, until the first ends the process.
        let Ok(mut line) = LINE.try_lock() else { return };
        // SAFETY: the system calls with what it knows of the signal.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
        let mapped = (code > 0).then(|| mapping(address, &mut line[..])).flatten();
        let Some((is_shared, path)) = mapped else {
            // Not of a file: as before. The memory is touched again, and whoever sent the signal is not there to do it.
            // SAFETY: the action is one that was installed before.
            unsafe {
                libc::sigaction(signal, BEFORE.get().map_or(std::ptr::null(), |before| before), std::ptr::null_mut());
                if code <= 0 {
                    libc::raise(signal);
                }
            }
            return;
        };
        let [start, end] = if is_shared {
            [
                "error: there is no memory for `",
                "`, which processes share; make room in `/dev/shm`, or start fewer ranks\n",
            ]
        } else {
            [
                "error: cannot read `",
                "`: it has become shorter since it was opened; run again when nothing writes to it\n",
            ]
        };
        for part in [start.as_bytes(), path, end.as_bytes()] {
            // SAFETY: the bytes are there; the descriptor need not be open.
            unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
        }
        // SAFETY: it ends the process at once, and runs nothing else in it.
        unsafe { libc::_exit(1) }
    }

    /// Finds the file that is mapped at an address, and whether it is shared memory that can be written to.
    fn mapping(address: usize, line: &mut [u8]) -> Option<(bool, &[u8])> {
        let mut maps = File::open("/proc/self/maps").ok()?;
        let mut len = 0;
        let end = loop {
            match line[..len].iter().position(|&byte| byte == b'\n') {
                Some(end) if covers(&line[..end], address)? => break end,
                Some(end) => {
                    line.copy_within(end + 1..len, 0);
                    len -= end + 1;
                }
                None => len += maps.read(&mut line[len..]).ok().filter(|&read| read > 0)?,
            }
        };
        // `7f3c00000000-7f3c00400000 rw-s 00000000 00:01 2 /dev/shm/name`
        let line = &line[..end];
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::process::ExitStatusExt;
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitStatus, Output};

    const CASE: &str = "POLYSHARD_TEST_OF_SIGNALS";

    /// Runs `case` in a process of its own, where the handlers are installed: this test once more.
    fn in_process(test: &str, case: impl FnOnce(&Path)) -> Option<Output> {
        if let Some(path) = std::env::var_os(CASE) {
            super::install();
            case(Path::new(&path));
            std::process::exit(3);
        }
        let path = path(test);
        let arguments = ["--exact", &format!("command::signals::tests::{test}"), "--nocapture"];
        let test = std::env::current_exe().expect("a test knows its path");
        Some(Command::new(test).args(arguments).env(CASE, path).output().expect("a process starts"))
    }

    fn path(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("polyshard-{test}-{}", std::process::id()))
    }

    /// Maps two pages of a file, has it cut, and reads them, on two threads at once.
    fn read_what_is_cut(path: &Path, protection: i32) {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file");
        file.set_len(8192).expect("the file is ours");
        // SAFETY: a new mapping changes no memory that is used.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), 8192, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        file.set_len(100).expect("the file is ours");
        std::fs::remove_file(path).expect("the file is ours");
        let address = map as usize + 4096;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                // SAFETY: the page is mapped; that there is nothing behind it is what is tested.
                scope.spawn(move || unsafe { (address as *const u8).read_volatile() });
            }
        });
    }

    fn said(ended: Option<Output>) -> (ExitStatus, String) {
        let Output { status, stderr, .. } = ended.expect("this is the process that starts the other");
        (status, String::from_utf8_lossy(&stderr).into_owned())
    }

    #[test]
    fn a_file_that_is_cut_while_it_is_read_is_named() {
        let name = "a_file_that_is_cut_while_it_is_read_is_named";
        let (status, stderr) = said(in_process(name, |path| read_what_is_cut(path, libc::PROT_READ)));
        let expected = format!(
            "error: cannot read `{} (deleted)`: it has become shorter since it was opened; run again when nothing writes to it\n",
            path(name).display()
        );
        assert_eq!((status.code(), stderr), (Some(1), expected));
    }

    #[test]
    fn shared_memory_that_is_not_there_is_named() {
        let name = "shared_memory_that_is_not_there_is_named";
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let (status, stderr) = said(in_process(name, |path| read_what_is_cut(path, writable)));
        let expected = format!(
            "error: there is no memory for `{} (deleted)`, which processes share; make room in `/dev/shm`, or start fewer ranks\n",
            path(name).display()
        );
        assert_eq!((status.code(), stderr), (Some(1), expected));
    }

    #[test]
    fn what_is_no_mapping_of_a_file_ends_as_without_a_handler() {
        let sent = |_: &Path| {
            // The standard library's handler, to which the first goes, leaves the next one to the system.
            for _ in 0..2 {
                // SAFETY: the process ends by it.
                unsafe { libc::raise(libc::SIGBUS) };
            }
        };
        let (status, stderr) = said(in_process("what_is_no_mapping_of_a_file_ends_as_without_a_handler", sent));
        assert_eq!((status.signal(), &*stderr), (Some(libc::SIGBUS), ""));
    }
}
