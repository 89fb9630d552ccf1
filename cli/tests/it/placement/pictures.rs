//! `--draw`: a panel for each step, a place for each device, and one colour and arcs for each group that communicates.

use super::COMMAND_LINE;
use super::{file, switches};
use polyshard_testing::command_line::with_class;
use roxmltree::Node;
use std::collections::BTreeMap;

fn line<'a>(panel: Node<'a, 'a>, class: &str) -> &'a str {
    with_class(panel, class)[0].text().expect("a text").trim()
}

/// The ranks of each colour, of those that have one.
fn colours(panel: Node<'_, '_>) -> Vec<Vec<usize>> {
    let mut ranks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (rank, device) in with_class(panel, "device").iter().enumerate() {
        if let Some(fill) = device.attribute("fill") {
            ranks.entry(fill).or_default().push(rank);
        }
    }
    let mut groups: Vec<_> = ranks.into_values().collect();
    groups.sort();
    groups
}

/// The ranks of each group, from its title.
fn groups(panel: Node<'_, '_>) -> Vec<Vec<usize>> {
    let title = |group: &Node| {
        let text = group.first_element_child().and_then(|title| title.text()).expect("a title");
        text.split_whitespace().map(|rank| rank.parse().expect("a rank")).collect()
    };
    let mut groups: Vec<Vec<usize>> = with_class(panel, "group").iter().map(title).collect();
    groups.sort();
    groups
}

fn arcs(panel: Node<'_, '_>) -> usize {
    with_class(panel, "arc").len()
}

#[test]
fn each_step_of_a_program_is_a_panel_with_its_groups() {
    let problem = ["reduce", "--matrix", "[[2,2],[2,1]]", "--reduce", "0", "--machine", "a100", "--bytes", "1e9"];
    COMMAND_LINE.drawn("drawn_reduction", &problem, |panels| {
        let titles: Vec<_> = panels.iter().map(|panel| line(*panel, "title")).collect();
        assert_eq!(
            titles,
            ["ReduceScatter in 4 groups of 2", "AllReduce in 4 groups of 2", "AllGather in 4 groups of 2"]
        );
        let inside = vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
        let across = vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        for (panel, expected) in panels.iter().zip([&inside, &across, &inside]) {
            assert_eq!([&colours(*panel), &groups(*panel)], [expected, expected]);
            assert_eq!(
                (with_class(*panel, "member").len(), arcs(*panel)),
                (4, 4),
                "a box for each node, an arc a pair"
            );
        }
        let fifth = with_class(panels[0], "device")[5].first_element_child().and_then(|title| title.text());
        assert_eq!(fifth.map(str::trim), Some("rank 5: node 2, gpu 1"));
        assert_eq!(line(panels[1], "note"), "125.0 ms, the ports out of node 0");
    });
}

#[test]
fn those_that_wait_have_no_colour_and_roots_talk_to_all() {
    let problem = ["reduce", "--matrix", "[[2,4]]", "--reduce", "0", "--machine", "a100", "--bytes", "1e9"];
    COMMAND_LINE.drawn(
        "drawn_masters",
        &[&problem[..], &["--program", "Reduce-AllReduce-Broadcast", "--json"]].concat(),
        |panels| {
            let nodes = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
            assert_eq!([colours(panels[0]), colours(panels[1])], [nodes, vec![vec![0, 4]]]);
            assert_eq!(with_class(panels[1], "idle").len(), 6);
            assert_eq!([0, 1, 2].map(|step| arcs(panels[step])), [6, 1, 6]);
        },
    );
    COMMAND_LINE.drawn("drawn_around", &[&problem[..], &["--program", "AllReduce"]].concat(), |panels| {
        assert_eq!((groups(panels[0]), arcs(panels[0])), (vec![(0..8).collect()], 8));
    });
}

#[test]
fn each_axis_of_each_placement_is_a_panel() {
    COMMAND_LINE.drawn("drawn_placements", &["placement", "--hierarchy", "2,4", "--mesh", "2x4"], |panels| {
        let titles: Vec<_> = panels.iter().map(|panel| line(*panel, "title")).collect();
        let matrices =
            ["[[1 2] [2 2]], axis 0", "[[1 2] [2 2]], axis 1", "[[2 1] [1 4]], axis 0", "[[2 1] [1 4]], axis 1"];
        assert_eq!(titles, matrices);
        assert_eq!(groups(panels[0]), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(groups(panels[3]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    });
}

#[test]
fn each_step_of_a_product_is_a_panel_of_the_mesh() {
    let text = "A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]";
    let sizes = ["--mesh", "X=2,Y=3", "--size", "I=12,J=12,K=12", "--machine", "tpu-v5e"];
    COMMAND_LINE.drawn("drawn_product", &[&["matmul", text], &sizes[..]].concat(), |panels| {
        assert_eq!(panels.len(), 2);
        assert_eq!(line(panels[0], "title"), "all_gather(X) B[J_X, K_Y] -> B[J, K_Y]");
        assert_eq!(groups(panels[0]), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!((groups(panels[1]).len(), with_class(panels[1], "idle").len()), (0, 6), "ranks multiply alone");
    });
}

#[test]
fn names_may_be_of_any_letters() {
    let machine = file("odd_names", &switches(&[("<b & \u{e9}>", 2), ("it's", 2)]));
    let problem = ["reduce", "--matrix", "[[2,2]]", "--reduce", "0", "--machine", &machine, "--bytes", "1"];
    COMMAND_LINE.drawn("drawn_odd_names", &problem, |panels| {
        assert_eq!(line(panels[0], "name"), "<b & \u{e9}> 0");
    });
}
