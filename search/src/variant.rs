//! Grids, and the ways to lay their loops over meshes.

use polyshard_layout::{Mesh, Name};
use polyshard_program::{IndexVar, Kernel};

/// The number of ranks that each index variable is divided over, in the order of [`Kernel::vars`].
pub(crate) type Grid = Vec<usize>;

/// The maximum number of loops that a grid divides.
pub(crate) const MOST_DIVIDED: usize = 5;

/// The maximum number of grids that are compared.
pub(crate) const MOST_GRIDS: usize = 1 << 21;

/// The division of loops over the axes of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Along {
    /// For each loop (a position in the kernel's variables), the axes that it is divided over, major first: in blocks
    /// of blocks, if there are several. Along axes that divide no loop, all ranks do the same.
    pub(crate) axes: Vec<Vec<usize>>,
}

/// A mesh, and loops laid over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) mesh: Mesh,
    pub(crate) along: Along,
    /// A loop that runs in panels, if one does.
    pub(crate) panels: Option<Panels>,
}

/// A loop that runs in panels, inside all loops that are divided over ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panels {
    /// The loop, a position in the kernel's variables.
    pub(crate) var: usize,
    pub(crate) count: usize,
    /// The parts of each panel, which are fetched one after the other: 1 if panels are fetched whole.
    pub(crate) within: usize,
    /// The axes whose coordinates determine the panel that each rank begins with, cyclically, so that not all ranks
    /// fetch from the same owner at once.
    pub(crate) rotated: Vec<usize>,
    /// Whether each panel is fetched while the one before it is computed.
    pub(crate) ahead: bool,
}

impl Panels {
    /// These panels, from the first to the last on all ranks.
    pub(crate) fn new(var: usize, count: usize) -> Self {
        Self { var, count, within: 1, rotated: Vec::new(), ahead: false }
    }

    /// Panels of half the size; rotated panels keep their number and are halved into parts.
    pub(crate) fn finer(&self) -> Self {
        match self.rotated.is_empty() {
            true => Self { count: 2 * self.count, ..self.clone() },
            false => Self { within: 2 * self.within, ..self.clone() },
        }
    }
}

/// Which ways to lay loops over a mesh are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// Each axis divides a loop; the axes of one loop are in the order of the mesh.
    Divided,
    /// Axes may also hold copies, and the axes of one loop are in any order.
    All,
}

impl Along {
    /// The loop that is divided over an axis; `None` if all ranks along it do the same.
    pub(crate) fn var(&self, axis: usize) -> Option<usize> {
        self.axes.iter().position(|axes| axes.contains(&axis))
    }

    /// All ways to lay this number of loops over a mesh; `None` if there are too many to compare.
    fn all(mesh: &Mesh, loops: usize, ways: Ways) -> Option<Vec<Self>> {
        let mut all = vec![Self { axes: vec![Vec::new(); loops] }];
        for (axis, described) in mesh.as_slice().iter().enumerate() {
            let longer = |along: Self| {
                let mut longer = Vec::new();
                // An axis of one rank divides nothing.
                let vars = if ways == Ways::All && described.extent == 1 { 0 } else { loops };
                for var in 0..vars {
                    let last = along.axes[var].len();
                    for place in (if ways == Ways::All { 0 } else { last })..=last {
                        let mut along = along.clone();
                        along.axes[var].insert(place, axis);
                        longer.push(along);
                    }
                }
                if ways == Ways::All {
                    longer.push(along);
                }
                longer
            };
            all = all.into_iter().flat_map(longer).take(MOST_GRIDS + 1).collect();
            if all.len() > MOST_GRIDS {
                return None;
            }
        }
        Some(all)
    }
}

impl Variant {
    /// The loops of a grid, laid over a mesh with an axis for each of them, in this order, outermost first.
    pub(crate) fn of_grid(grid: &Grid, order: &[usize], axes: &[Name]) -> Self {
        let mesh = Mesh::new(axes.iter().copied().zip(order.iter().map(|&var| grid[var])));
        let of = |var: usize| order.iter().position(|&other| other == var).into_iter().collect();
        Self { mesh, along: Along { axes: (0..grid.len()).map(of).collect() }, panels: None }
    }

    /// All ways to lay a kernel's loops over a mesh, with their grids; `None` if there are too many to compare.
    pub(crate) fn all(mesh: &Mesh, kernel: &Kernel, ways: Ways) -> Option<Vec<(Grid, Self)>> {
        let vars = kernel.vars();
        let fits = |along: Along| {
            let variant = Self { mesh: mesh.clone(), along, panels: None };
            let grid = variant.grid();
            // On a given mesh, some ranks may have no work.
            let fits = |(var, &ranks): (&IndexVar, &usize)| ways == Ways::All || ranks <= var.extent.max(1);
            vars.iter().zip(&grid).all(fits).then_some((grid, variant))
        };
        Some(Along::all(mesh, vars.len(), ways)?.into_iter().filter_map(fits).collect())
    }

    /// The axes that divide each loop, major first.
    pub(crate) fn axes(&self) -> Vec<Vec<Name>> {
        self.along.axes.iter().map(|axes| self.mesh.names(axes)).collect()
    }

    /// The number of ranks that each loop is divided over.
    pub(crate) fn grid(&self) -> Grid {
        let extent = |&axis: &usize| self.mesh.as_slice()[axis].extent;
        self.along.axes.iter().map(|axes| axes.iter().map(extent).product()).collect()
    }
}

/// The names of axes, in this order. None of them is an index, a tensor or a scalar of a kernel.
pub(crate) fn axis_names(kernels: &[&Kernel]) -> Vec<Name> {
    let taken: Vec<Name> = kernels.iter().flat_map(|kernel| names_of(kernel)).collect();
    let free = |text: &&str| fresh(text, |name| taken.contains(&name));
    ["x", "y", "z", "u", "v"].iter().take(MOST_DIVIDED).map(free).collect()
}

/// The names of a kernel's indices, tensors and scalars.
pub(crate) fn names_of(kernel: &Kernel) -> impl Iterator<Item = Name> {
    let indices = kernel.vars().iter().map(|var| var.name);
    indices.chain(kernel.tensors().map(|tensor| tensor.name)).chain(kernel.scalars().iter().map(|(name, _)| *name))
}

/// The first of `text`, `text_`, `text__`, .. that is not taken.
pub(crate) fn fresh(text: &str, is_taken: impl Fn(Name) -> bool) -> Name {
    let mut text = text.to_owned();
    while is_taken(Name::new(&text)) {
        text += "_";
    }
    Name::new(&text)
}
