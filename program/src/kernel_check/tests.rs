use crate::{
    Access, Affine, Assign, Comparison, Conditional, DType, Function, Kernel, KernelSpec, Modulus, Number, Value,
};
use expect_test::{Expect, expect};
use polyshard_layout::Name;
use std::ops::Range;

/// `A[2*i + r - 1, k]`, with indices as they print.
fn at(tensor: &str, index: &[&str]) -> Access {
    Access::new(tensor.into(), index.iter().map(|text| affine(text)).collect())
}

fn affine(text: &str) -> Affine {
    let (mut terms, mut constant, mut sign) = (Vec::new(), 0, 1);
    for part in text.split_whitespace() {
        match part.split_once('*') {
            _ if part == "+" => sign = 1,
            _ if part == "-" => sign = -1,
            Some((factor, name)) => terms.push((Name::new(name), sign * factor.parse::<i64>().unwrap())),
            None => match part.parse::<i64>() {
                Ok(number) => constant += sign * number,
                Err(_) => terms.push((Name::new(part), sign)),
            },
        }
    }
    // Terms as they are, not yet added up.
    let mut index = Affine::new([], constant);
    index.terms = terms;
    index
}

fn read(tensor: &str, index: &[&str]) -> Value {
    Value::Access(at(tensor, index))
}

fn sum(a: Value, b: Value) -> Value {
    Value::Add(Box::new(a), Box::new(b))
}

fn int(value: i64) -> Value {
    Value::Literal(Number::Int(value))
}

/// `C` of 16 elements from `A` of 18 over `f64`, with this value.
fn stencil(value: Value) -> KernelSpec {
    KernelSpec {
        name: "stencil".into(),
        dtype: DType::F64,
        inputs: vec![("A".into(), vec![18])],
        output: ("C".into(), vec![16]),
        ranges: Vec::new(),
        scalars: Vec::new(),
        moduli: Vec::new(),
        target: at("C", &["i"]),
        assign: Assign::Set,
        value,
    }
}

fn three(indices: [&str; 3]) -> Value {
    let [a, b, c] = indices.map(|index| read("A", &[index]));
    sum(sum(a, b), c)
}

fn with_range(spec: KernelSpec, range: std::ops::Range<i128>) -> KernelSpec {
    KernelSpec { ranges: vec![("i".into(), range)], ..spec }
}

/// Of each kernel the statement, the same with indices from 0, and the indices; or the error.
fn check(specs: impl IntoIterator<Item = KernelSpec>, expect: Expect) {
    let shown = specs.into_iter().map(|spec| match spec.check() {
        Ok(kernel) => {
            let vars: Vec<_> = kernel.vars().iter().map(|var| format!("{}: {}", var.name, var.extent)).collect();
            format!("{}\n{}\n{}\n", kernel.statement(), kernel.counted_statement(), vars.join(", "))
        }
        Err(error) => format!("error: {error}\n"),
    });
    expect.assert_eq(&shown.collect::<String>());
}

#[test]
fn ranges_hold_where_extents_differ_and_start_anywhere() {
    let spec = stencil(three(["i - 1", "i", "i + 1"]));
    let value = Value::Mul(Box::new(read("A", &["i + 100"])), Box::new(read("W", &["r"])));
    let inputs = vec![("A".into(), vec![18]), ("W".into(), vec![0])];
    check(
        [
            with_range(stencil(three(["i", "i + 1", "i + 2"])), 0..16),
            with_range(KernelSpec { output: ("C".into(), vec![18]), ..spec.clone() }, 1..17),
            with_range(KernelSpec { target: at("C", &["i + 2"]), value: read("A", &["-2*i + 2"]), ..spec }, -2..1),
            with_range(stencil(three(["i", "i + 1", "i + 2"])), 0..17),
            with_range(stencil(read("A", &["i"])), -1..16),
            with_range(stencil(read("A", &["i"])), Range { start: 5, end: 3 }),
            with_range(stencil(read("A", &["i"])), 5..5),
            with_range(stencil(read("A", &["i"])), 0..i128::MAX),
            KernelSpec { inputs, ..stencil(value) },
        ],
        expect![[r#"
            C[i] = A[i] + A[i + 1] + A[i + 2] for i in 0..16
            C[i] = A[i] + A[i + 1] + A[i + 2]
            i: 16
            C[i] = A[i - 1] + A[i] + A[i + 1] for i in 1..17
            C[i + 1] = A[i] + A[i + 1] + A[i + 2]
            i: 16
            C[i + 2] = A[-2*i + 2] for i in -2..1
            C[i] = A[-2*i + 6]
            i: 3
            error: `C[i]` leaves `C`: index `i` spans 0..17, but dimension 0 has extent 16
            error: `C[i]` leaves `C`: index `i` spans -1..16, but dimension 0 has extent 16
            error: the range of `i` ends before it starts: 5..3; an empty one is `5..5`
            C[i] = A[i] for i in 5..5
            C[i] = A[i]
            i: 0
            error: the extents of `i` overflow: 0..170141183460469231731687303715884105727 does not fit 63 bits; make them smaller
            C[i] = A[i + 100] * W[r]
            C[i] = A[i] * W[r]
            i: 16, r: 0
        "#]],
    );
}

#[test]
fn without_a_range_the_one_that_fits_is_offered() {
    let spec = stencil(three(["i - 1", "i", "i + 1"]));
    check(
        [stencil(three(["i", "i + 1", "i + 2"])), KernelSpec { output: ("C".into(), vec![18]), ..spec }],
        expect![[r#"
            error: index `i` has extent 16 in `C[i]`, but 18 in `A[i]`; make them match, or state the range that fits: `for i in 0..16`
            error: `A[i - 1]` leaves `A`: index `i - 1` spans -1..17, but dimension 0 has extent 18; state the range that fits: `for i in 1..17`
        "#]],
    );
}

#[test]
fn only_products_of_several_tensors_may_have_more_points_than_can_be_counted() {
    let mul = |one: Value, other: Value| Value::Mul(Box::new(one), Box::new(other));
    let names = ["A", "B", "D", "E", "F", "G", "H"];
    let of = |factors: usize, extent: i128| KernelSpec {
        inputs: names[..factors].iter().map(|&name| (name.into(), vec![extent])).collect(),
        output: ("C".into(), Vec::new()),
        target: at("C", &[]),
        value: names[..factors].iter().map(|name| read(name, &[&name.to_lowercase()])).reduce(mul).unwrap(),
        ..stencil(read("A", &["i"]))
    };
    let points =
        |spec: KernelSpec| spec.check().and_then(|kernel| kernel.check_points()).map_err(|why| why.to_string());
    assert_eq!(points(of(3, 1 << 20)), Ok(()));
    assert!(of(3, 1 << 21).check().is_ok());
    let one_nest = "the extents of the index variables of one nest overflow: 2097152 * 2097152 * 2097152 does not fit 63 bits; make them smaller";
    assert_eq!(points(of(3, 1 << 21)), Err(one_nest.into()));
    let many = points(of(7, 1 << 10)).unwrap_err();
    assert!(many.contains("overflow: 1024 * 1024 * 1024 * 1024 * .. * 1024 does not fit"), "{many}");
    // Nothing can take these two at a time with fewer points.
    let two =
        "the extents of the index variables overflow: 4294967296 * 4294967296 does not fit 63 bits; make them smaller";
    assert_eq!(points(of(2, 1 << 32)), Err(two.into()));
}

#[test]
fn factors_that_overflow_are_refused_or_make_no_difference() {
    check(
        [
            stencil(read("A", &["9223372036854775807*i"])),
            with_range(stencil(read("A", &["9223372036854775807*i"])), 0..1),
            stencil(read("A", &["9223372036854775807*i + i"])),
        ],
        expect![[r#"
            error: `A[9223372036854775807*i]` leaves `A`: index `9223372036854775807*i` spans 0..9223372036854775807, but dimension 0 has extent 18; state the range that fits: `for i in 0..1`
            C[i] = A[9223372036854775807*i] for i in 0..1
            C[i] = A[i]
            i: 1
            error: the extents of an index of `A` overflow: 9223372036854775808*i does not fit 63 bits; make them smaller
        "#]],
    );
}

#[test]
fn numbers_fit_the_element_type() {
    let with = |dtype, value: Value| KernelSpec {
        dtype,
        output: ("C".into(), vec![18]),
        ..stencil(sum(read("A", &["i"]), value))
    };
    let scalars = vec![("alpha".into(), Number::Int(1 << 40))];
    check(
        [
            with(DType::I32, int(3_000_000_000)),
            with(DType::F32, Value::Neg(Box::new(Value::Literal(Number::Float(1e300))))),
            with(DType::I32, Value::Neg(Box::new(int(2_147_483_649)))),
            with(DType::I32, Value::Neg(Box::new(int(2_147_483_648)))),
            KernelSpec { scalars, ..with(DType::I32, Value::Scalar("alpha".into())) },
        ],
        expect![[r#"
            error: `3000000000` does not fit i32; write a smaller number, or let the tensors hold a larger type
            error: `1e300` does not fit f32; write a smaller number, or let the tensors hold a larger type
            error: `2147483649` does not fit i32; write a smaller number, or let the tensors hold a larger type
            C[i] = A[i] + -2147483648
            C[i] = A[i] + -2147483648
            i: 18
            error: `alpha = 1099511627776` does not fit i32; write a smaller number, or let the tensors hold a larger type
        "#]],
    );
    let scalars = vec![("alpha".into(), Number::Float(f64::INFINITY))];
    check(
        [KernelSpec { scalars, ..with(DType::F32, Value::Scalar("alpha".into())) }],
        expect![[r#"
            C[i] = A[i] + alpha
            C[i] = A[i] + alpha
            i: 18
        "#]],
    );
}

#[test]
fn an_index_as_a_number_fits_the_elements() {
    let index = |factor| Value::Index(Affine::new([("i".into(), factor)], 0));
    let with = |value| KernelSpec { dtype: DType::I32, output: ("C".into(), vec![18]), ..stencil(sum(value, int(1))) };
    let Value::Index(plain) = index(1) else { panic!("it is an index") };
    check(
        [with(index(1)), with(index(1 << 28)), with(Value::Index(plain.modulo(Modulus::Number(3))))],
        expect![[r#"
            C[i] = i + 1
            C[i] = i + 1
            i: 18
            error: `268435456*i = 4563402752` does not fit i32; write a smaller number, or let the tensors hold a larger type
            error: `i % 3` is used as a number; leave out the modulus: only accesses wrap
        "#]],
    );
}

#[test]
fn integers_have_no_functions_of_floats() {
    let call = |function| Value::Call(function, Box::new(read("A", &["i"])));
    let with = |value| KernelSpec { dtype: DType::I64, output: ("C".into(), vec![18]), ..stencil(sum(value, int(1))) };
    check(
        [
            with(call(Function::Tanh)),
            with(Value::Pow(Box::new(read("A", &["i"])), Box::new(int(2)))),
            with(call(Function::Abs)),
        ],
        expect![[r#"
            error: `tanh` is a function of floats, but the elements are i64; let the tensors hold `f32` or `f64`
            error: `pow` is a function of floats, but the elements are i64; let the tensors hold `f32` or `f64`
            C[i] = abs(A[i]) + 1
            C[i] = abs(A[i]) + 1
            i: 18
        "#]],
    );
}

#[test]
fn names_can_be_written_in_a_program() {
    for name in ["", "a b", "1", "_", "A\n", "x; y"] {
        let error = KernelSpec { name: name.into(), ..stencil(read("A", &["i"])) }.check().unwrap_err();
        let text = "is not a name; names are letters, digits and `_`, and do not start with a digit";
        assert_eq!(error.to_string(), format!("`{name}` {text}"));
    }
    let wrong = with_range(stencil(read("A", &["i"])), 0..1);
    assert!(KernelSpec { ranges: vec![("i j".into(), 0..1)], ..wrong }.check().is_err());
}

/// Checks that a kernel read from its own file is the same kernel.
fn round_trip(spec: KernelSpec) {
    let kernel = spec.check().unwrap();
    let text = serde_json::to_string(&kernel).unwrap();
    assert_eq!(serde_json::from_str::<Kernel>(&text).unwrap(), kernel, "{text}");
}

#[test]
fn a_kernel_is_read_as_it_was_written() {
    round_trip(stencil(read("A", &["i + 2"])));
    round_trip(with_range(stencil(three(["i - 1", "i", "i + 1"])), 1..16));
    let choice = Conditional {
        compare: Comparison::LessEqual,
        left: read("A", &["i"]),
        right: Value::Max(Box::new(int(-3)), Box::new(Value::Scalar("alpha".into()))),
        then: Value::Call(Function::Exp, Box::new(read("A", &["i"]))),
        otherwise: Value::Literal(Number::Float(-1.5)),
    };
    let spec = with_range(stencil(Value::If(Box::new(choice))), 1..16);
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 2.0] {
        let scalars = vec![("alpha".into(), Number::Float(number))];
        let kernel = KernelSpec { scalars, ..spec.clone() }.check().unwrap();
        let text = serde_json::to_string(&kernel).unwrap();
        let again = serde_json::from_str::<Kernel>(&text).unwrap();
        assert_eq!(format!("{again:?}"), format!("{kernel:?}"), "{text}");
    }
}

#[test]
fn a_kernel_in_a_file_is_checked_as_in_the_source() {
    let kernel = with_range(stencil(three(["i - 1", "i", "i + 1"])), 1..16).check().unwrap();
    let text = serde_json::to_string(&kernel).unwrap();
    let errors = [
        (r#""start":1"#, r#""start":0"#),
        (r#""shape":[18]"#, r#""shape":[18,18]"#),
        (r#""tensor":"A""#, r#""tensor":"B""#),
        (r#"[["i",1]]"#, r#"[["i",1],["i",1]]"#),
        (r#""ranges""#, r#""range""#),
        (r#""scalars""#, r#""vars":[],"scalars""#),
    ]
    .map(|(from, to)| {
        assert!(text.contains(from), "{text}");
        let error = serde_json::from_str::<Kernel>(&text.replacen(from, to, 1)).unwrap_err().to_string();
        format!("{}\n", error.split(" at line ").next().unwrap())
    });
    expect![[r#"
        kernel `stencil`: `A[i - 1]` leaves `A`: index `i - 1` spans -1..15, but dimension 0 has extent 18
        kernel `stencil`: `A` has 2 dimensions, but `A[i - 1]` gives 1
        kernel `stencil`: no tensor `B`; the tensors are A
        kernel `stencil`: `C[2*i]` leaves `C`: index `2*i` spans 2..31, but dimension 0 has extent 16
        unknown field `range`, expected one of `name`, `dtype`, `inputs`, `output`, `ranges`, `scalars`, `target`, `assign`, `value`
        unknown field `vars`, expected one of `name`, `dtype`, `inputs`, `output`, `ranges`, `scalars`, `target`, `assign`, `value`
    "#]]
    .assert_eq(&errors.concat());
}
