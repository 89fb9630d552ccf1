//! Pictures of a machine's devices, and of the groups that communicate.
//!
//! ```text
//! node 0            node 1           a box for each member of each level, devices inside; those of a group have one
//! [0] [1] [2] [3]   [4] [5] [6] [7]  colour and arcs between them: around, or from the first to the others
//! ```
//!
//! Arcs are painted before devices and names, so that all numbers are legible.
//!
//! A drawing shows only its groups; the caller chooses and describes them.

use crate::DrawError;
use crate::shapes::{self, colour, label, page, rectangle, rounded};
use polyshard_layout::{Mesh, joined};
use svg::node::element::{Group, Path as Line, Style, Title};

/// Maximum number of devices in all panels together.
const DEVICES: usize = 20_000;
/// Maximum number of devices in a panel.
const PANEL: usize = 1024;
/// A device's width and height.
const DEVICE: [f64; 2] = [26.0, 16.0];
const GAP: f64 = 10.0;
/// The gap between a box and its contents; above it, room for its name.
const PADDING: f64 = 6.0;
const NAME: f64 = 12.0;
pub(crate) const MARGIN: f64 = 16.0;
/// Height above the devices of a panel: two lines, and room for the arcs of the first row.
pub(crate) const HEAD: f64 = 46.0;
/// Maximum width of a letter in a title.
const LETTER: f64 = 7.5;
/// Maximum distance of a long arc from the straight line: enough to clear a row of devices.
const BOW: f64 = 20.0;
/// Minimum length of an arc that is bent that far; shorter ones are nearly straight.
const LONG: f64 = 120.0;
/// The preferred ratio of a block's width to its height.
const SHAPE: f64 = 1.8;
/// Penalty for a last row that is not full, as a deviation of the ratio's logarithm.
const RAGGED: f64 = 1.0;
pub(crate) const STYLE: &str = "text{font:9px sans-serif}text.title{font-size:13px;font-weight:bold}text.note{font-size:11px}\
                     text.rank{text-anchor:middle}text.name{paint-order:stroke;stroke:#fff;stroke-width:2px}rect.member{fill:none;stroke:#999}rect.device{stroke:#444;\
                     stroke-width:0.5}rect.idle{fill:#f0f0f0}path{fill:none;stroke-width:1.5;opacity:0.7}";

/// Which members of a group are joined by arcs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// Each to the next, the last to the first.
    Around,
    /// Each to the next.
    InLine,
    /// The first to all others.
    FromFirst,
    /// Any two may; nothing is drawn between them.
    AnyPair,
}

/// One picture of all devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// The line above it.
    pub title: String,
    /// The line below that.
    pub note: String,
    /// The ranks that communicate with each other; a rank has the colour of its last group.
    pub groups: Vec<Vec<usize>>,
    /// Which members of a group communicate.
    pub talk: Talk,
}

/// Returns rows of panels; `levels` are names and counts, outermost first.
///
/// ```
/// use polyshard::draw::{Panel, Talk, devices};
/// let levels = [("node".to_owned(), 2), ("gpu".to_owned(), 2)];
/// let groups = vec![vec![0, 1], vec![2, 3]];
/// let panel = Panel { title: "inside nodes".into(), note: "2 groups".into(), groups, talk: Talk::Around };
/// let drawing = devices("two nodes", &levels, &[vec![panel]])?;
/// assert!(drawing.contains("rank 3: node 1, gpu 1"));
/// # Ok::<(), polyshard::draw::DrawError>(())
/// ```
///
/// # Errors
/// [`DrawError::Devices`] if there are too many for a page.
///
/// # Panics
/// If a group has a rank that is not one of the devices.
pub fn devices(title: &str, levels: &[(String, usize)], rows: &[Vec<Panel>]) -> Result<String, DrawError> {
    let devices: usize = levels.iter().map(|(_, count)| count).product();
    let panels = rows.iter().map(Vec::len).sum::<usize>();
    if devices > PANEL || devices * panels > DEVICES {
        return Err(DrawError::Devices { devices, panels, max: DEVICES, max_panel: PANEL });
    }
    let block = Block::new(levels);
    let widest = rows.iter().flatten().map(|panel| panel.title.chars().count().max(panel.note.chars().count())).max();
    let width = block.size[0].max(widest.unwrap_or(0) as f64 * LETTER) + MARGIN;
    let height = block.size[1] + HEAD + MARGIN;
    let across = rows.iter().map(Vec::len).max().unwrap_or(0);
    let size = [across as f64 * width + MARGIN, rows.len() as f64 * height + MARGIN];
    let mut document = page(size).add(Title::new(title)).add(Style::new(STYLE));
    for (row, panels) in rows.iter().enumerate() {
        for (column, panel) in panels.iter().enumerate() {
            let [x, y] = [column as f64 * width + MARGIN, row as f64 * height + MARGIN].map(rounded);
            document = document.add(
                block
                    .panel(panel, &|rank| [rank.to_string(), format!("rank {rank}")])
                    .set("transform", format!("translate({x} {y})")),
            );
        }
    }
    Ok(document.to_string())
}

impl Panel {
    /// Returns a panel of groups in which each rank communicates with the next. The note counts the groups, and then says `more`.
    #[must_use]
    pub fn around(title: String, groups: Vec<Vec<usize>>, more: &str) -> Self {
        Self { title, note: count_groups(&groups) + more, groups, talk: Talk::Around }
    }
}

/// Returns as text how many groups there are, and of how many ranks.
pub(crate) fn count_groups(groups: &[Vec<usize>]) -> String {
    match groups {
        [] => "no group".into(),
        [group] => format!("one group of {}", group.len()),
        [group, ..] => format!("{} groups of {}", groups.len(), group.len()),
    }
}

/// Devices in boxes of boxes; places are upper left corners.
pub(crate) struct Block {
    pub(crate) size: [f64; 2],
    /// By rank: its place and its name.
    devices: Vec<([f64; 2], String)>,
    /// Place, size and name of each box.
    members: Vec<([f64; 2], [f64; 2], String)>,
}

impl Block {
    fn new(levels: &[(String, usize)]) -> Self {
        let mut block = Self { size: DEVICE, devices: vec![([0.0, 0.0], String::new())], members: Vec::new() };
        for (depth, (name, count)) in levels.iter().enumerate().rev() {
            block = block.repeated(name, *count, depth + 1 < levels.len());
        }
        block
    }

    /// The ranks of a mesh as a grid: the last axis across, the others downwards.
    pub(crate) fn grid(mesh: &Mesh) -> Self {
        let across = mesh.extents().last().copied().unwrap_or(1);
        let pitch = DEVICE.map(|side| side + 1.6 * GAP);
        let places =
            (0..mesh.size()).map(|rank| [(rank % across) as f64 * pitch[0], (rank / across) as f64 * pitch[1]]);
        let size = [across, mesh.size() / across].map(|count| count as f64);
        Self {
            size: [0, 1].map(|side| size[side] * pitch[side] - 1.6 * GAP),
            devices: places.map(|place| (place, String::new())).collect(),
            members: Vec::new(),
        }
    }

    /// `count` copies of the block, side by side and below each other, each in a box if `boxed`.
    fn repeated(&self, name: &str, count: usize, boxed: bool) -> Self {
        let [border, head] = if boxed { [PADDING, NAME] } else { [0.0, 0.0] };
        let inner = [self.size[0] + 2.0 * border, self.size[1] + 2.0 * border + head];
        let extent = |columns: usize| {
            let counts = [columns, count.div_ceil(columns)];
            [0, 1].map(|side| counts[side] as f64 * (inner[side] + GAP) - GAP)
        };
        let off = |columns: &usize| {
            let [width, height] = extent(*columns);
            let ragged = if count.is_multiple_of(*columns) { 0.0 } else { RAGGED };
            (width / height / SHAPE).ln().abs() + ragged
        };
        let columns = (1..=count).min_by(|one, other| off(one).total_cmp(&off(other))).unwrap_or(1);
        let (mut devices, mut members) = (Vec::new(), Vec::new());
        for member in 0..count {
            let at = [member % columns, member / columns];
            let place = [0, 1].map(|side| at[side] as f64 * (inner[side] + GAP));
            if boxed {
                members.push((place, inner, format!("{name} {member}")));
            }
            let inside = [place[0] + border, place[1] + border + head];
            let moved = |at: [f64; 2]| [at[0] + inside[0], at[1] + inside[1]];
            devices.extend(self.devices.iter().map(|(at, inner)| {
                let comma = if inner.is_empty() { "" } else { ", " };
                (moved(*at), format!("{name} {member}{comma}{inner}"))
            }));
            members.extend(self.members.iter().map(|(at, size, name)| (moved(*at), *size, name.clone())));
        }
        Self { size: extent(columns), devices, members }
    }

    /// The devices with the groups of a panel; `names` returns a rank's name, on its device and in full.
    pub(crate) fn panel(&self, panel: &Panel, names: &dyn Fn(usize) -> [String; 2]) -> Group {
        let mut picture = Group::new().set("transform", format!("translate(0 {HEAD})"));
        for (at, size, _) in &self.members {
            picture = picture.add(rectangle("member", *at, *size));
        }
        let mut colours = vec![None; self.devices.len()];
        for (nth, group) in panel.groups.iter().enumerate() {
            picture = picture.add(self.arcs(group, panel.talk, &colour(nth, panel.groups.len())));
            for &rank in group {
                colours[rank] = Some(colour(nth, panel.groups.len()));
            }
        }
        for (at, _, name) in &self.members {
            picture = picture.add(label("name", name.clone(), at[0] + PADDING, at[1] + NAME));
        }
        for (rank, ((at, name), fill)) in self.devices.iter().zip(colours).enumerate() {
            let device = match fill {
                Some(fill) => rectangle("device", *at, DEVICE).set("fill", fill),
                None => rectangle("device idle", *at, DEVICE),
            };
            let [x, y] = [at[0] + DEVICE[0] / 2.0, at[1] + DEVICE[1] - 5.0];
            let [short, full] = names(rank);
            let full = if name.is_empty() { full } else { format!("{full}: {name}") };
            picture = picture.add(device.add(Title::new(full))).add(label("rank", short, x, y));
        }
        shapes::panel(&panel.title, &panel.note).add(picture)
    }

    /// The arcs of a group.
    fn arcs(&self, group: &[usize], talk: Talk, stroke: &str) -> Group {
        let mut drawn = Group::new().set("class", "group").add(Title::new(joined(group, " ")));
        let pairs: Vec<[usize; 2]> = match (talk, group) {
            (_, [] | [_]) | (Talk::AnyPair, _) => Vec::new(),
            (Talk::InLine, _) => group.windows(2).map(|pair| [pair[0], pair[1]]).collect(),
            (Talk::FromFirst, [first, others @ ..]) => others.iter().map(|other| [*first, *other]).collect(),
            (Talk::Around, [one, other]) => vec![[*one, *other]],
            (Talk::Around, _) => (0..group.len()).map(|at| [group[at], group[(at + 1) % group.len()]]).collect(),
        };
        for pair in pairs {
            let [from, to] = pair.map(|rank| [0, 1].map(|side| self.devices[rank].0[side] + DEVICE[side] / 2.0));
            drawn = drawn.add(Line::new().set("class", "arc").set("d", arc(from, to)).set("stroke", stroke));
        }
        drawn
    }
}

/// A quadratic curve between two places, bent to its left, as the data of an SVG path.
fn arc(from: [f64; 2], to: [f64; 2]) -> String {
    let along = [to[0] - from[0], to[1] - from[1]];
    let length = along[0].hypot(along[1]).max(1.0);
    // The middle of the curve is half as far from the straight line as its control point.
    let bent = 2.0 * BOW * (length / LONG).powi(2).min(1.0) / length;
    let control = [(from[0] + to[0]) / 2.0 + along[1] * bent, (from[1] + to[1]) / 2.0 - along[0] * bent];
    let [[x, y], [bent_x, bent_y], [to_x, to_y]] = [from, control, to].map(|place| place.map(rounded));
    format!("M{x} {y}Q{bent_x} {bent_y} {to_x} {to_y}")
}
