//! Words that the busiest rank receives, counted while programs run, next to the lower bound of any algorithm.
//!
//! The bounds are those of H. Al Daas et al., "Tight memory-independent parallel matrix multiplication communication
//! lower bounds", SPAA 2022, and G. Ballard, N. Knight and K. Rouse, "Communication lower bounds for matricized tensor
//! times Khatri-Rao product", IPDPS 2018.

use crate::schedules::{grid, mttkrp};
use polyshard::prelude::*;
use polyshard_testing::bench::products::Sizes;
use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::filled::inputs;

/// Products: extents m, n and k, and the grid with the least traffic.
const PRODUCTS: [([usize; 3], [usize; 3]); 17] = [
    ([4096, 4096, 4096], [2, 2, 1]),
    ([4096, 4096, 4096], [3, 2, 1]),
    ([4096, 4096, 4096], [2, 2, 2]),
    ([4096, 4096, 4096], [4, 2, 2]),
    ([4096, 4096, 4096], [4, 3, 3]),
    ([4096, 4096, 4096], [4, 4, 4]),
    ([9600, 2400, 600], [4, 1, 1]),
    ([9600, 2400, 600], [12, 3, 1]),
    ([1024, 256, 64], [4, 1, 1]),
    ([1024, 256, 64], [8, 2, 1]),
    ([1024, 256, 64], [16, 4, 1]),
    ([1024, 256, 64], [32, 8, 2]),
    ([32768, 1024, 1024], [16, 1, 1]),
    ([32768, 1024, 1024], [32, 2, 1]),
    // Poor grids also move the words of their formula.
    ([1024, 256, 64], [1, 4, 4]),
    ([1024, 256, 64], [1, 1, 8]),
    ([1024, 256, 64], [2, 16, 1]),
];

/// MTTKRP: extents of the tensor, columns, and the grid for columns and indices.
const FACTORS: [([usize; 3], usize, [usize; 4]); 4] = [
    ([432, 432, 432], 42, [1, 2, 2, 2]),
    ([704, 704, 704], 68, [1, 4, 4, 4]),
    ([64, 64, 64], 4096, [8, 2, 2, 2]),
    ([240, 240, 240], 48, [1, 2, 2, 3]),
];

/// Prints the words of each case: counted, by the grid's formula, and the bound. Extents of the largest products are
/// divided by `scale`, which changes no ratio.
pub(crate) fn measure(scale: usize) -> polyshard::Result<()> {
    for (extents, mesh) in PRODUCTS {
        let large = extents[0] >= 4096;
        let scale = if large { scale } else { 1 };
        // Extents that the mesh divides, so that no tile is ragged.
        let ranks: usize = mesh.iter().product();
        let extents = extents.map(|extent| (extent / scale).next_multiple_of(if large { ranks } else { 1 }));
        let [m, n, k] = extents.map(|extent| extent as f64);
        let [p, q, r] = mesh.map(|extent| extent as f64);
        let formula = m * k / (p * r) + k * n / (r * q) + m * n / (p * q) - (m * k + k * n + m * n) / (p * q * r);
        let [m, n, k] = extents;
        let found = counted(&grid::<f32>(mesh, Sizes { m, k, n }))?;
        print("product", &mesh, &extents, found, formula, product_bound(extents, p * q * r));
    }
    for (extents, columns, mesh) in FACTORS {
        let [i1, i2, i3] = extents.map(|extent| extent as f64);
        let [p0, p1, p2, p3] = mesh.map(|extent| extent as f64);
        let (ranks, all, r) = (p0 * p1 * p2 * p3, i1 * i2 * i3, columns as f64);
        let factors = i1 * r / (p1 * p0) + i2 * r / (p2 * p0) + i3 * r / (p3 * p0);
        let formula = all * p0 / ranks - all / ranks + factors - r * (i1 + i2 + i3) / ranks;
        let shape = [extents[0], extents[1], extents[2], columns];
        let found = counted(&mttkrp::<f32>(mesh, shape))?;
        print("mttkrp", &mesh, &shape, found, formula, mttkrp_bound([i1, i2, i3], r, ranks));
    }
    Ok(())
}

/// The maximum number of elements that a rank receives.
fn counted(schedule: &Schedule) -> polyshard::Result<f64> {
    let program = schedule.lower()?;
    let ranks = program.mesh().size();
    let received = polyshard::spmd(ranks, |world| {
        let inputs = inputs(world, &program, |_, index| index.iter().sum::<usize>() as f32)?;
        let before = world.bytes_received();
        program.run(world, &inputs.iter().collect::<Vec<_>>())?;
        Ok(world.bytes_received() - before)
    })?;
    let most = received.into_iter().max().unwrap_or(0);
    Ok(most as f64 / size_of::<f32>() as f64)
}

/// W >= D - (mn + mk + nk)/P.
fn product_bound(mut extents: [usize; 3], ranks: f64) -> f64 {
    extents.sort_unstable_by(|a, b| b.cmp(a));
    let [m, n, k] = extents.map(|extent| extent as f64);
    let touched = if ranks <= m / n {
        (m * n + m * k) / ranks + n * k
    } else if ranks <= m * n / (k * k) {
        2.0 * (m * n * k * k / ranks).sqrt() + m * n / ranks
    } else {
        3.0 * (m * n * k / ranks).powf(2.0 / 3.0)
    };
    touched - (m * n + m * k + n * k) / ranks
}

fn mttkrp_bound(mut extents: [f64; 3], columns: f64, ranks: f64) -> f64 {
    extents.sort_unstable_by(|a, b| b.total_cmp(a));
    let [i1, i2, i3] = extents;
    let (all, own) = (i1 * i2 * i3, columns * (i1 + i2 + i3) / ranks);
    if 2.0 * columns > (all / ranks).powf(2.0 / 3.0) {
        // The tensor moves too.
        return 2.5 * (2.0 * all * columns / ranks).powf(3.0 / 5.0) - all / ranks - own;
    }
    if ranks <= i1 / i2 {
        columns * (i2 + i3) * (1.0 - 1.0 / ranks)
    } else if ranks <= i1 * i2 / (i3 * i3) {
        2.0 * columns * (i1 * i2 / ranks).sqrt() + columns * i3 - own
    } else {
        3.0 * columns * (all / ranks).cbrt() - own
    }
}

fn print(kernel: &str, mesh: &[usize], extents: &[usize], counted: f64, formula: f64, bound: f64) {
    let by = |extents: &[usize]| extents.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    for (contestant, value) in [("counted", counted), ("formula", formula), ("bound", bound)] {
        let case = Case { backend: "words".into(), grid: by(mesh), dtype: kernel.into(), size: by(extents) };
        println!("{}", Record { quantity: "words".into(), case, contestant: contestant.into(), value });
    }
}
