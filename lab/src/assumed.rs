//! A machine that was not measured: its ranks are counted, its figures are typical of processors with its instructions.
//!
//! Good enough to distinguish microseconds from seconds, and to choose when a measurement would take longer than the computation.

use super::{Topology, probe};
use polyshard_machine::{Device, Link, Machine};
use polyshard_runtime::leaf::Vectors;
use polyshard_runtime::{Backend, DType, Result, World};
use std::collections::BTreeMap;

/// Operations per second of one core in products of matrices and in nests, in the order of [`DType::NATIVE`].
type Rates = [[f64; 4]; 2];

/// Rates of cores with these vectors.
fn rates(vectors: Vectors) -> Rates {
    match vectors {
        Vectors::Avx512 => [[1.1e11, 5.5e10, 2e10, 6e9], [8e9, 4e9, 8e9, 3e9]],
        Vectors::Avx2 => [[8e10, 4e10, 1.5e10, 4e9], [6e9, 3e9, 6e9, 2e9]],
        Vectors::Native if cfg!(target_arch = "aarch64") => [[4e10, 2e10, 1e10, 4e9], [4e9, 2e9, 4e9, 2e9]],
        Vectors::Native => [[1.2e10, 6e9, 4e9, 2e9], [2e9, 1e9, 2e9, 1e9]],
    }
}

/// Returns the machine that the ranks form, as far as it can be known without measuring.
pub(super) fn machine(world: &World, topology: &Topology) -> Result<Machine> {
    // Bytes per second and seconds, between nodes on an ordinary network and inside a node.
    let link = |level: &str| match (level, world.backend()) {
        ("node", _) => Link { bandwidth: 1.25e9, latency: 2e-5 },
        (_, Backend::Mpi) => Link { bandwidth: 4e9, latency: 2e-6 },
        (_, Backend::Threads) => Link { bandwidth: 4e9, latency: 4e-6 },
    };
    let level = |(name, count): (&str, usize)| probe::switch(name, count, link(name));
    // Ranks that share a core have a part of its rate each.
    let part = (topology.cores as f64 / topology.ranks_per_node as f64).min(1.0);
    let [flops, nests] = rates(Vectors::in_use()).map(|rates| {
        let of_type = DType::NATIVE.iter().zip(rates).map(|(dtype, rate)| (dtype.name().to_owned(), part * rate));
        of_type.collect()
    });
    let device = Device {
        memory_bandwidth: 8e9 * part,
        memory_alone: (topology.ranks_per_node > 1).then_some(1.2e10),
        in_place_latency: if topology.ranks_per_node > 1 { 1e-5 } else { 0.0 },
        memory_capacity: topology.memory / topology.ranks_per_node as u64,
        flops,
        nests,
        ..Device::default()
    };
    let machine = Machine::new("assumed", topology.levels().into_iter().map(level).collect(), device);
    probe::of_ranks(machine, topology)
}

/// Returns the device, completed where time was too short to measure: with figures of the `assumed` device, and for types that were
/// not measured in proportion to one that was.
pub(super) fn completed(measured: Device, assumed: &Device) -> Device {
    let is_known = |figure: &f64| figure.is_finite() && *figure > 0.0;
    let known = |figure: Option<f64>| figure.filter(is_known);
    let latency = |figure: f64, instead: f64| if figure.is_finite() { figure } else { instead };
    let rates = |measured: &BTreeMap<String, f64>, assumed: &BTreeMap<String, f64>| {
        let of = |dtype: &String| measured.get(dtype).copied().filter(is_known);
        let scale = ["f64", "f32"].map(str::to_owned).iter().find_map(|dtype| Some(of(dtype)? / assumed.get(dtype)?));
        let rate = |(dtype, rate): (&String, &f64)| (dtype.clone(), of(dtype).unwrap_or(rate * scale.unwrap_or(1.0)));
        assumed.iter().map(rate).collect()
    };
    let mut products = measured.products;
    for products in products.values_mut() {
        for list in [&mut products.rows, &mut products.columns, &mut products.depth] {
            list.retain(|(_, rate)| is_known(rate));
        }
    }
    products.retain(|_, products| products.latency.is_finite());
    let memory_bandwidth = known(Some(measured.memory_bandwidth));
    Device {
        memory_bandwidth: memory_bandwidth.unwrap_or(assumed.memory_bandwidth),
        memory_alone: known(measured.memory_alone).or(assumed.memory_alone.filter(|_| memory_bandwidth.is_none())),
        memory_of_others: known(measured.memory_of_others),
        write_bandwidth: known(measured.write_bandwidth),
        in_place_latency: latency(measured.in_place_latency, assumed.in_place_latency),
        row_latency: latency(measured.row_latency, assumed.row_latency),
        flops: rates(&measured.flops, &assumed.flops),
        nests: rates(&measured.nests, &assumed.nests),
        products,
        packing_bandwidth: known(measured.packing_bandwidth),
        packing_latency: latency(measured.packing_latency, assumed.packing_latency),
        transposing_bandwidth: known(measured.transposing_bandwidth),
        ..measured
    }
}
