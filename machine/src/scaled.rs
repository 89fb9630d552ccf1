//! Machines on which one element type stands for another, so that programs can be priced in types that they cannot compute in.
//! Tests: `cli/tests/it/placement/products.rs`.

use crate::{Level, Machine, Profile};
use polyshard_layout::DType;
use std::collections::BTreeMap;

impl Machine {
    /// Returns the machine on which a program takes as long over elements of `computed` as it would take here over elements of
    /// `dtype`: with the operations per second of `dtype`, and with bandwidths and memory by the ratio of their bytes.
    ///
    /// ```
    /// use polyshard::planner::{cost, redistribution};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 4)]);
    /// let [rows, columns] = [0, 1].map(|dim| Sharding::new(&mesh, &[512, 512], &[Placement::block(dim, "x")]));
    /// let (rows, columns) = (rows?, columns?);
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let half = cost(&redistribution(&rows, &columns, DType::Bf16)?, &machine)?;
    /// let whole = cost(&redistribution(&rows, &columns, DType::F32)?, &machine.scaled(DType::F32, DType::Bf16))?;
    /// assert_eq!((half.seconds(), 2 * half.received), (whole.seconds(), whole.received));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn scaled(&self, computed: DType, dtype: DType) -> Self {
        let factor = computed.size() as f64 / dtype.size() as f64;
        let mut device = self.device.clone();
        device.memory_bandwidth *= factor;
        let stated = [
            &mut device.memory_alone,
            &mut device.memory_of_others,
            &mut device.write_bandwidth,
            &mut device.packing_bandwidth,
            &mut device.transposing_bandwidth,
        ];
        stated.into_iter().flatten().for_each(|bandwidth| *bandwidth *= factor);
        device.memory_capacity = (device.memory_capacity as f64 * factor) as u64;
        device.flops = renamed(device.flops, dtype, computed);
        device.nests = renamed(device.nests, dtype, computed);
        device.products = renamed(device.products, dtype, computed);
        let level = |level: &Level| Level {
            bandwidth: level.bandwidth * factor,
            bypass: level.bypass.map(|bandwidth| bandwidth * factor),
            ..level.clone()
        };
        let profile = |profile: &Profile| Profile {
            bytes: profile.bytes.iter().map(|bytes| bytes * factor).collect(),
            ..profile.clone()
        };
        let (levels, profiles) = (self.levels.iter().map(level).collect(), self.profiles.iter().map(profile).collect());
        Self { device, levels, profiles, ..self.clone() }
    }
}

/// The figure of one type, as that of another.
fn renamed<T>(mut figures: BTreeMap<String, T>, from: DType, to: DType) -> BTreeMap<String, T> {
    figures.remove(from.name()).map(|figure| (to.name().to_owned(), figure)).into_iter().collect()
}
