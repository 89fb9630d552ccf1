//! The mesh before and after each step of a plan, with elements coloured by their first owner.
//!
//! ```text
//! panel of a state    0        1        2        a picture of the whole array for each rank of the mesh; the part
//!                    [##..]   [..##]   [....]    that the rank holds is coloured
//! ```
//!
//! The first panel is the legend of the others: there, each rank holds its own colour.

use crate::DrawError;
use crate::shapes::{colour, label, page, rectangle, rounded};
use crate::tiles::Tiles;
use polyshard_planner::{DistType, Plan};
use std::collections::BTreeMap;
use svg::node::element::{Definitions, Group, Rectangle, Style, Text, Title, Use};

/// Maximum number of ranks on a page.
const RANKS: usize = 512;
/// The longer side, and the minimum of the shorter side, of the picture of an array.
const SIDES: [f64; 2] = [72.0, 18.0];
/// Minimum gap between two pictures, with room for a number and a line of text.
const GAP: [f64; 2] = [14.0, 30.0];
const MARGIN: f64 = 16.0;
/// Height above the pictures of a panel: two lines.
const HEAD: f64 = 54.0;
/// Maximum number of pictures side by side, unless the mesh determines it.
const ACROSS: usize = 16;
/// Maximum width of a letter, in the smallest and in the largest size.
const LETTER: f64 = 6.5;
const TITLE_LETTER: f64 = 8.0;
const STYLE: &str = "text{font:10px sans-serif}text.title{font-size:13px;font-weight:bold}\
                     text.type{font-size:12px;font-family:monospace}text.rank,text.part{text-anchor:middle}\
                     rect.array{fill:#f4f4f4;stroke:#888;stroke-width:0.5}rect.cell{stroke:#fff;stroke-width:0.25}";

/// Returns a picture of the data that each rank holds before a plan and after each of its steps.
///
/// ```
/// use polyshard::planner::{DistType, Plan, PlanOptions};
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 4)]);
/// let [rows, columns] = ["[2{x}8, 8]", "[8, 2{x}8]"].map(|text| DistType::parse(text, &mesh));
/// let plan = Plan::new(&rows?, &columns?, &PlanOptions::default())?;
/// let drawing = polyshard::draw::redistribution(&plan)?;
/// assert!(drawing.contains("after step 1, AllToAll of x"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`DrawError::Ranks`] if there are too many for a page.
pub fn redistribution(plan: &Plan) -> Result<String, DrawError> {
    let ranks = plan.source().mesh().size();
    if ranks > RANKS {
        return Err(DrawError::Ranks { ranks, max: RANKS });
    }
    let layout = Page::new(plan);
    let mut states = vec![("before".to_owned(), plan.source())];
    for (nth, step) in plan.steps().iter().enumerate() {
        let axes = step.axis_names();
        let of = if axes.is_empty() { String::new() } else { format!(" of {}", axes.join(", ")) };
        states.push((format!("after step {}, {}{of}", nth + 1, step.op()), step.to()));
    }
    let [width, height] = layout.panel();
    let mesh = format!("over ({})", plan.source().mesh());
    let widest = states.iter().map(|(title, held)| title.len().max(held.to_string().len() + mesh.len())).max();
    let width = width.max(widest.unwrap_or(0) as f64 * TITLE_LETTER) + 2.0 * MARGIN;
    let total = height * states.len() as f64 + 2.0 * MARGIN;
    let mut document = page([width, total])
        .add(Title::new(format!("{} to {}, {mesh}", plan.source(), plan.target())))
        .add(Style::new(STYLE));
    for (nth, (title, held)) in states.iter().enumerate() {
        let lines = [title.clone(), format!("{held} {mesh}")];
        document = document.add(layout.state(nth, &lines, held, MARGIN + nth as f64 * height));
    }
    Ok(document.to_string())
}

/// The layout of a page.
struct Page<'a> {
    tiles: Tiles<'a>,
    /// The width and the height of the picture of the array.
    size: [f64; 2],
    /// The gap between two pictures.
    gap: [f64; 2],
    /// The numbers of pictures side by side, and below each other.
    grid: [usize; 2],
}

impl<'a> Page<'a> {
    fn new(plan: &'a Plan) -> Self {
        let tiles = Tiles::new(plan);
        let [down, across] = tiles.extents().map(|extent| extent.max(1) as f64);
        let side = |extent: f64| (SIDES[0] * extent / down.max(across)).max(SIDES[1]);
        let size = [side(across), side(down)];
        let mesh = plan.source().mesh();
        let columns = match mesh.extents()[..] {
            [] => 1,
            [ranks] => ranks.min(ACROSS),
            [.., inner] => inner.min(2 * ACROSS),
        };
        let types = [plan.source()].into_iter().chain(plan.steps().iter().map(|step| step.to()));
        let parts =
            types.flat_map(|held| (0..mesh.size()).map(|rank| tiles.others(held, &mesh.coordinates(rank)).len()));
        let widest = parts.max().unwrap_or(0) as f64 * LETTER;
        let gap = [GAP[0].max(GAP[0] / 2.0 + widest - size[0]), GAP[1]];
        Self { tiles, size, gap, grid: [columns, mesh.size().div_ceil(columns)] }
    }

    /// The width and the height of a panel.
    fn panel(&self) -> [f64; 2] {
        let [width, height] = [0, 1].map(|side| self.grid[side] as f64 * (self.size[side] + self.gap[side]));
        [width, HEAD + height + MARGIN]
    }

    /// The panel of one state, with two lines above it.
    fn state(&self, nth: usize, lines: &[String; 2], held: &DistType, y: f64) -> Group {
        let mut panel =
            Group::new().set("class", "panel").set("transform", format!("translate({MARGIN} {})", rounded(y)));
        panel = panel.add(Text::new(&lines[0]).set("class", "title").set("y", 14));
        panel = panel.add(Text::new(&lines[1]).set("class", "type").set("y", 32));
        // Ranks with the same tile share its picture, so that a page grows with its tiles.
        let mut tiles = BTreeMap::new();
        let (mut shared, mut pictures) = (Definitions::new(), Group::new());
        for rank in 0..held.mesh().size() {
            let coordinates = held.mesh().coordinates(rank);
            let number = tiles.len();
            let id = *tiles.entry(held.offset(&coordinates)).or_insert_with(|| number);
            let name = format!("state{nth}tile{id}");
            if id == number {
                shared = shared.add(self.tile(held, &coordinates).set("id", name.clone()));
            }
            let [x, y] = self.place(rank);
            let middle = x + self.size[0] / 2.0;
            let below = y + self.size[1] + 10.0;
            pictures = pictures
                .add(label("rank", rank.to_string(), middle, y - 3.0))
                .add(Use::new().set("href", format!("#{name}")).set("x", rounded(x)).set("y", rounded(y)));
            let part = self.tiles.others(held, &coordinates);
            if !part.is_empty() {
                pictures = pictures.add(label("part", part, middle, below));
            }
        }
        panel.add(shared).add(pictures)
    }

    /// The upper left corner of the picture of a rank.
    fn place(&self, rank: usize) -> [f64; 2] {
        let [columns, _] = self.grid;
        let [x, y] =
            [(rank % columns, 0), (rank / columns, 1)].map(|(at, side)| at as f64 * (self.size[side] + self.gap[side]));
        [x + self.gap[0] / 2.0, y + HEAD]
    }

    /// The array, with the part in colour that the rank at `coordinates` holds.
    fn tile(&self, held: &DistType, coordinates: &[usize]) -> Group {
        let [width, height] = self.size;
        let array = Rectangle::new().set("class", "array").set("width", rounded(width)).set("height", rounded(height));
        let mut tile = Group::new().add(array);
        let [down, across] = self.tiles.extents().map(|extent| extent.max(1) as f64);
        for cell in self.tiles.cells(held, coordinates) {
            let [rows, columns] = &cell.ranges;
            let along = |column: usize, row: usize| [column as f64 / across * width, row as f64 / down * height];
            let place = along(columns.start, rows.start);
            let cell_drawn = rectangle("cell", place, along(columns.len(), rows.len()));
            let title = Title::new(format!("{rows:?}, {columns:?}, at first on rank {}", cell.owner));
            tile = tile.add(cell_drawn.set("fill", colour(cell.tile, self.tiles.count())).add(title));
        }
        tile
    }
}
