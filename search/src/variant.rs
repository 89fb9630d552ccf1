//! Grids, and how their loops lie on meshes.

use polyshard_layout::{Mesh, Name};
use polyshard_program::{IndexVar, Kernel};

/// The number of ranks that each index variable is divided over, in the order of [`Kernel::vars`].
pub(crate) type Grid = Vec<usize>;

/// The most loops that a grid divides.
pub(crate) const MOST_DIVIDED: usize = 5;

/// The most grids that are compared.
pub(crate) const MOST_GRIDS: usize = 1 << 21;

/// How loops lie on a mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Along {
    /// For each loop, a position in the kernel's variables, the axes that it is divided over, major first: in blocks of blocks, if there
    /// are several. Along the axes that no loop has, all ranks do the same.
    pub(crate) axes: Vec<Vec<usize>>,
}

/// A mesh with loops on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) mesh: Mesh,
    pub(crate) along: Along,
    /// A loop that runs in panels, if one does.
    pub(crate) panels: Option<Panels>,
}

/// A loop that runs in panels, inside of all that is divided over ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panels {
    /// The loop, a position in the kernel's variables.
    pub(crate) var: usize,
    pub(crate) count: usize,
    /// The parts of each panel, which come one after the other: 1 if they come whole.
    pub(crate) within: usize,
    /// The axes whose coordinates each rank begins at, cyclically: then not all ask the same rank at one time.
    pub(crate) rotated: Vec<usize>,
    /// Whether each panel comes while the one before it is computed.
    pub(crate) ahead: bool,
}

impl Panels {
    /// These panels, from the first to the last on all ranks.
    pub(crate) fn new(var: usize, count: usize) -> Self {
        Self { var, count, within: 1, rotated: Vec::new(), ahead: false }
    }

    /// Panels of half the size; of those that are rotated, as many as ranks begin at, in parts.
    pub(crate) fn finer(&self) -> Self {
        match self.rotated.is_empty() {
            true => Self { count: 2 * self.count, ..self.clone() },
            false => Self { within: 2 * self.within, ..self.clone() },
        }
    }
}

/// Which ways to lay loops over a mesh are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// Each axis divides a loop, those of one loop in the order of the mesh.
    Divided,
    /// Axes may also be of copies, and those of one loop are in any order.
    All,
}

impl Along {
    /// The loop that is divided over an axis; none where all ranks do the same.
    pub(crate) fn var(&self, axis: usize) -> Option<usize> {
        self.axes.iter().position(|axes| axes.contains(&axis))
    }

    /// All ways to lay this number of loops over a mesh; none if there are too many to compare.
    fn all(mesh: &Mesh, loops: usize, ways: Ways) -> Option<Vec<Self>> {
        let mut all = vec![Self { axes: vec![Vec::new(); loops] }];
        for (axis, described) in mesh.as_slice().iter().enumerate() {
            let longer = |along: Self| {
                // A single rank has nothing to share.
                let copies = ways == Ways::All;
                let vars = if copies && described.extent == 1 { 0 } else { loops };
                let unused = copies.then(|| along.clone());
                let divided = (0..vars).flat_map(move |var| {
                    let last = along.axes[var].len();
                    let along = along.clone();
                    (if copies { 0 } else { last }..=last).map(move |place| {
                        let mut along = along.clone();
                        along.axes[var].insert(place, axis);
                        along
                    })
                });
                divided.chain(unused)
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
    /// The loops of a grid over a mesh that has an axis for each of them, in this order, outermost first.
    pub(crate) fn of_grid(grid: &Grid, order: &[usize], axes: &[Name]) -> Self {
        let mesh = Mesh::new(axes.iter().copied().zip(order.iter().map(|&var| grid[var])));
        let of = |var: usize| order.iter().position(|&other| other == var).into_iter().collect();
        Self { mesh, along: Along { axes: (0..grid.len()).map(of).collect() }, panels: None }
    }

    /// All ways to lay a kernel's loops over a mesh, with their grids; none if there are too many to compare.
    pub(crate) fn all(mesh: &Mesh, kernel: &Kernel, ways: Ways) -> Option<Vec<(Grid, Self)>> {
        let vars = kernel.vars();
        let fits = |along: Along| {
            let variant = Self { mesh: mesh.clone(), along, panels: None };
            let grid = variant.grid();
            // On a mesh that is given, there may be nothing for some ranks.
            let fits = |(var, &ranks): (&IndexVar, &usize)| ways == Ways::All || ranks <= var.extent.max(1);
            vars.iter().zip(&grid).all(fits).then_some((grid, variant))
        };
        Some(Along::all(mesh, vars.len(), ways)?.into_iter().filter_map(fits).collect())
    }

    /// Over how many ranks each loop is divided.
    pub(crate) fn grid(&self) -> Grid {
        let extent = |&axis: &usize| self.mesh.as_slice()[axis].extent;
        self.along.axes.iter().map(|axes| axes.iter().map(extent).product()).collect()
    }
}

/// The names of axes, in this order: none is an index, a tensor or a scalar of a kernel.
pub(crate) fn axis_names(kernels: &[&Kernel]) -> Vec<Name> {
    let is_taken = |name: &str| {
        kernels.iter().any(|kernel| {
            let indices = kernel.vars().iter().map(|var| var.name);
            let all = indices.chain(kernel.tensors().map(|tensor| tensor.name));
            all.chain(kernel.scalars().iter().map(|(name, _)| *name)).any(|other| other.as_str() == name)
        })
    };
    let free = |name: &&str| {
        let mut name = (*name).to_owned();
        while is_taken(&name) {
            name += "_";
        }
        Name::new(&name)
    };
    ["x", "y", "z", "u", "v"].iter().take(MOST_DIVIDED).map(free).collect()
}
