//! Arrays compared with the function of the index that fills them, in memory and through files.

use super::*;
use crate::layout::{Mesh, Placement};
use crate::sample::{array, contents, element, indices, on_ranks, owned_region, shardings};
use crate::{Error, FileErrorKind};
use ndarray::ArrayD;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file that is removed when the test ends.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("polyshard-{}-{}.npy", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    /// A file with this header and these bytes after it.
    fn with(header: &str, data: &[u8]) -> Self {
        let file = Self::new();
        let padding = " ".repeat(63 - (10 + header.len()) % 64);
        let header = format!("{header}{padding}\n");
        let len = (header.len() as u16).to_le_bytes();
        fs::write(&file.0, [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), data].concat()).expect("a file");
        file
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn whole(shape: &[usize]) -> Vec<i32> {
    indices(&Region::whole(shape)).iter().map(|index| element(index)).collect()
}

/// A C or Fortran file of the tests' elements.
fn written(shape: &[usize], fortran: bool, big: bool) -> Temporary {
    let mut order = indices(&Region::whole(shape));
    if fortran {
        order.sort_by_key(|index| index.iter().rev().copied().collect::<Vec<_>>());
    }
    let bytes = |value: i32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let data: Vec<u8> = order.iter().flat_map(|index| bytes(element(index))).collect();
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let (descr, fortran) = (if big { ">i4" } else { "<i4" }, if fortran { "True" } else { "False" });
    Temporary::with(&format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({extents}), }}"), &data)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A block has the owned elements in order; a view addresses them by their index.
    #[test]
    fn blocks_hold_what_is_owned(sharding in shardings(), seed in any::<u64>()) {
        let all = ArrayD::from_shape_vec(sharding.shape(), whole(sharding.shape())).expect("a shape");
        on_ranks(sharding.mesh().size(), |world| {
            let a = array(world, &sharding)?;
            let owned: Vec<_> = indices(&Region::whole(a.shape())).into_iter()
                .filter(|index| sharding.owns(a.coordinates(), index)).collect();
            assert_eq!(a.block(), owned.iter().map(|index| element(index)).collect::<Vec<_>>());
            assert!(indices(&Region::whole(a.shape())).iter()
                .all(|index| a.get(index) == owned.contains(index).then(|| element(index))));
            assert_eq!(DistArray::from_array(world, &all, &sharding)?.block(), a.block());
            assert_eq!(DistArray::filled(world, &sharding, 3)?.block(), vec![3; a.block().len()]);
            let region = owned_region(seed, &sharding, a.coordinates());
            if Subarray::of(&sharding, a.coordinates(), &Region::whole(a.shape())).is_box() {
                assert_eq!(contents(a.view(), &region), indices(&region).iter().map(|i| element(i)).collect::<Vec<_>>());
            }
            a.expect("A", &sharding)
        });
    }

    /// A gathered array has each element once; so has one that is written to a file and read again.
    #[test]
    fn gathering_and_files_keep_the_array(sharding in shardings(), fortran in any::<bool>(), big in any::<bool>()) {
        let (input, output) = (written(sharding.shape(), fortran, big), Temporary::new());
        on_ranks(sharding.mesh().size(), |world| {
            let a = DistArray::<i32>::read_npy(world, &input.0, &sharding)?;
            assert_eq!(a.block(), array(world, &sharding)?.block(), "fortran {fortran}, big {big}, {sharding}");
            let gathered = a.gather(world)?;
            assert_eq!(gathered.is_some(), world.rank() == 0);
            if let Some(gathered) = gathered {
                assert_eq!(gathered.shape(), a.shape());
                assert_eq!(gathered.into_iter().collect::<Vec<_>>(), whole(a.shape()));
            }
            a.to_npy(world, &output.0)?;
            assert_eq!(DistArray::<i32>::read_npy(world, &output.0, &sharding)?.block(), a.block());
            Ok(())
        });
    }
}

/// Elements of a narrower type, in either memory and byte order, are converted to the nearest ones of the wider type.
#[test]
fn elements_of_a_narrower_type_are_converted_as_they_are_read() {
    let mesh = Mesh::new([("x", 2)]);
    let columns = Sharding::new(&mesh, &[2, 3], &[Placement::block(1, mesh.axes::<1>()[0])]).expect("a sharding");
    // The last has no exact f64; halves and odd numbers show the order of bytes.
    let integers = [-3i64, 5, 1 << 40, -7, 0, (1 << 53) + 1];
    let floats = [0.5f32, f32::MAX, f32::NAN, -0.0, f32::INFINITY, 0.1];
    for (fortran, big) in [(false, false), (false, true), (true, false), (true, true)] {
        // The positions in C order of the elements in the file.
        let order = if fortran { [0, 3, 1, 4, 2, 5] } else { [0, 1, 2, 3, 4, 5] };
        let file = |code: &str, bytes: &dyn Fn(usize) -> Vec<u8>| {
            let data: Vec<u8> = order
                .into_iter()
                .flat_map(|at| {
                    let mut bytes = bytes(at);
                    if big != cfg!(target_endian = "big") {
                        bytes.reverse();
                    }
                    bytes
                })
                .collect();
            let (order, fortran) = (if big { '>' } else { '<' }, if fortran { "True" } else { "False" });
            let header = format!("{{'descr': '{order}{code}', 'fortran_order': {fortran}, 'shape': (2, 3), }}");
            Temporary::with(&header, &data)
        };
        let long = file("i8", &|at| integers[at].to_ne_bytes().to_vec());
        let short = file("i4", &|at| (integers[at] as i32).to_ne_bytes().to_vec());
        let single = file("f4", &|at| floats[at].to_ne_bytes().to_vec());
        let of_rank = |rank: usize| if rank == 0 { &[0, 1, 3, 4][..] } else { &[2, 5] };
        on_ranks(2, |world| {
            let mine = of_rank(world.rank());
            let bits = |array: &DistArray<f64>| array.block().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let expected = |of: &dyn Fn(usize) -> f64| mine.iter().map(|&at| of(at).to_bits()).collect::<Vec<_>>();
            let read = |file: &Temporary| DistArray::<f64>::read_npy(world, &file.0, &columns);
            assert_eq!(bits(&read(&long)?), expected(&|at| integers[at] as f64));
            assert_eq!(bits(&read(&short)?), expected(&|at| f64::from(integers[at] as i32)));
            assert_eq!(bits(&read(&single)?), expected(&|at| f64::from(floats[at])));
            let widened = DistArray::<i64>::read_npy(world, &short.0, &columns)?;
            assert_eq!(widened.block(), mine.iter().map(|&at| i64::from(integers[at] as i32)).collect::<Vec<_>>());
            let whole = crate::NpyFile::open(&short.0)?.read::<i64>()?;
            assert!(whole.iter().zip(integers).all(|(&found, from)| found == i64::from(from as i32)), "{whole}");
            for file in [&long, &single] {
                let error = DistArray::<i32>::read_npy(world, &file.0, &columns).expect_err("it is not narrower");
                assert!(error.to_string().contains("but i32 is expected"), "{error}");
            }
            Ok(())
        });
    }
}

#[test]
fn a_file_that_changed_since_it_was_opened_is_named() {
    let file = written(&[5, 4], false, false);
    let opened = crate::NpyFile::open(&file.0).expect("a file");
    opened.check_unchanged().expect("nobody writes to it");
    let bytes = fs::read(&file.0).expect("it is ours");
    let open = || fs::OpenOptions::new().write(true).open(&file.0).expect("it is ours");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    let changes: [&dyn Fn(); 3] = [
        &|| open().set_len(bytes.len() as u64 + 1).expect("it is ours"),
        &|| open().set_modified(later).expect("it is ours"),
        &|| fs::remove_file(&file.0).expect("it is ours"),
    ];
    for change in changes {
        change();
        let said = opened.check_unchanged().expect_err("it has changed").to_string();
        let expected = "it has changed since it was opened; run again when nothing writes to it";
        assert_eq!(said, format!("cannot use `{}`: {expected}", file.0.display()));
        fs::write(&file.0, &bytes).expect("it is ours");
    }
}

/// The error of reading `file` as an `f32` array of shape 2 by 3 on one rank, after the file's name.
fn refused(file: &Temporary) -> String {
    let mesh = Mesh::new([("x", 1)]);
    let message = crate::spmd(1, |world| {
        let error = DistArray::<f32>::read_npy(world, &file.0, &Sharding::replicated(&mesh, &[2, 3]));
        Ok::<_, Error>(error.expect_err("the file should be refused").to_string())
    });
    message.expect("no failure").remove(0).replace(&*file.0.to_string_lossy(), "F")
}

#[test]
fn files_that_are_not_what_is_expected_are_refused() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    let convert =
        "it holds f64, but f32 is expected: convert it with NumPy's `.astype('float32')`, or compute with f64";
    let transpose = "its shape is [3, 2], but [2, 3] is expected: write its transpose, NumPy's `.T`";
    assert!(refused(&Temporary::new()).starts_with("cannot open `F`: No such file"));
    assert_eq!(
        refused(&Temporary::with(&header.replace("<f4", "<f8"), &[0; 48])),
        format!("cannot use `F`: {convert}")
    );
    assert_eq!(
        refused(&Temporary::with(&header.replace("2, 3", "3, 2"), &[0; 24])),
        format!("cannot use `F`: {transpose}")
    );
    let both = header.replace("<f4", "<f8").replace("2, 3", "3, 2");
    assert_eq!(refused(&Temporary::with(&both, &[0; 48])), format!("cannot use `F`: {convert}; and {transpose}"));
    assert_eq!(
        refused(&Temporary::with(&header.replace("2, 3", "6,"), &[0; 24])),
        "cannot use `F`: its shape is [6], but [2, 3] is expected: write an array of that shape, or use the file's"
    );
    assert_eq!(
        refused(&Temporary::with(header, &[0; 23])),
        "cannot read `F`: it is cut short: 23 bytes of elements instead of 24; write it again"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_on_all_ranks() {
    let mesh = Mesh::new([("x", 3)]);
    let said = |path: &str| {
        let errors = crate::spmd(3, |world| {
            let a = array(world, &Sharding::replicated(&mesh, &[4]))?;
            Ok::<_, Error>(a.to_npy(world, path).expect_err("it cannot be written"))
        });
        let errors = errors.expect("no failure");
        let Error::File(error) = &errors[0] else { panic!("rank 0 writes the file: {}", errors[0]) };
        assert_eq!((error.action, &*error.path), ("write", Path::new(path)));
        assert_eq!(errors[1], Error::Root { message: errors[0].to_string() });
        (error.kind.clone(), errors.iter().map(Error::to_string).collect::<Vec<_>>())
    };
    let message = "cannot write `/none/a.npy`: the folder `/none` does not exist; create it first";
    let kind = FileErrorKind::NoFolder { folder: "/none".into() };
    assert_eq!(said("/none/a.npy"), (kind, vec![message.into(); 3]));
    #[cfg(target_os = "linux")]
    {
        let (kind, messages) = said("/dev/full");
        assert!(matches!(kind, FileErrorKind::System { kind: std::io::ErrorKind::StorageFull, .. }));
        let message = "cannot write `/dev/full`: the file system is full; write elsewhere, or make room";
        assert_eq!(messages, [message; 3]);
    }
}

/// An array may be written to the file that it was read from: no rank is still reading when it is replaced.
#[test]
fn an_array_replaces_the_file_that_it_was_read_from() {
    let mesh = Mesh::new([("x", 3)]);
    let (file, sharding) = (written(&[5, 4], false, false), Sharding::replicated(&mesh, &[5, 4]));
    on_ranks(3, |world| {
        let mut a = DistArray::<i32>::read_npy(world, &file.0, &sharding)?;
        a.block_mut().iter_mut().for_each(|element| *element += 1);
        a.to_npy(world, &file.0)?;
        let again = DistArray::<i32>::read_npy(world, &file.0, &sharding)?;
        assert_eq!(again.block(), a.block());
        Ok(())
    });
}

#[test]
fn an_array_that_does_not_fit_is_an_error_and_no_abort() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let huge = Sharding::new(&mesh, &[1 << 30, 1 << 25], &[Placement::block(0, x)]).expect("a sharding");
    let start = "rank 0: cannot allocate 144115188075855872 bytes (144.1 PB) for a rank's block of an array of shape \
                 [1073741824, 33554432]: ";
    for make in [
        |world: &World, huge: &Sharding| DistArray::filled(world, huge, 0.0),
        |world: &World, huge: &Sharding| DistArray::from_fn(world, huge, |_| 1.0),
    ] {
        let error = crate::spmd(2, |world| make(world, &huge).map(drop)).expect_err("no machine has it");
        assert!(error.to_string().starts_with(start), "{error}");
    }
}

#[test]
fn an_array_that_lies_otherwise_is_told_apart() {
    let mesh = Mesh::new([("x", 2), ("y", 1)]);
    let [x, y] = mesh.axes();
    let by =
        |axis: crate::layout::Axis| Sharding::new(&mesh, &[4, 4], &[Placement::block(0, axis)]).expect("a sharding");
    on_ranks(2, |world| {
        let a = array(world, &by(x))?;
        let said = |wanted: &Sharding| a.expect("A", wanted).expect_err("another layout").to_string();
        let error = a.expect("A", &Sharding::replicated(&mesh, &[4, 4])).expect_err("another layout");
        assert!(matches!(error, Error::Run(RunError::Owners { name, given, .. }) if name == "A" && *given == by(x)));
        assert_eq!(
            said(&Sharding::replicated(&mesh, &[4, 4])),
            "`A` is sharded [0 @ x], but the program expects replicated; make the array with the program's sharding, or \
             redistribute it"
        );
        assert_eq!(
            said(&Sharding::replicated(&mesh, &[4, 5])),
            "`A` has shape [4, 4], but the program expects [4, 5]; run it on arrays of that shape, or lower it for this one"
        );
        assert_eq!(
            said(&Sharding::replicated(&Mesh::new([("x", 2)]), &[4, 4])),
            "`A` is on the mesh (x: 2, y: 1), but the program runs on (x: 2); make the array with the program's sharding"
        );
        // An axis of one coordinate shards nothing.
        array(world, &by(y))?.expect("A", &Sharding::replicated(&mesh, &[4, 4]))
    });
}

#[test]
fn arrays_beyond_what_can_be_counted_are_refused() {
    for shape in [vec![1usize << 40, 1 << 40], vec![0, 1 << 40, 1 << 40], vec![1 << 62]] {
        on_ranks(1, |world| {
            let whole = Sharding::replicated(&Mesh::default(), &shape);
            let arrays = [DistArray::filled(world, &whole, 1i32), DistArray::from_fn(world, &whole, |_| 1i32)];
            for array in arrays {
                let why = array.expect_err("there is no such array").to_string();
                let expected =
                    format!("the bytes of an array of shape {shape:?} do not fit in 63 bits; make it smaller");
                assert!(why.starts_with(&format!("{expected}\n  --> {}:", file!())), "{why}");
            }
            Ok(())
        });
    }
}

#[test]
fn shapes_and_meshes_that_do_not_match_are_refused() {
    let mesh = Mesh::new([("x", 2)]);
    let sharding = Sharding::replicated(&mesh, &[4]);
    on_ranks(2, |world| {
        let error = DistArray::from_array(world, &ndarray::arr1(&[1, 2, 3]), &sharding).expect_err("another shape");
        assert_eq!(*error.cause(), Error::Array(ArrayError::Shape { shape: vec![3], sharding: vec![4] }));
        assert_eq!(
            error.to_string(),
            format!(
                "an array of shape [3] does not fit a sharding of shape [4]; make the shapes equal\n  --> {}:{}:21",
                file!(),
                line!() - 7
            )
        );
        let other = Sharding::replicated(&Mesh::new([("x", 3)]), &[4]);
        assert!(array(world, &other).expect_err("another mesh").to_string().contains("has 3 ranks"));
        Ok(())
    });
}
