//! Grids, and how their loops lie on meshes.

use polyshard_layout::Mesh;
use polyshard_program::Kernel;

/// The number of ranks that each index variable is divided over, in the order of [`Kernel::vars`].
pub(crate) type Grid = Vec<usize>;

/// The most loops that a grid divides.
pub(crate) const MOST_DIVIDED: usize = 5;

/// The most grids that are compared.
pub(crate) const MOST_GRIDS: usize = 1 << 21;

/// How loops lie on a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The mesh, and for each of its axes, outermost first, the loop that is divided over it: a position in the kernel's variables. A loop
    /// may be divided over several, in blocks of blocks.
    pub(crate) mesh: Mesh,
    pub(crate) along: Vec<usize>,
    /// A summed loop that runs in panels, and how many there are.
    pub(crate) panels: Option<(usize, usize)>,
}

impl Variant {
    /// The loops of a grid over a mesh that has an axis for each of them, in this order, outermost first.
    pub(crate) fn of_grid(grid: &Grid, order: &[usize]) -> Self {
        let mesh = Mesh::new(AXES.into_iter().zip(order.iter().map(|&var| grid[var])));
        Self { mesh, along: order.to_vec(), panels: None }
    }

    /// All ways to lay a kernel's loops over a mesh, with their grids; none if there are too many to compare.
    pub(crate) fn all(mesh: &Mesh, kernel: &Kernel) -> Option<Vec<(Grid, Self)>> {
        let vars = kernel.vars();
        let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in 0..mesh.ndim() {
            let longer = |way: Vec<usize>| (0..vars.len()).map(move |var| way.iter().copied().chain([var]).collect());
            ways = ways.into_iter().flat_map(longer).take(MOST_GRIDS + 1).collect();
            if ways.len() > MOST_GRIDS {
                return None;
            }
        }
        let fits = |along: Vec<usize>| {
            let variant = Self { mesh: mesh.clone(), along, panels: None };
            let grid = variant.grid(vars.len());
            let fits = vars.iter().zip(&grid).all(|(var, &ranks)| ranks <= var.extent.max(1));
            fits.then_some((grid, variant))
        };
        Some(ways.into_iter().filter_map(fits).collect())
    }

    /// Over how many ranks each of so many loops is divided.
    pub(crate) fn grid(&self, loops: usize) -> Grid {
        let mut grid = vec![1; loops];
        self.mesh.as_slice().iter().zip(&self.along).for_each(|(axis, &var)| grid[var] *= axis.extent);
        grid
    }

    /// The axes in runs that divide no loop twice.
    pub(crate) fn layers(&self) -> Vec<std::ops::Range<usize>> {
        let mut layers: Vec<std::ops::Range<usize>> = Vec::new();
        for (axis, var) in self.along.iter().enumerate() {
            match layers.last_mut().filter(|layer| !self.along[(*layer).clone()].contains(var)) {
                Some(layer) => layer.end = axis + 1,
                None => layers.push(axis..axis + 1),
            }
        }
        layers
    }
}

/// The names of axes, in this order.
pub(crate) const AXES: [&str; MOST_DIVIDED] = ["x", "y", "z", "u", "v"];
