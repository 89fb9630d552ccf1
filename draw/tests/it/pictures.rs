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
        <g class="group">
        <title>0 1</title>
        <path class="arc" d="M27.57 6.27Q31 6.13 34.43 6.27" stroke="#c32222"/>
        </g>
        </g>
        </g>
        </svg>"##]]
    .assert_eq(picture);
}

/// Corners of a rectangle, upper left and lower right.
type Corners = [[f64; 2]; 2];

/// The rectangle of a text: letters have at least this width in the fonts of rank numbers, names, notes and titles.
fn label_box(text: Node<'_, '_>) -> Corners {
    let number = |name: &str| text.attribute(name).map_or(0.0, |number| number.parse::<f64>().expect("a number"));
    let class = text.attribute("class").expect("a class");
    let [letter, height] = match class {
        "rank" | "name" => [4.5, 7.0],
        "note" => [5.5, 8.0],
        "title" => [7.0, 10.0],
        other => panic!("a text of class {other}"),
    };
    let width = letter * text.text().map_or(0, |text| text.trim().chars().count()) as f64;
    let left = number("x") - if class == "rank" { width / 2.0 } else { 0.0 };
    [[left, number("y") - height], [left + width, number("y")]]
}

/// The position of a node on the page: the sum of the translations around it.
fn offset(node: Node<'_, '_>) -> [f64; 2] {
    node.ancestors().filter_map(|around| around.attribute("transform")).fold([0.0; 2], |[x, y], text| {
        let numbers = text.strip_prefix("translate(").and_then(|rest| rest.strip_suffix(')')).expect("a translation");
        let mut numbers = numbers.split(' ').map(|number| number.parse::<f64>().expect("a number"));
        [x + numbers.next().expect("x"), y + numbers.next().unwrap_or(0.0)]
    })
}

/// The segments of a path of quadratic curves, each approximated by 16 straight ones.
fn segments(data: &str) -> Vec<Corners> {
    let curve = |piece: &str| {
        let numbers = piece.split(['M', 'Q', ' ']).filter(|text| !text.is_empty());
        let numbers: Vec<f64> = numbers.map(|number| number.parse().expect("a number")).collect();
        let place = |t: f64| {
            let weights = [(1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t];
            [0, 1].map(|side| (0..3).map(|nth| weights[nth] * numbers[2 * nth + side]).sum::<f64>())
        };
        (0..16).map(move |nth| [nth, nth + 1].map(|nth| place(f64::from(nth) / 16.0))).collect::<Vec<_>>()
    };
    data.split('M').filter(|piece| !piece.is_empty()).flat_map(curve).collect()
}

/// Whether a segment has a point inside a rectangle (Liang and Barsky, 1984).
fn crosses([from, to]: Corners, [low, high]: Corners) -> bool {
    let (mut first, mut last) = (0.0f64, 1.0f64);
    for side in 0..2 {
        let along = to[side] - from[side];
        if along == 0.0 {
            if from[side] <= low[side] || from[side] >= high[side] {
                return false;
            }
            continue;
        }
        let [enter, leave] = [low, high].map(|corner| (corner[side] - from[side]) / along);
        (first, last) = (first.max(enter.min(leave)), last.min(enter.max(leave)));
    }
    first < last
}

/// Checks that each arc is visible, and that none crosses a text.
fn check_arcs(drawing: &str) {
    let document = Document::parse(drawing).expect("the drawing is well-formed");
    let moved = |corners: Corners, [x, y]: [f64; 2]| corners.map(|[left, top]| [left + x, top + y]);
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let labels: Vec<_> = texts.map(|text| (text.text(), moved(label_box(text), offset(text)))).collect();
    for arc in document.descendants().filter(|node| node.has_tag_name("path")) {
        let data = arc.attribute("d").expect("a path has data");
        assert!(!data.is_empty(), "an arc cannot be seen:\n{drawing}");
        for segment in segments(data) {
            let segment = moved(segment, offset(arc));
            let hit = labels.iter().find(|(_, label)| crosses(segment, *label));
            assert!(hit.is_none(), "{segment:?} of {data} runs through {hit:?}:\n{drawing}");
        }
    }
}

#[test]
fn segments_that_cross_a_box_are_found() {
    let label = [[0.0, 0.0], [10.0, 6.0]];
    assert!(crosses([[-5.0, 3.0], [20.0, 3.0]], label) && crosses([[-1.0, -1.0], [3.0, 3.0]], label));
    assert!(crosses([[4.0, 4.0], [5.0, 5.0]], label), "inside");
    assert!(!crosses([[-5.0, 7.0], [20.0, 7.0]], label) && !crosses([[-4.0, 3.0], [-1.0, 3.0]], label));
    assert!(!crosses([[8.0, -4.0], [14.0, 2.0]], label), "past a corner");
    assert_eq!(segments("M0 0Q5 5 10 0M20 0Q25 5 30 0").len(), 32);
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
