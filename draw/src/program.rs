//! A program: the shardings of its arrays on the mesh, and the ranks that communicate in each of its transfers.
//!
//! ```text
//! A[6, 8]        B[8, 5]        C[6, 5]          each array in the tiles that ranks own, with their numbers
//! [0 1]          [0|1|..]       ..
//! A: broadcast(y), in each iteration of ko       the mesh, the groups of ranks that communicate in one colour each
//! received: at most 192 B per rank; lower bound: 136 B
//! ```
//!
//! A larger mesh is drawn as a smaller one whose ranks represent classes: along each axis the first coordinate, the
//! inner ones, and the last. Tests: `draw/tests/it/programs.rs`.

use crate::DrawError;
use crate::devices::{Block, HEAD, MARGIN, Panel, STYLE, Talk};
use crate::shapes::{self, colour, drawn_dims, label, panel, rectangle, rounded};
use polyshard_layout::{Mesh, Name, Sharding, joined};
use polyshard_machine::units;
use polyshard_program::{ArrayId, NestView, Pattern, Program, Statement, TransferView};
use std::collections::BTreeMap;
use svg::node::element::{Description, Group, Rectangle, Style, Title};

/// Maximum number of ranks that are drawn one by one.
const MAX_RANKS: usize = 64;
/// Coordinates of an axis of classes: the first, the inner ones, and the last; or the first and the others.
const CLASSES: [&[&str]; 2] = [&["first", "inner", "last"], &["first", "others"]];
/// Maximum number of arrays and transfers on a page.
const MAX_PANELS: usize = 256;
/// The longer side, and the minimum of the shorter side, of an array.
const SIDES: [f64; 2] = [150.0, 18.0];
/// Maximum number of blocks of a rank that are drawn along a dimension.
const MAX_BLOCKS: usize = 8;
const GAP: f64 = 28.0;
/// A line of text.
const LINE: f64 = 16.0;
/// A panel starts a new row beyond this.
const WIDTH: f64 = 760.0;
/// Maximum width of a letter, in a title, in a note and on a tile.
const LETTERS: [f64; 3] = [7.5, 6.0, 6.0];
const TILES: &str = "rect.array{fill:#f4f4f4;stroke:#888;stroke-width:0.5}rect.tile{stroke:#fff;stroke-width:0.75}\
                     text.owner{text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:2px}text.program{font:11px monospace}";

/// Programs that can be drawn.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
/// let drawing = Program::redistribution("A", [&by(0), &by(1)], DType::F64)?.draw()?;
/// assert!(drawing.contains("at most 48 B received per rank"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Draw {
    /// Returns a picture as SVG: the shardings of the arrays, the ranks that communicate in each transfer with their
    /// bytes, and the lower bound.
    ///
    /// Its description contains the program as text. More than 64 ranks are drawn as classes.
    ///
    /// # Errors
    /// [`DrawError::Axes`] if classes of ranks do not fit on a page either, [`DrawError::Panels`] if there are too many
    /// arrays and transfers.
    fn draw(&self) -> Result<String, DrawError>;
}

impl Draw for Program {
    fn draw(&self) -> Result<String, DrawError> {
        let ranks = Ranks::new(self.mesh())?;
        let block = Block::grid(&ranks.drawn);
        let arrays = (0..self.arrays().len()).map(|id| ranks.array(self, ArrayId(id)));
        let mut rows = vec![("arrays, with the ranks that own each tile".to_owned(), arrays.collect::<Vec<_>>())];
        let mut lines = bounds(self);
        for (title, transfers) in parts(self) {
            let panels = transfers.iter().flat_map(|transfer| ranks.transfer(transfer, &block));
            rows.push((title, panels.collect()));
        }
        let panels = rows.iter().map(|(_, panels)| panels.len()).sum();
        if panels > MAX_PANELS {
            return Err(DrawError::Panels { panels, max: MAX_PANELS });
        }
        lines.extend(ranks.note());
        Ok(page(self, rows, &lines))
    }
}

/// The first row and column of a tile, and those after its last.
type Corners = [[usize; 2]; 2];

/// A shape to put on a page, with its width and height.
struct Drawn {
    group: Group,
    size: [f64; 2],
}

/// A transfer: its name, its pattern, and its bytes.
struct Communication {
    name: String,
    pattern: Pattern,
    note: String,
}

/// The parts of a program: each statement with its transfers.
fn parts(program: &Program) -> Vec<(String, Vec<Communication>)> {
    let (mut all, body) = (Vec::new(), program.body());
    let mut open: Vec<_> = body.spans(&body.statements).map(|span| (span, String::new())).collect();
    open.reverse();
    while let Some((span, rounds)) = open.pop() {
        for kernel in body.kernels_of(span) {
            let nest = body.nest(kernel);
            let (local, moved): (Vec<_>, Vec<_>) =
                moved(&nest).into_iter().partition(|one| one.pattern == Pattern::Local);
            let mut local: Vec<_> = local.into_iter().map(|one| one.name).collect();
            local.dedup();
            let local = if local.is_empty() { String::new() } else { format!("; local: {}", local.join(", ")) };
            all.push((format!("{}: {}{rounds}{local}", nest.kernel.name(), nest.kernel.statement()), moved));
        }
        match span.statements {
            [Statement::Begin(id, _)] => {
                let Some(one) = body.moved(*id) else { continue };
                let note = format!("at most {} received per rank", units::bytes(one.volume().received.into()));
                let [source, target] = [one.source, one.target].map(|id| program.shown(id));
                let moved = Communication { name: target.clone(), pattern: one.pattern(), note };
                all.push((format!("move {source} to {target}{rounds}"), vec![moved]));
            }
            [Statement::Rounds(id, statements)] => {
                let inside = format!("{rounds}, {}", program.shown_rounds(&body.rounds[id.0]));
                let spans: Vec<_> = body.spans(statements).collect();
                open.extend(spans.into_iter().rev().map(|span| (span, inside.clone())));
            }
            _ => {}
        }
    }
    all
}

/// The transfers of a kernel.
fn moved(nest: &NestView<'_>) -> Vec<Communication> {
    let one = |(transfer, volume): (&TransferView<'_>, polyshard_program::Volume)| {
        let bytes = units::bytes(volume.each.into());
        let note = match transfer.reused {
            Some(_) => "reused, nothing is sent".to_owned(),
            None => format!("{}: at most {bytes} per rank and step", nest.place(transfer.level)),
        };
        Communication { name: nest.tensor_name(transfer.tensor).to_string(), pattern: nest.pattern_of(transfer), note }
    };
    nest.transfers.iter().zip(nest.volumes()).map(one).collect()
}

/// The bytes that a rank receives, and the lower bound.
fn bounds(program: &Program) -> Vec<String> {
    let received = program.report().traffic_bytes;
    let mut lines = vec![format!("received: at most {} per rank", units::bytes(received.into()))];
    if let Some(nest) = program.body().only_nest() {
        let [_, bound] = nest.lower_bounds();
        let least = u128::from(bound.elements()) * nest.kernel.dtype().size() as u128;
        if least > 0 {
            let ratio = received as f64 / least as f64;
            let (least, ranks) = (units::bytes(least), units::counted(nest.mesh.size(), "rank"));
            lines[0] += &format!("; lower bound: {least} for {ranks}, {ratio:.2}x here");
        }
    }
    lines
}

/// The ranks as drawn: all of them, or classes.
struct Ranks<'m> {
    mesh: &'m Mesh,
    drawn: Mesh,
    /// By axis, the names of coordinates; `None` if they are numbers.
    classes: Option<Vec<Vec<String>>>,
}

impl<'m> Ranks<'m> {
    fn new(mesh: &'m Mesh) -> Result<Self, DrawError> {
        if mesh.size() <= MAX_RANKS {
            return Ok(Self { mesh, drawn: mesh.clone(), classes: None });
        }
        let classes = CLASSES.map(|names| {
            let of = |extent: usize| match extent <= names.len() {
                true => (0..extent).map(|at| at.to_string()).collect(),
                false => names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(),
            };
            mesh.extents().into_iter().map(of).collect::<Vec<_>>()
        });
        let few = |classes: &Vec<Vec<String>>| classes.iter().map(Vec::len).product::<usize>() <= MAX_RANKS;
        let classes = classes.into_iter().find(few).ok_or(DrawError::Axes { axes: mesh.ndim() })?;
        let axes = mesh.as_slice().iter().zip(&classes).map(|(axis, classes)| (axis.name, classes.len()));
        Ok(Self { mesh, drawn: Mesh::new(axes), classes: Some(classes) })
    }

    /// The name of a drawn rank: on it, and in full.
    fn names(&self, rank: usize) -> [String; 2] {
        let coordinates = self.drawn.coordinates(rank);
        let Some(classes) = &self.classes else { return [rank.to_string(), format!("rank {rank}")] };
        let of = |(axis, &at): (usize, &usize)| format!("{} {}", self.drawn.as_slice()[axis].name, classes[axis][at]);
        ["..".into(), joined(coordinates.iter().enumerate().map(of), ", ")]
    }

    /// A note that classes are drawn, if they are.
    fn note(&self) -> Option<String> {
        let classes = self.classes.as_ref()?;
        let of = |(axis, names): (&polyshard_layout::Axis, &Vec<String>)| {
            format!("{}: {} as {}", axis.name, axis.extent, names.join(", "))
        };
        let axes = joined(self.mesh.as_slice().iter().zip(classes).map(of), "; ");
        Some(format!("drawn in classes of the {} ranks: {axes}", self.mesh.size()))
    }

    /// The mesh for each leg of a transfer, with the groups of ranks that communicate.
    fn transfer(&self, moved: &Communication, block: &Block) -> Vec<Drawn> {
        let legs = match &moved.pattern {
            Pattern::Sequence { patterns } => &patterns[..],
            one => std::slice::from_ref(one),
        };
        let count = legs.len();
        let of_leg = |(nth, leg): (usize, &Pattern)| {
            let title = match count {
                1 => format!("{}: {leg}", moved.name),
                _ => format!("{}, {} of {count}: {leg}", moved.name, nth + 1),
            };
            let (groups, talk) = self.groups(leg);
            let panel = Panel { title, note: moved.note.clone(), groups, talk };
            let widths = [(&panel.title, LETTERS[0]), (&panel.note, LETTERS[1])];
            let width = widths.map(|(text, letter)| text.chars().count() as f64 * letter).into_iter();
            let size = [width.fold(block.size[0], f64::max), block.size[1] + HEAD];
            Drawn { group: block.panel(&panel, &|rank| self.names(rank)), size }
        };
        legs.iter().enumerate().map(of_leg).collect()
    }

    /// The groups of drawn ranks that communicate.
    fn groups(&self, pattern: &Pattern) -> (Vec<Vec<usize>>, Talk) {
        let along = |axes: &[Name]| {
            let axes: Vec<_> = axes.iter().filter_map(|&axis| self.drawn.position(axis)).collect();
            self.drawn.groups_along(&axes)
        };
        match pattern {
            Pattern::Broadcast { axes } => (along(axes), Talk::FromFirst),
            Pattern::Halo { reach } => {
                (reach.iter().flat_map(|offsets| along(&[offsets.axis])).collect(), Talk::InLine)
            }
            Pattern::Permute | Pattern::Exchange => (vec![(0..self.drawn.size()).collect()], Talk::AnyPair),
            Pattern::Local | Pattern::Sequence { .. } => (Vec::new(), Talk::AnyPair),
            pattern => (along(&pattern.axes()), Talk::Around),
        }
    }

    /// An array, in the tiles that the drawn ranks own.
    fn array(&self, program: &Program, id: ArrayId) -> Drawn {
        let sharding = &program.array(id).sharding;
        let title = format!("{}{:?}", program.shown(id), sharding.shape());
        let note = match program.body().only_nest() {
            Some(nest) => nest.placement(program.array(id).name.as_str(), sharding),
            None => sharding.to_string(),
        };
        let drawn = match &self.classes {
            None => Some(sharding.clone()),
            Some(_) => Sharding::new(&self.drawn, sharding.shape(), &sharding.placements()).ok(),
        };
        let dims = drawn_dims(sharding.shape().len(), |dim| is_cut(sharding, dim));
        let shape = dims.map(|dim| dim.map_or(1, |dim| sharding.shape()[dim]));
        let longest = shape[0].max(shape[1]).max(1) as f64;
        let longest = if sharding.shape().is_empty() { f64::INFINITY } else { longest };
        let [height, width] = shape.map(|extent| (SIDES[0] * extent as f64 / longest).max(SIDES[1]));
        let mut picture = Group::new().set("transform", format!("translate(0 {HEAD})"));
        picture = picture.add(rectangle("array", [0.0, 0.0], [width, height]));
        let mut notes = vec![note];
        if let Some(drawn) = &drawn {
            let (tiles, end) = self.tiles(drawn, dims);
            if end != shape {
                notes.push(format!("the first {} x {} are drawn", end[0], end[1]));
            }
            for (at, owners) in tiles {
                picture = picture.add(self.tile(at, &owners, end, [height, width]));
            }
        }
        let hidden = (0..sharding.shape().len()).filter(|&dim| is_cut(sharding, dim) && !dims.contains(&Some(dim)));
        let hidden = joined(hidden, ", ");
        if !hidden.is_empty() {
            notes.push(format!("dim {hidden} cut as well"));
        }
        let note = notes.join("; ");
        let widths = [(&title, LETTERS[0]), (&note, LETTERS[1])];
        let wide = widths.map(|(text, letter)| text.chars().count() as f64 * letter).into_iter().fold(width, f64::max);
        Drawn { group: panel(&title, &note).add(picture), size: [wide, height + HEAD] }
    }

    /// The tiles that ranks own, by upper left and lower right corner, and the extents of the array that are drawn.
    fn tiles(&self, sharding: &Sharding, dims: [Option<usize>; 2]) -> (BTreeMap<Corners, Vec<usize>>, [usize; 2]) {
        let coordinates: Vec<_> = (0..self.drawn.size()).map(|rank| self.drawn.coordinates(rank)).collect();
        let pieces =
            |dim: usize, at: &[usize]| sharding.pieces(dim, at, 0..sharding.shape()[dim]).map(|(range, _)| range);
        let end = dims.map(|dim| {
            let Some(dim) = dim else { return 1 };
            let beyond = coordinates.iter().filter_map(|at| pieces(dim, at).nth(MAX_BLOCKS)).map(|range| range.start);
            beyond.min().unwrap_or(sharding.shape()[dim])
        });
        let mut tiles: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (rank, at) in coordinates.iter().enumerate() {
            if !sharding.keeps(at) || sharding.local_len(at) == 0 {
                continue;
            }
            let [down, across]: [Vec<_>; 2] = [0, 1].map(|side| match dims[side] {
                Some(dim) => pieces(dim, at).take_while(|range| range.start < end[side]).collect(),
                None => std::iter::once(0..1).collect(),
            });
            for rows in &down {
                for columns in &across {
                    let box_of = [[rows.start, columns.start], [rows.end.min(end[0]), columns.end.min(end[1])]];
                    tiles.entry(box_of).or_default().push(rank);
                }
            }
        }
        (tiles, end)
    }

    /// A tile in the colour of its first owner, with the numbers of all.
    fn tile(&self, corners: Corners, owners: &[usize], shape: [usize; 2], size: [f64; 2]) -> Group {
        let place = |at: [usize; 2]| [0, 1].map(|side| at[side] as f64 / shape[side].max(1) as f64 * size[side]);
        let ([top, left], [bottom, right]) = (place(corners[0]), place(corners[1]));
        let fill = colour(owners[0], self.drawn.size());
        let full = joined(owners.iter().map(|&rank| self.names(rank)[1].clone()), "; ");
        let [from, to] = corners;
        let what = format!("{:?}, {:?}: {full}", from[0]..to[0], from[1]..to[1]);
        let tile = rectangle("tile", [left, top], [right - left, bottom - top]).set("fill", fill);
        let group = Group::new().add(tile.add(Title::new(what)));
        let text = self.numbers(owners);
        let fits = text.chars().count() as f64 * LETTERS[2] <= right - left && bottom - top >= 10.0;
        match fits && self.classes.is_none() {
            true => group.add(label("owner", text, (left + right) / 2.0, f64::midpoint(top, bottom) + 3.0)),
            false => group,
        }
    }

    /// Ranks as text: `0, 4..=7`.
    fn numbers(&self, ranks: &[usize]) -> String {
        if ranks.len() == self.drawn.size() && ranks.len() > 1 {
            return "all".into();
        }
        let runs = ranks.chunk_by(|one, next| one + 1 == *next).map(|run| match run {
            [one] => one.to_string(),
            [one, next] => format!("{one}, {next}"),
            [first, .., last] => format!("{first}..={last}"),
            [] => String::new(),
        });
        joined(runs, ", ")
    }
}

fn is_cut(sharding: &Sharding, dim: usize) -> bool {
    !sharding.dims()[dim].is_whole()
}

/// Rows of panels under their titles, and lines underneath.
fn page(program: &Program, rows: Vec<(String, Vec<Drawn>)>, lines: &[String]) -> String {
    let mut all = Group::new();
    let mut width: f64 = 0.0;
    let mut y = MARGIN;
    let mut write = |all: Group, text: &str, y: f64| {
        width = width.max(text.chars().count() as f64 * LETTERS[0]);
        all.add(label("program", text.to_owned(), MARGIN, y))
    };
    let ranks = units::counted(program.mesh().size(), "rank");
    let heading = format!("mesh({}), {ranks}, {}", program.mesh(), program.dtype());
    y += LINE;
    all = write(all, &heading, y);
    let mut widest: f64 = 0.0;
    for (title, panels) in rows {
        y += 1.5 * LINE;
        all = write(all, &title, y);
        y += LINE;
        let (mut x, mut tallest): (f64, f64) = (MARGIN, 0.0);
        for Drawn { group, size } in panels {
            if x > MARGIN && x + size[0] > WIDTH {
                (x, y, tallest) = (MARGIN, y + tallest + LINE, 0.0);
            }
            all = all.add(group.set("transform", format!("translate({} {})", rounded(x), rounded(y))));
            x += size[0] + GAP;
            (widest, tallest) = (widest.max(x), tallest.max(size[1]));
        }
        y += tallest;
    }
    for line in lines {
        y += 1.5 * LINE;
        all = write(all, line, y);
    }
    let text = format!("{program}\n{}", lines.join("\n"));
    shapes::page([width.max(widest) + 2.0 * MARGIN, y + MARGIN])
        .set("role", "img")
        .add(Title::new(heading))
        .add(Description::new().add(svg::node::Text::new(text)))
        .add(Style::new(format!("{STYLE}{TILES}")))
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "#fff"))
        .add(all)
        .to_string()
}
