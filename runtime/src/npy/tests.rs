//! Files that are not `.npy` files, and `.npy` files that cannot be read.

use super::*;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The error for a file with these bytes, with `F` for its path.
#[track_caller]
fn refused(bytes: &[u8]) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("polyshard-npy-{}-{}.npy", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::write(&path, bytes).expect("a file");
    let read = NpyFile::open(&path);
    fs::remove_file(&path).expect("it was just made");
    read.map(drop).expect_err("it should be refused").to_string().replace(&*path.to_string_lossy(), "F")
}

/// A file of version 1 with this header.
fn with_header(header: &str) -> Vec<u8> {
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat()
}

fn of_type(descr: &str) -> String {
    refused(&with_header(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (0,)}}")))
}

#[test]
fn files_that_are_no_npy_files_are_told_in_plain_words() {
    let no = "it is not a `.npy` file: it does not begin with `\\x93NUMPY`; write it with `numpy.save`";
    assert_eq!(refused(b""), "cannot read `F`: it is empty; write it with `numpy.save`");
    assert_eq!(refused(b"1 2 3\n4 5 6\n"), format!("cannot read `F`: {no}"));
    assert_eq!(refused(b"\x93NUMPX\x01\x00"), format!("cannot read `F`: {no}"));
    assert_eq!(refused(&[0]), format!("cannot read `F`: {no}"));
    let version = "unsupported .npy version 9.1 (1.0 to 3.0 are supported); write it with `numpy.save`";
    assert_eq!(refused(b"\x93NUMPY\x09\x01\xff\xff"), format!("cannot read `F`: {version}"));
}

#[test]
fn a_file_that_ends_early_is_cut_short_wherever_it_ends() {
    let whole = [&npy_header::<i64>(&[2], false)[..], &[0; 16]].concat();
    for len in 1..whole.len() {
        let why = match len {
            ..128 => format!("its header ends after {len} bytes"),
            _ => format!("{} bytes of elements instead of 16", len - 128),
        };
        assert_eq!(refused(&whole[..len]), format!("cannot read `F`: it is cut short: {why}; write it again"));
    }
}

#[test]
fn a_header_that_claims_too_much_allocates_nothing() {
    let long = refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'");
    assert_eq!(
        long,
        "cannot read `F`: its header is damaged: it claims to have 4294967295 bytes, but at most 10000 are read; write \
         it again with `numpy.save`"
    );
    let shape =
        |shape: &str| refused(&with_header(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}")));
    let huge = "[4294967296, 4294967296, 4294967296]";
    let why = format!("its header is damaged: an array of shape {huge} does not fit into memory");
    assert_eq!(shape("(4294967296, 4294967296, 4294967296)"), format!("cannot read `F`: {why}"));
    assert!(shape("(0, 4294967296, 4294967296)").contains("does not fit into memory"));
    let missing = "it is cut short: 0 bytes of elements instead of 8796093022208; write it again";
    assert_eq!(shape("(1048576, 1048576)"), format!("cannot read `F`: {missing}"));
    let many = shape(&format!("({})", "1, ".repeat(3000)));
    assert_eq!(many, "cannot read `F`: it is cut short: 0 bytes of elements instead of 8; write it again");
}

#[test]
fn an_archive_is_told_from_an_array() {
    let said = refused(b"PK\x03\x04\x2d\0\0\0\0\0");
    assert!(
        said.starts_with("cannot read `F`: it is a `.npz` archive of arrays, not a `.npy` file; extract one with "),
        "{said}"
    );
}

/// The types that NumPy's `result_type` gives for arrays of these types.
#[test]
fn the_wider_type_is_that_of_numpy() {
    let types = [DType::F32, DType::F64, DType::I32, DType::I64];
    let names = types.map(|one| types.map(|other| wider(one, other).name()).join(" "));
    assert_eq!(names, ["f32 f64 f64 f64", "f64 f64 f64 f64", "f64 f64 i32 i64", "f64 f64 i64 i64"]);
}

#[test]
fn a_damaged_header_is_not_printed_whole() {
    let end = "write it again with `numpy.save`";
    let garbage = refused(&with_header(&"([{\u{7}".repeat(2000)));
    let shown = "([{\\u{7}".repeat(10);
    assert_eq!(garbage, format!("cannot read `F`: its header is damaged: `{shown}..` is where `{{` should be; {end}"));
    let binary = refused(&[b"\x93NUMPY\x01\x00\x04\x00", &[0xff, 0xfe, 0, 1][..]].concat());
    assert!(binary.contains("\\u{fffd}\\u{fffd}\\u{0}\\u{1}` is where"), "{binary}");
}

#[test]
fn types_that_are_not_read_are_named_with_what_to_do() {
    let only = "but f32, f64, i32 or i64 is needed";
    let convert = |to: &str| format!("convert it with NumPy's `.astype('{to}')`");
    for (descr, what, remedy) in [
        ("'<c8'", "complex numbers, '<c8'", "save `a.real` and `a.imag`".to_owned()),
        ("'|b1'", "booleans, '|b1'", convert("int32")),
        ("'<f16'", "long doubles, '<f16'", convert("float64")),
        ("'>f12'", "long doubles, '>f12'", convert("float64")),
        (
            "'|V2'",
            "elements of two bytes without a type, as bfloat16 is saved, '|V2'",
            "convert it with NumPy's `.view(ml_dtypes.bfloat16).astype('float32')`".to_owned(),
        ),
        (
            "'|V7'",
            "elements without a type, '|V7'",
            "view them as the type that they are with NumPy's `.view`".to_owned(),
        ),
        ("'<f2'", "floats of another size, '<f2'", convert("float32")),
        ("'|i1'", "integers of another size, '|i1'", convert("int32")),
        ("'<u4'", "unsigned integers, '<u4'", convert("int64")),
        ("'|O'", "pickled objects, '|O'", convert("float64")),
        ("'<U5'", "strings, '<U5'", convert("float64")),
        ("'<M8[ns]'", "times, '<M8[ns]'", convert("int64")),
        ("'é'", "an unknown type, '\\u{e9}'", convert("float32")),
        ("''", "an unknown type, ''", convert("float32")),
    ] {
        assert_eq!(of_type(descr), format!("cannot use `F`: it holds {what}, {only}: {remedy}"));
    }
    let record = format!("cannot use `F`: it holds records of several fields, {only}: save one field, `a['name']`");
    assert_eq!(of_type("[('a', '<f4'), ('b', '<i4')]"), record);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = std::env::temp_dir();
    let error = NpyFile::open(&folder).map(drop).unwrap_err().to_string();
    assert_eq!(error, format!("cannot read `{}`: it is a folder, not a file", folder.display()));
    #[cfg(target_os = "linux")]
    {
        let pipe = folder.join(format!("polyshard-npy-{}.pipe", std::process::id()));
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        let error = NpyFile::open(&pipe).map(drop).unwrap_err().to_string();
        fs::remove_file(&pipe).expect("it was just made");
        assert_eq!(error, format!("cannot read `{}`: it is a pipe or a device, not a file", pipe.display()));
    }
}

/// The header is the one that NumPy writes, and has the same meaning when it is read.
#[test]
fn headers_are_those_of_numpy() {
    let text = |shape: &[usize]| String::from_utf8_lossy(&npy_header::<f32>(shape, true)[10..]).trim_end().to_owned();
    if cfg!(target_endian = "little") {
        assert_eq!(text(&[]), "{'descr': '<f4', 'fortran_order': True, 'shape': (), }");
        assert_eq!(text(&[7]), "{'descr': '<f4', 'fortran_order': True, 'shape': (7,), }");
        assert_eq!(text(&[2, 3]), "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }");
    }
    for shape in [vec![], vec![0], vec![1; 300], vec![5, 0, 7]] {
        let bytes = npy_header::<f32>(&shape, false);
        assert_eq!((bytes.len() % 64, bytes.last()), (0, Some(&b'\n')));
        let (text, start) = header_text(&mut &bytes[..]).expect("a header");
        assert_eq!((Header::parse(&text).expect("a header").shape, start), (shape, bytes.len() as u64));
    }
}
