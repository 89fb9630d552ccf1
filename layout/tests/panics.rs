//! A mistake in the caller's program is reported at the caller's line.

use polyshard_layout::Mesh;
use std::panic::{catch_unwind, set_hook};
use std::sync::Mutex;

static AT: Mutex<Vec<(String, u32)>> = Mutex::new(Vec::new());

#[test]
fn panics_name_the_callers_line() {
    set_hook(Box::new(|info| {
        let at = info.location().expect("a panic has a location");
        AT.lock().expect("no test panics in here").push((at.file().to_owned(), at.line()));
    }));
    let mesh = Mesh::new([("x", 2)]);
    let first = line!() + 2;
    let mistakes: [fn(&Mesh); 6] = [
        |_| drop(Mesh::new([("x", 0)])),
        |_| drop(Mesh::new([("x", 1 << 40), ("y", 1 << 40)])),
        |mesh| drop(mesh.coordinates(2)),
        |mesh| drop(mesh.rank(&[2]).to_string()),
        |mesh| drop(mesh.rank(&[]).to_string()),
        |mesh| drop(mesh.axes::<2>().to_vec()),
    ];
    for mistake in mistakes {
        catch_unwind(|| mistake(&mesh)).expect_err("a mistake");
    }
    let expected: Vec<_> = (first..first + 6).map(|line| (file!().to_owned(), line)).collect();
    assert_eq!(*AT.lock().expect("no test panics in here"), expected);
}
