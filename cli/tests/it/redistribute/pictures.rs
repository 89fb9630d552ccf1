//! `--draw`: a panel for each state, a picture for each rank, and colours for the first owners of elements.

use super::COMMAND_LINE;
use polyshard_testing::command_line::with_class;
use roxmltree::Node;
use std::collections::HashSet;

/// Draws a plan, and passes the panels of the drawing to `check`.
#[track_caller]
fn drawn(name: &str, arguments: &[&str], check: impl FnOnce(&[Node])) {
    COMMAND_LINE.drawn(name, &[&["redistribute"], arguments].concat(), check);
}

/// The picture of a rank, by following its reference.
fn tile<'a>(panel: Node<'a, 'a>, rank: usize) -> Node<'a, 'a> {
    let used = panel.descendants().filter(|node| node.has_tag_name("use")).nth(rank).expect("a picture per rank");
    let name = used.attribute("href").expect("it refers to a tile").trim_start_matches('#');
    panel.descendants().find(|node| node.attribute("id") == Some(name)).expect("the tile is in the panel")
}

fn fills(node: Node<'_, '_>) -> Vec<String> {
    with_class(node, "cell").iter().map(|cell| cell.attribute("fill").expect("a colour").to_owned()).collect()
}

#[test]
fn each_state_is_a_panel_and_each_rank_a_picture() {
    let problem = ["--mesh", "x=4,y=6", "[3{x}12, 2{y}12]", "[2{y}12, 3{x}12]"];
    drawn("drawn_permuted", &problem, |panels| {
        assert_eq!(panels.len(), 4, "before, and after each of three steps");
        for panel in panels {
            let ranks: Vec<_> =
                with_class(*panel, "rank").iter().filter_map(|label| label.text().map(str::trim)).collect();
            assert_eq!(ranks, (0..24).map(|rank| rank.to_string()).collect::<Vec<_>>());
        }
        let types: Vec<_> =
            with_class(panels[3], "type").iter().filter_map(|text| text.text().map(str::trim)).collect();
        assert_eq!(types, ["[2{y}12, 3{x}12] over (x: 4, y: 6)"]);
    });
}

#[test]
fn elements_keep_the_colour_of_the_rank_that_had_them() {
    drawn("drawn_columns", &["--mesh", "x=4", "[2{x}8, 8]", "[8, 2{x}8]", "--json"], |panels| {
        let [before, after] = panels else { panic!("{} panels", panels.len()) };
        let own: Vec<_> = (0..4).flat_map(|rank| fills(tile(*before, rank))).collect();
        assert_eq!(own.iter().collect::<HashSet<_>>().len(), 4, "{own:?}");
        for rank in 0..4 {
            assert_eq!(fills(tile(*after, rank)), own, "columns have a piece of each rank, in order");
        }
        let cell = with_class(tile(*after, 1), "cell")[2];
        let sides = ["x", "y", "width", "height"].map(|side| cell.attribute(side).expect("a side"));
        assert_eq!(sides, ["18", "36", "18", "18"], "columns 2..4 and rows 4..6 of 8, on a side of 72");
        assert_eq!(cell.first_element_child().and_then(|title| title.text()), Some("4..6, 2..4, at first on rank 2"));
    });
}

#[test]
fn tiles_of_several_sizes_are_drawn_with_their_owners() {
    drawn("drawn_uneven", &["--mesh", "X=4", "--size", "I=9,J=8", "A[I_X, J]", "A[I, J_X]"], |panels| {
        let [source, target, moved] = panels else { panic!("{} panels", panels.len()) };
        let heights = |panel: &Node| -> Vec<String> {
            with_class(*panel, "tile").iter().map(|tile| tile.attribute("height").expect("a side").into()).collect()
        };
        assert_eq!(heights(source), ["50", "50", "50"], "3 rows each, and none for the last rank");
        assert_eq!(heights(target), ["150"; 4]);
        assert_eq!(with_class(*moved, "device").len(), 4);
    });
}

#[test]
fn dimensions_that_do_not_fit_the_page_are_said() {
    let problem = ["--mesh", "a=2,b=2,c=2", "[2{a}4, 2{b}4, 3, 2{c}4]", "[4, 2{b}4, 3, 1{c,a}4]"];
    drawn("drawn_cube", &problem, |panels| {
        let parts = |panel: Node| {
            with_class(panel, "part").iter().filter_map(|text| text.text().map(|text| text.trim().to_owned())).collect()
        };
        let before: Vec<String> = parts(panels[0]);
        assert_eq!(before[..2], ["dim 3: 0..2", "dim 3: 2..4"]);
        let after: Vec<String> = parts(*panels.last().expect("a state"));
        assert_eq!([&after[0], &after[1], &after[4]], ["dim 3: 0..1", "dim 3: 1..2", "dim 3: 2..3"]);
    });
}

#[test]
fn any_number_of_dimensions_and_hundreds_of_ranks_are_drawn() {
    for (mesh, source, target) in [
        ("x=1", "[]", "[]"),
        ("x=1", "[8, 8]", "[8, 8]"),
        ("x=5", "[2{x}10]", "[10]"),
        ("x=3", "[0{x}0, 4]", "[0, 4]"),
        ("x=16,y=16", "[4{x}64, 4{y}64]", "[64, 64]"),
        ("x=300,y=1", "[600, 2{x}600]", "[2{x}600, 600]"),
    ] {
        drawn("drawn_any", &["--mesh", mesh, source, target], |panels| {
            assert_eq!(panels[0].descendants().filter(|node| node.has_tag_name("use")).count(), ranks(mesh));
        });
    }
}

fn ranks(mesh: &str) -> usize {
    mesh.split(',').filter_map(|axis| axis.split_once('=')?.1.parse::<usize>().ok()).product()
}
