//! Products of several tensors, contracted in an order: the possible orders, and that each gives the sequential result.

use crate::kernels::{einsum, formula, hold, numbered};
use crate::machines::machine;
use expect_test::expect;
use polyshard::runtime::{DistArray, Execute};
use polyshard_layout::DType;
use polyshard_polyhedral::Schedule;
use polyshard_program::{Assign, Kernel};
use polyshard_search::{Choice, Choose, Contraction, ContractionSearch, Order, SearchError};
use proptest::prelude::*;

/// The kernel of an einsum, with these extents of the indices `i`, `j`, ...
fn kernel(text: &str, extents: &[usize]) -> Kernel {
    let extent = |index: char| extents[index as usize - 'i' as usize];
    let terms = text.split("->").next().expect("a text");
    let shapes: Vec<Vec<usize>> = terms.split(',').map(|term| term.chars().map(extent).collect()).collect();
    numbered(text, &shapes, DType::I64).kernel().expect("a kernel").clone()
}

/// Runs the contraction, and compares its output with that of the kernel on one rank.
fn check(kernel: &Kernel, found: &Choice) {
    let (program, plain) = (found.program(), Schedule::new(kernel.clone()).lower().expect("a program"));
    let element = |nth: usize, at: &[usize]| at.iter().fold(3 + nth as i64, |sum, &at| (7 * sum + at as i64) % 23 - 11);
    // Inputs are matched by name, since each order reads them differently.
    let nth = |name: &str| name[1..].parse::<usize>().expect("the number of an operand");
    let [ran, expected] = [program, &plain].map(|program| {
        let ran = polyshard::spmd(program.mesh().size(), |world| {
            let inputs = program.inputs().map(|array| {
                DistArray::from_fn(world, &array.sharding, |at: &[usize]| element(nth(array.name.as_str()), at))
            });
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            Ok(program.run(world, &inputs.iter().collect::<Vec<_>>())?.gather(world)?)
        });
        ran.expect("it runs").remove(0).expect("rank 0 has all")
    });
    assert_eq!(ran, expected, "{kernel}");
}

#[test]
fn all_orders_of_random_products_give_the_sequential_result() {
    let index = || prop::sample::select(vec!['i', 'j', 'k', 'l']);
    let term = || prop::collection::vec(index(), 0..4);
    let problem = (prop::collection::vec(term(), 3..5), prop::collection::vec(1usize..7, 4), 1usize..7, any::<u8>());
    let law = |(terms, extents, ranks, choice): (Vec<Vec<char>>, Vec<usize>, usize, u8)| {
        let kernel = kernel(&formula(&terms, choice.into()), &extents);
        let machine = machine(6, 10.0);
        let schedule = Schedule::new(kernel.clone());
        let whole = schedule.auto(ranks, &machine).find().expect("a schedule");
        let found = ContractionSearch::new(&schedule, ranks, &machine).find().expect("a contraction").choice;
        assert!(found.cost().seconds() <= whole.cost().seconds(), "{kernel}: one kernel is faster");
        check(&kernel, &found);
        // An order that contracts two random terms first.
        let (first, second) = (usize::from(choice >> 4) % terms.len(), usize::from(choice >> 6) % (terms.len() - 1));
        let second = if second >= first { second + 1 } else { second };
        let order = Order::parse(&kernel, &format!("A{first},A{second}")).expect("an order");
        let given =
            ContractionSearch::new(&schedule, ranks, &machine).order(order).find().expect("a contraction").choice;
        check(&kernel, &given);
        Ok(())
    };
    hold(60, &problem, law);
}

#[test]
fn orders_are_read_and_printed() {
    let orders = [
        ("ij,jk,kl->il", "ij,jk; ik,kl"),
        ("ij,jk,kl->il", "kl,jk"),
        ("ij,jk,kl->il", ""),
        // A result is named by its indices, in any order; a tensor by its name.
        ("ij,jk,kl,lm->im", "A2,A3; A0,A1; mk,ki"),
        // An index that only these two have is summed; an index of the output is not.
        ("ij,ij,jk->k", "ij,ij"),
        ("i,j,k->", "i,k"),
    ]
    .map(|(text, order)| {
        let order = Order::parse(&kernel(text, &[2, 3, 4, 5, 6]), order).expect("an order");
        let stages: Vec<_> = order.stages().iter().map(Kernel::statement).collect();
        format!("{order}\n    {}\n", stages.join("\n    "))
    });
    expect![[r#"
        ij,jk; ik,kl
            T1[i, k] = A0[i, j] * A1[j, k]
            C[i, l] = T1[i, k] * A2[k, l]
        kl,jk; ij,lj
            T1[l, j] = A2[k, l] * A1[j, k]
            C[i, l] = A0[i, j] * T1[l, j]
        ij,jk,kl
            C[i, l] = A0[i, j] * A1[j, k] * A2[k, l]
        kl,lm; ij,jk; km,ik
            T1[k, m] = A2[k, l] * A3[l, m]
            T2[i, k] = A0[i, j] * A1[j, k]
            C[i, m] = T1[k, m] * T2[i, k]
        ij,ij; jk,j
            T1[j] = A0[i, j] * A1[i, j]
            C[k] = A2[j, k] * T1[j]
        i,k; j,
            T1[] = A0[i] * A2[k]
            C[] = A1[j] * T1[]
    "#]]
    .assert_eq(&orders.concat());
}

#[test]
fn results_of_the_same_operands_are_told_apart() {
    let product = einsum("ij,ij,ij,ij->i", &["A"; 4], &[[3, 4]; 4], DType::I64, "C");
    let order = Order::parse(product.kernel().expect("a kernel"), "ij,ij; A,A").expect("an order");
    let stages: Vec<_> = order.stages().iter().map(Kernel::statement).collect();
    assert_eq!(stages, ["T1[i, j] = A[i, j] * A[i, j]", "T2[i, j] = A[i, j] * A[i, j]", "C[i] = T1[i, j] * T2[i, j]"]);
}

#[test]
fn what_is_no_order_is_refused() {
    let chain = kernel("ij,jk,kl->il", &[2, 3, 4, 5]);
    let mut greatest = chain.spec().clone();
    greatest.assign = Assign::Max;
    let greatest = greatest.check().expect("a kernel");
    let refusals =
        [(&chain, "ij"), (&chain, "ij,jl"), (&chain, "ij,jk,kl,lm"), (&chain, "ij,jk; ij,kl"), (&greatest, "ij,jk")]
            .map(|(kernel, order)| format!("{}\n", Order::parse(kernel, order).expect_err("no order")));
    expect![[r#"
        cannot contract `ij`: it names one term; give two or more
        cannot contract `ij,jl`: there is no `jl`; what is left is jk, kl
        cannot contract `ij,jk,kl,lm`: `lm` is one too many: no other term is left
        cannot contract `ij,kl`: there is no `ij`; what is left is kl, ik
        `C[i, l] max= A0[i, j] * A1[j, k] * A2[k, l]` is not a summed product of several tensors with plain indices; leave the order out
    "#]]
    .assert_eq(&refusals.concat());
}

#[test]
fn a_chain_on_many_ranks_divides_the_first_product_too() {
    let machine = machine(8, 10.0);
    let chain = Schedule::new(kernel("ij,jk,kl->il", &[512, 512, 512, 512]));
    let Contraction { order, choice } = ContractionSearch::new(&chain, 8, &machine).find().expect("one");
    // One kernel would compute the product of two on several ranks.
    assert_eq!(order.expect("several kernels").stages().len(), 2);
    assert_eq!(choice.gap(), 0.0);
    // The long extents are in the middle, so contracting inwards from the short sides is cheapest.
    let lopsided = kernel("ij,jk,kl->il", &[8, 2048, 2048, 8]);
    let found = ContractionSearch::new(&Schedule::new(lopsided), 4, &machine).find().expect("one");
    assert!(found.choice.cost().computing() < 3.0 * 2.0 * 8.0 * 2048.0 * 2048.0 / 4.0 / 1e10);
}

#[test]
fn of_many_operands_the_order_of_the_fewest_operations_is_found() {
    // A vector at the end of a chain of matrices: from the right, each step is a matrix-vector product.
    let text = "ij,jk,kl,lm,mn,no,o->i";
    let chain = kernel(text, &[256; 7]);
    let machine = machine(2, 10.0);
    let found = ContractionSearch::new(&Schedule::new(chain.clone()), 2, &machine).find().expect("one");
    let order = found.order.expect("one kernel has as many steps, all on each rank");
    assert_eq!(order.to_string(), "no,o; mn,n; lm,m; kl,l; jk,k; ij,j");
}

#[test]
fn without_memory_for_any_order_the_least_is_said() {
    let machine = machine(4, 10.0);
    let chain = Schedule::new(kernel("ij,jk,kl->il", &[64, 64, 64, 64]));
    let refused = ContractionSearch::new(&chain, 4, &machine).memory(1000).find().expect_err("nothing fits");
    assert!(matches!(refused, SearchError::Memory { memory: 1000, .. }), "{refused}");
}
