use super::*;

#[track_caller]
fn check_refused<T: Element + std::fmt::Debug>(text: &str, column: usize, why: &str) {
    let error = Statement::<T>::parse(text).expect_err("there is a mistake").to_string();
    assert_eq!(error, format!("cannot read `{text}` at column {column}: {why}"));
}

#[track_caller]
fn check_value(text: &str, same_as: &str) {
    let value = |text: &str| Statement::<f64>::parse(text).unwrap_or_else(|error| panic!("{error}")).value;
    assert_eq!(value(text), value(same_as), "{text}");
}

fn fit(a: &str, b: &str) -> Option<String> {
    let [a, b] = [a, b].map(|text| Statement::<f32>::parse(text).unwrap_or_else(|error| panic!("{error}")));
    let pairs = a.renamed(&b)?.into_iter().map(|(own, other)| format!("{own}={other}"));
    Some(pairs.collect::<Vec<_>>().join(" "))
}

#[test]
fn operators_bind_as_in_kernels() {
    check_value("C[] += a + b * c - d / e", "C[] += (a + (b * c)) - (d / e)");
    check_value("C[] += a - b - c", "C[] += (a - b) - c");
    check_value("C[] += -a * b", "C[] += (-a) * b");
    check_value("C += a[] + 2", "C[] += a + 2.0");
    check_value(
        "C[] += if a < b { a } else if b != 1e3 { max(a, -2) } else { b }",
        "C[] += if a<b{a}else{if b!=1000{max(a, - 2)}else{b}}",
    );
    check_value(
        "C[] += if (if a > b { a } else { b }) >= 0 { exp(a) } else { -b }",
        "C += if (if a > b { a } else { b }) >= 0 { exp(a) } else { -(b) }",
    );
}

#[test]
fn operands_are_numbered_as_they_are_first_named() {
    let statement = Statement::<i64>::parse("C[i] max= B[i, k] * s + A[k] * B[i, k]").expect("a statement");
    let names: Vec<_> = statement.operands.iter().map(|tile| tile.name.as_str()).collect();
    assert_eq!((names, statement.op), (vec!["B", "s", "A"], ReduceOp::Max));
    let value = statement.value.at(&|i| [2, 3, 5][i]);
    assert_eq!(value, 2 * 3 + 5 * 2);
}

#[test]
fn names_and_the_order_of_dimensions_do_not_count() {
    let product = "C[m, n] += A[m, k] * B[k, n]";
    assert_eq!(fit(product, product).as_deref(), Some("m=m n=n k=k"));
    assert_eq!(fit(product, "X[j, i] += Y[l, i] * Z[l, j]").as_deref(), Some("m=i n=j k=l"));
    assert_eq!(fit(product, "X[j, i] += Y[l, j] * Z[l, i]").as_deref(), Some("m=j n=i k=l"));
    assert_eq!(fit("y[i, j] += x[i, j]", "B[p, q] += A[q, p]").as_deref(), Some("i=p j=q"));
}

#[test]
fn whatever_else_differs_is_another_meaning() {
    let product = "C[m, n] += A[m, k] * B[k, n]";
    for other in [
        "C[m, n] max= A[m, k] * B[k, n]",
        "C[m, n] += A[m, k] + B[k, n]",
        "C[m, n] += 2 * A[m, k] * B[k, n]",
        "C[m, n] += alpha * A[m, k] * B[k, n]",
        "C[m, n] += A[m] * B[n]",
        "C[m] += A[m, k] * B[k]",
        "C[b, m, n] += A[b, m, k] * B[b, k, n]",
        "C[m, n] += A[m, k] * A[m, k]",
    ] {
        assert_eq!(fit(product, other), None, "{other}");
        assert_eq!(fit(other, product), None, "{other}");
    }
    // One tile read twice is less than two tiles.
    assert_eq!(fit("y[i] += x[i] * x[i]", "y[i] += a[i] * b[i]"), None);
}

#[test]
fn what_is_not_a_statement_is_pointed_at() {
    check_refused::<f32>(
        "+= A[i]",
        1,
        "a statement begins with the output's tile, as in `C[m, n] += A[m, k] * B[k, n]`",
    );
    check_refused::<f32>(
        "C[i] = A[i]",
        6,
        "`+=`, `*=`, `max=` or `min=` follows the output: a leaf combines into what its tile holds",
    );
    check_refused::<f32>("C[i] += A[i + 1]", 13, "`,` or `]` is expected here: a tile has a dimension per index");
    check_refused::<f32>("C[i] += A[i, i]", 14, "`i` indexes `A` twice; list each index once");
    check_refused::<f32>("C[i] += A[2]", 11, "an index is expected here: a tile has a dimension per index");
    check_refused::<f32>("C[i] += A[i] * A[k]", 16, "`A` is the tile `A[i]`; give another tile another name");
    check_refused::<f32>(
        "C[i] += A[i] + C[i]",
        9,
        "`C` is the output, which a leaf combines into; give the operand another name",
    );
    check_refused::<f32>("C[i] += A[i] B[i]", 14, "an operator or the end of the statement is expected here");
    check_refused::<f32>("C[i] += ", 9, "a tile, a scalar, a number or a function is expected here");
    let functions =
        "no function `tan`; the functions are exp, log, sqrt, tanh, sin, cos, floor, abs, sign, max, min and pow";
    check_refused::<f32>("C[i] += tan(A[i])", 9, functions);
    check_refused::<i32>("C[i] += 0.5 * A[i]", 9, "`0.5` is not a number of type i32");
    check_refused::<i32>("C[i] += -3000000000", 9, "`-3000000000` is not a number of type i32");
    check_refused::<f64>("C[i] += 1.2.3", 9, "`1.2.3` is not a number of type f64");
    check_refused::<f64>("C[i] += if A[i] { 1 } else { 2 }", 17, "a comparison is expected here");
    check_refused::<f64>(
        "C[i] += if A[i] < 0 { 1 }",
        26,
        "`else { .. }` follows: a value has to be chosen in any case",
    );
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("C += {}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Statement::<f32>::parse(&nested(500)).is_ok());
    for text in [
        nested(100_000),
        format!("C += {}1", "-".repeat(100_000)),
        format!("C += {}", "if a < a { a } else ".repeat(100_000)),
    ] {
        let error = Statement::<f32>::parse(&text).expect_err("too deep").to_string();
        assert!(error.ends_with(": the value is nested more than 500 deep"));
    }
}
