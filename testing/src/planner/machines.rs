//! Random machines.

use polyshard_machine::{Device, Interconnect, Level, Machine, Products};
use proptest::prelude::*;

/// Machines of one to three levels of all kinds, with names that need quotes.
pub fn machines() -> impl Strategy<Value = Machine> {
    let rate = || (1.0f64..10.0, 3i32..13).prop_map(|(digits, power)| digits * 10f64.powi(power));
    let wires = prop_oneof![
        Just(Interconnect::Switch),
        Just(Interconnect::Ring),
        Just(Interconnect::Line),
        prop::collection::vec(1usize..5, 1..4).prop_map(Interconnect::Torus),
    ];
    let level = (wires, 1usize..6, rate(), 0.0f64..1e-3, prop::option::of(1usize..4), prop::option::of(rate()));
    let level = level.prop_map(|(interconnect, count, bandwidth, latency, shared_ports, bypass)| {
        let count = if let Interconnect::Torus(extents) = &interconnect { extents.iter().product() } else { count };
        let bypass = bypass.filter(|_| matches!(interconnect, Interconnect::Ring | Interconnect::Line));
        Level { name: String::new(), count, interconnect, bandwidth, latency, shared_ports, bypass }
    });
    let measured =
        || prop::collection::btree_map(1usize..64, rate(), 0..3).prop_map(|found| found.into_iter().collect());
    let products = (0.0f64..1e-5, measured(), measured(), measured())
        .prop_map(|(latency, rows, columns, depth)| Products { latency, rows, columns, depth });
    let products = prop::collection::btree_map("[a-z][a-z0-9_. \"]{0,6}", products, 0..3);
    let rates = || prop::collection::btree_map("[a-z][a-z0-9_. \"]{0,6}", rate(), 0..4);
    let latency = || prop_oneof![Just(0.0), 0.0f64..1e-3];
    let two = || (prop::option::of(rate()), prop::option::of(rate()));
    let others = (two(), [latency(), latency()], two());
    let device = (
        rate(),
        prop::option::of(rate()),
        1u64..1 << 62,
        latency(),
        (rates(), rates()),
        (products, any::<bool>()),
        others,
    );
    let device = device.prop_map(
        |(
            memory_bandwidth,
            memory_alone,
            memory_capacity,
            row_latency,
            (flops, nests),
            (products, streams),
            others,
        )| {
            let ((memory_of_others, write_bandwidth), [in_place_latency, packing_latency], packing) = others;
            let (packing_bandwidth, transposing_bandwidth) = packing;
            Device {
                memory_bandwidth,
                memory_alone,
                memory_of_others,
                write_bandwidth,
                in_place_latency,
                packing_bandwidth,
                packing_latency,
                transposing_bandwidth,
                memory_capacity,
                row_latency,
                flops,
                nests,
                products,
                streams,
            }
        },
    );
    ("[ -~äß\n]{0,12}", prop::collection::vec(level, 1..4), device).prop_map(|(name, mut levels, device)| {
        levels.iter_mut().enumerate().for_each(|(nth, level)| level.name = format!("level \"{nth}\""));
        Machine::new(name, levels, device).expect("a machine")
    })
}
