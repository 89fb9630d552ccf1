//! Memory while arrays are written: in a process of its own, since the memory of the process is measured.
#![cfg(target_os = "linux")]

use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::{DistArray, Error, spmd};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::Read;
use std::thread;
use std::time::Duration;

/// The resident bytes of this process.
fn resident() -> u64 {
    let counts = fs::read_to_string("/proc/self/statm").expect("a process knows its memory");
    4096 * counts.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a count")
}

/// However slowly the file is written, messages of the other ranks do not pile up on rank 0.
#[test]
fn a_slow_file_takes_no_memory() {
    let pipe = std::env::temp_dir().join(format!("polyshard-paced-{}.pipe", std::process::id()));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let mesh = Mesh::new([("x", 3)]);
    let rows = Sharding::new(&mesh, &[3 << 8, 1 << 13], &[Placement::block(0, mesh.axes::<1>()[0])]);
    let rows = rows.expect("a sharding");
    let (reader, path) = (pipe.clone(), pipe.clone());
    let reader = thread::spawn(move || {
        let mut file = fs::File::open(reader).expect("a pipe");
        // All arrays are made when the first byte is written.
        file.read_exact(&mut [0]).expect("a header");
        let before = resident();
        thread::sleep(Duration::from_secs(2));
        let grown = resident().saturating_sub(before);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map(|len| (len, grown)).expect("the rest of it")
    });
    spmd(3, |world| {
        let array = DistArray::from_fn(world, &rows, |index| (index[0] + index[1]) as f64)?;
        world.comm().barrier()?;
        array.to_npy(world, &path)?;
        Ok::<_, Error>(())
    })
    .expect("all ranks go on");
    let (len, grown) = reader.join().expect("it reads");
    fs::remove_file(&pipe).expect("it was just made");
    assert!(len > (3 << 24) && len < (3 << 24) + 128, "{len} bytes were written");
    assert!(grown < 8 << 20, "{} MiB more are resident", grown >> 20);
}
