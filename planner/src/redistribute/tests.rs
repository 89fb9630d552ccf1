//! Worked examples, and laws over random problems.

use super::*;
use polyshard_layout::Mesh;

struct Case {
    mesh: &'static [(&'static str, usize)],
    source: &'static str,
    target: &'static str,
    weak: Cost,
    total: Cost,
    permute: bool,
    peak: usize,
    naive: Cost,
    lacking: Cost,
}

fn plan(mesh: &Mesh, source: &str, target: &str, ops: Ops) -> Plan {
    let [source, target] = [source, target].map(|text| DistType::parse(text, mesh).expect("a type"));
    Plan::new(&source, &target, &Options { ops, ..Options::default() }).expect("a plan")
}

fn check(case: &Case) {
    let mesh = Mesh::new(case.mesh.iter().copied());
    let plan = plan(&mesh, case.source, case.target, Ops::Paper);
    let text = plan.explain(8);
    assert_eq!(plan.weak_cost(), case.weak, "{text}");
    assert_eq!(plan.total_cost(), case.total, "{text}");
    assert_eq!(plan.permutes(), case.permute, "{text}");
    assert_eq!(plan.peak(), case.peak, "{text}");
    assert_eq!(plan.naive_cost(), case.naive, "{text}");
    assert_eq!(plan.exchange_total(), case.lacking, "{text}");
}

#[test]
fn worked_examples() {
    check(&Case {
        mesh: &[("a", 8)],
        source: "[1{a}8, 8]",
        target: "[8, 1{a}8]",
        weak: 8,
        total: 8,
        permute: false,
        peak: 8,
        naive: 64,
        lacking: 56,
    });
    check(&Case {
        mesh: &[("x", 4), ("y", 6)],
        source: "[3{x}12, 2{y}12]",
        target: "[2{y}12, 3{x}12]",
        weak: 12,
        total: 18,
        permute: true,
        peak: 6,
        naive: 168,
        lacking: 124,
    });
    check(&Case {
        mesh: &[("devs", 32)],
        source: "[32, 64{devs}2048]",
        target: "[1{devs}32, 2048]",
        weak: 2048,
        total: 2048,
        permute: false,
        peak: 2048,
        naive: 65536,
        lacking: 63488,
    });
    check(&Case {
        mesh: &[("x", 4), ("y", 4)],
        source: "[32{x,y}512, 128]",
        target: "[128{x}512, 32{y}128]",
        weak: 4096,
        total: 8192,
        permute: true,
        peak: 4096,
        naive: 65536,
        lacking: 61440,
    });
    check(&Case {
        mesh: &[("x", 4), ("y", 4)],
        source: "[32{x}128, 512, 32{y}128]",
        target: "[128, 128{y}512, 128]",
        weak: 2621440,
        total: 2621440,
        permute: false,
        peak: 2097152,
        naive: 10485760,
        lacking: 31457280,
    });
    check(&Case {
        mesh: &[("a", 2), ("b", 2), ("c", 2)],
        source: "[360, 184{c}368, 320]",
        target: "[90{c,a}360, 368, 160{b}320]",
        weak: 5299200,
        total: 5299200,
        permute: false,
        peak: 21196800,
        naive: 42393600,
        lacking: 21196800,
    });
}
