//! Pictures are well-formed, whatever is drawn, and small ones are as they were.

use expect_test::expect;
use polyshard_draw::{Curve, DrawError, Panel, Talk, Timing, chart, devices, redistribution};
use polyshard_layout::Mesh;
use polyshard_planner::{DistType, Options, Plan};
use proptest::prelude::*;
use roxmltree::Document;

/// How many elements of a drawing have this class.
fn count(drawing: &str, class: &str) -> usize {
    let document = Document::parse(drawing).expect("the drawing is well-formed");
    document.descendants().filter(|node| node.attribute("class") == Some(class)).count()
}

fn panel(groups: Vec<Vec<usize>>, talk: Talk) -> Panel {
    Panel { title: "a < b & c".into(), note: String::new(), groups, talk }
}

#[test]
fn a_pair_of_devices_is_two_boxes_and_an_arc() {
    let drawing = devices("a pair", &[("gpu".into(), 2)], &[vec![panel(vec![vec![0, 1]], Talk::Around)]]);
    let drawing = drawing.expect("there is room");
    let picture = drawing.split_once("</style>").expect("a style comes first").1;
    expect![[r##"

        <g class="panel" transform="translate(16 16)">
        <text class="title" y="12">
        a &lt; b &amp; c
        </text>
        <text class="note" y="28">

        </text>
        <g transform="translate(0 42)">
        <rect class="device" fill="#c32222" height="16" width="26" x="0" y="0">
        <title>rank 0: gpu 0</title>
        </rect>
        <text class="rank" x="13" y="11">
        0
        </text>
        <rect class="device" fill="#c32222" height="16" width="26" x="34" y="0">
        <title>rank 1: gpu 1</title>
        </rect>
        <text class="rank" x="47" y="11">
        1
        </text>
        <g class="group">
        <title>0 1</title>
        <path class="arc" d="M13 8Q30 -0.5 47 8" stroke="#c32222"/>
        </g>
        </g>
        </g>
        </svg>"##]]
    .assert_eq(picture);
}

#[test]
fn what_has_no_room_or_no_place_is_refused() {
    let levels = [("node".into(), 2), ("gpu".into(), 1024)];
    let refused = devices("", &levels, &[vec![panel(Vec::new(), Talk::Around)]]).expect_err("it is too large");
    assert_eq!(refused, DrawError::Devices { devices: 2048, panels: 1, max: 20_000, max_panel: 1024 });
    let timings = vec![Timing { bytes: 1024.0, measured: 0.0, predicted: 1.0 }];
    let refused = chart("", &[Curve { name: String::new(), timings }]).expect_err("no logarithm");
    assert_eq!(refused, DrawError::NotPositive { number: 0.0 });
}

proptest! {
    #[test]
    fn a_plan_has_a_panel_for_each_state_and_a_picture_for_each_rank(
        [x, y] in [1usize..5, 1usize..5],
        [rows, columns] in [1usize..4, 1usize..4],
    ) {
        let mesh = Mesh::new([("x", x), ("y", y)]);
        let (m, n) = (x * y * rows, x * y * columns);
        let source = format!("[{}{{x}}{m}, {}{{y}}{n}]", m / x, n / y);
        let target = format!("[{}{{y}}{m}, {}{{x}}{n}]", m / y, n / x);
        let [source, target] = [source, target].map(|text| DistType::parse(&text, &mesh).expect("a type"));
        let plan = Plan::new(&source, &target, &Options::default()).expect("a plan");
        let drawing = redistribution(&plan).expect("there is room");
        let states = plan.steps().len() + 1;
        prop_assert_eq!([count(&drawing, "panel"), count(&drawing, "rank")], [states, states * x * y]);
    }

    #[test]
    fn each_group_is_drawn_with_an_arc_for_each_pair_that_talks(groups in 1usize..6, members in 1usize..6) {
        let ranks: Vec<Vec<usize>> = (0..groups).map(|group| (0..members).map(|at| group * members + at).collect()).collect();
        let levels = [("node".to_owned(), groups), ("gpu".to_owned(), members)];
        let row = [Talk::FromFirst, Talk::Around].map(|talk| panel(ranks.clone(), talk)).to_vec();
        let drawing = devices("groups", &levels, &[row]).expect("there is room");
        let around = if members < 3 { members - 1 } else { members };
        prop_assert_eq!(count(&drawing, "arc"), groups * (members - 1 + around));
        prop_assert_eq!([count(&drawing, "device"), count(&drawing, "group")], [2 * groups * members, 2 * groups]);
    }
}
