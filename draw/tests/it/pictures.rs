//! Pictures are well-formed, whatever is drawn, and small ones match the recorded text.

use expect_test::expect;
use polyshard_draw::{Curve, DrawError, Panel, Talk, Timing, chart, devices, placements, redistribution};
use polyshard_layout::Mesh;
use polyshard_planner::placement::matrices;
use polyshard_planner::{DistType, Plan, PlanOptions};
use proptest::prelude::*;
use roxmltree::{Document, Node};

/// The number of elements of a drawing that have this class.
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
        <g transform="translate(0 46)">
        <g class="group">
        <title>0 1</title>
        <path class="arc" d="M13 8Q31 4.4 49 8" stroke="#c32222"/>
        </g>
        <rect class="device" fill="#c32222" height="16" width="26" x="0" y="0">
        <title>rank 0: gpu 0</title>
        </rect>
        <text class="rank" x="13" y="11">
        0
        </text>
        <rect class="device" fill="#c32222" height="16" width="26" x="36" y="0">
        <title>rank 1: gpu 1</title>
        </rect>
        <text class="rank" x="49" y="11">
        1
        </text>
        </g>
        </g>
        </svg>"##]]
    .assert_eq(picture);
}

/// The numbers in a text, such as the data of a path.
fn numbers(text: &str) -> Vec<f64> {
    let numbers = text.split(|c: char| !"-.0123456789".contains(c)).filter(|text| !text.is_empty());
    numbers.map(|number| number.parse().expect("a number")).collect()
}

/// Checks that arcs are painted before devices and names, and names with a halo; that an arc is seen beside the devices; and that none
/// reaches the lines above them.
fn check_arcs(drawing: &str) {
    let document = Document::parse(drawing).expect("the drawing is well-formed");
    assert!(drawing.contains("text.name{paint-order:stroke;stroke:#fff"), "names have a halo");
    for panel in document.descendants().filter(|node| node.attribute("class") == Some("panel")) {
        let of = |classes: &'static [&str]| {
            let is_of =
                move |node: &Node<'_, '_>| node.attribute("class").is_some_and(|class| classes.contains(&class));
            panel.descendants().filter(is_of)
        };
        let arcs = of(&["arc"]);
        let covering = of(&["device", "device idle", "rank", "name"]).map(|node| node.range().start).min();
        assert!(arcs.clone().all(|arc| Some(arc.range().start) < covering), "an arc is above a text:\n{drawing}");
        let devices: Vec<_> = of(&["device", "device idle"])
            .map(|node| ["x", "y", "width", "height"].map(|name| numbers(node.attribute(name).expect("a number"))[0]))
            .collect();
        let picture = panel.children().find(|node| node.has_tag_name("g")).expect("a picture");
        let top = numbers(picture.attribute("transform").expect("a place"))[1];
        let lines = of(&["title", "note"]).map(|line| numbers(line.attribute("y").expect("a place"))[0]);
        let lowest = lines.fold(0.0, f64::max) - top;
        for arc in arcs {
            let curve = numbers(arc.attribute("d").expect("a path has data"));
            let place = |t: f64| {
                let weights = [(1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t];
                [0, 1].map(|side| (0..3).map(|nth| weights[nth] * curve[2 * nth + side]).sum::<f64>())
            };
            let places: Vec<_> = (0..=64).map(|nth| place(f64::from(nth) / 64.0)).collect();
            assert!(places.iter().all(|place| place[1] > lowest), "{arc:?} runs through a title:\n{drawing}");
            let is_hidden = |place: &[f64; 2]| {
                let [x, y] = place;
                devices.iter().any(|[left, top, width, height]| {
                    (*left..=left + width).contains(x) && (*top..=top + height).contains(y)
                })
            };
            assert!(!places.iter().all(is_hidden), "{arc:?} cannot be seen:\n{drawing}");
        }
    }
}

#[test]
fn arcs_of_placements_leave_the_numbers_of_ranks_free() {
    for (levels, mesh) in [(&[2, 4][..], &[2, 4][..]), (&[4, 16], &[8, 8]), (&[2, 2, 4], &[4, 2, 2]), (&[8], &[2, 4])] {
        let names = ["rack", "node", "gpu"];
        let named: Vec<_> =
            names[names.len() - levels.len()..].iter().map(ToString::to_string).zip(levels.to_vec()).collect();
        let axes: Vec<_> = ["data", "tensor", "pipe"].iter().take(mesh.len()).map(ToString::to_string).collect();
        let matrices = matrices(levels, mesh).expect("the mesh fits");
        check_arcs(&placements("placements", &named, &axes, &matrices).expect("there is room"));
    }
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
        let plan = Plan::new(&source, &target, &PlanOptions::default()).expect("a plan");
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
        check_arcs(&drawing);
        prop_assert_eq!(count(&drawing, "arc"), groups * (members - 1 + around));
        prop_assert_eq!([count(&drawing, "device"), count(&drawing, "group")], [2 * groups * members, 2 * groups]);
    }
}
