//! Pictures of programs are well-formed, show each owner once, and represent large meshes by classes of ranks.

use polyshard_draw::{Draw, DrawError};
use polyshard_layout::{Mesh, Placement, Sharding};
use polyshard_program::{DType, Program};
use proptest::prelude::*;
use roxmltree::{Document, Node};

fn redistribution(name: &str, mesh: &Mesh, shape: [usize; 2], placements: [&[Placement]; 2]) -> Program {
    let [from, to] = placements.map(|placements| Sharding::new(mesh, &shape, placements).expect("a sharding"));
    Program::redistribution(name, [&from, &to], DType::F64).expect("a program")
}

fn of_class<'d>(document: &'d Document<'d>, class: &'static str) -> impl Iterator<Item = Node<'d, 'd>> {
    document.descendants().filter(move |node| node.attribute("class") == Some(class))
}

/// The ranks that the titles of tiles name as owners, array by array.
fn owners(document: &Document<'_>) -> Vec<Vec<String>> {
    let panels = of_class(document, "panel")
        .filter(|panel| panel.descendants().any(|node| node.attribute("class") == Some("array")));
    let owners = |panel: Node<'_, '_>| {
        let titles = panel.descendants().filter(|node| node.has_tag_name("title")).filter_map(|node| node.text());
        let owners = titles.flat_map(|title| title.split_once(": ").expect("tile and owners").1.trim().split("; "));
        owners.map(str::to_owned).collect()
    };
    panels.map(owners).collect()
}

proptest! {
    #[test]
    fn each_rank_owns_one_tile_of_each_array_in_blocks([x, y] in [1usize..9, 1usize..9], [rows, columns] in [8usize..40, 8usize..40]) {
        let mesh = Mesh::new([("x", x), ("y", y)]);
        let [along_x, along_y] = mesh.axes();
        let before = [Placement::block(0, along_x), Placement::block(1, along_y)];
        let after = [Placement::block(0, along_y), Placement::block(1, along_x)];
        let program = redistribution("A<B>&", &mesh, [rows, columns], [&before, &after]);
        let drawing = program.draw().expect("there is room");
        let document = Document::parse(&drawing).expect("the drawing is well-formed");
        let arrays = program.arrays().iter().zip(owners(&document));
        for (array, mut drawn) in arrays {
            let has = |rank: &usize| array.sharding.local_len(&mesh.coordinates(*rank)) > 0;
            let mut expected: Vec<_> = (0..mesh.size()).filter(has).map(|rank| format!("rank {rank}")).collect();
            drawn.sort();
            expected.sort();
            prop_assert_eq!(drawn, expected);
        }
        let title = of_class(&document, "title").next().and_then(|title| title.text().map(str::trim).map(str::to_owned));
        prop_assert_eq!(title, Some(format!("A<B>&[{rows}, {columns}]")));
        let text = document.descendants().find(|node| node.has_tag_name("desc")).and_then(|node| node.text());
        prop_assert!(text.is_some_and(|text| text.contains(&program.to_string())), "{text:?}");
    }
}

#[test]
fn large_meshes_are_drawn_in_classes() {
    let mesh = Mesh::new([("x", 16), ("y", 2), ("z", 8)]);
    let [x, _, z] = mesh.axes();
    let program = redistribution("A", &mesh, [640, 640], [&[Placement::block(0, x)], &[Placement::block(1, z)]]);
    let drawing = program.draw().expect("there is room");
    assert!(drawing.contains(
        "drawn in classes of the 256 ranks: x: 16 as first, inner, last; y: 2 as 0, 1; z: 8 as first, inner, last"
    ));
    let document = Document::parse(&drawing).expect("the drawing is well-formed");
    assert_eq!(of_class(&document, "device").count() + of_class(&document, "device idle").count(), 3 * 2 * 3);
    assert!(owners(&document)[0].contains(&"x inner, y 1, z last".to_owned()));
}

#[test]
fn cyclic_arrays_are_drawn_from_their_first_blocks() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let placements: [&[Placement]; 2] = [&[Placement::block_cyclic(0, x, 1)], &[Placement::block(1, x)]];
    let drawing = redistribution("A", &mesh, [1000, 4], placements).draw().expect("there is room");
    assert!(drawing.contains("the first 16 x 4 are drawn"), "{drawing}");
}

#[test]
fn meshes_of_too_many_axes_are_refused() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let mesh = Mesh::new(names.map(|name| (name, 3)));
    let [a, b, ..] = mesh.axes::<7>();
    let program = redistribution("A", &mesh, [9, 9], [&[Placement::block(0, a)], &[Placement::block(1, b)]]);
    assert_eq!(program.draw(), Err(DrawError::Axes { axes: 7 }));
}
