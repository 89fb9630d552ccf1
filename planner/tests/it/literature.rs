//! The worked answers of J. Austin et al., "How to Scale Your Model", part 3, on collectives: a pop quiz and questions 2, 3 and
//! 10. Those on products are in `cli/tests/it/placement/literature.rs`. Question 8 asks to measure collectives on a machine.
//!
//! The answers are those written by hand into a reader's copy. Where one is wrong the test says why. By hand a gather on a
//! ring of `n` takes `V / 2w`; here it is `(n - 1) / n` of that, what a device has not, and latency comes on top of it.

use polyshard_layout::Mesh;
use polyshard_machine::{Algorithm, Collective, GroupedCollective};
use polyshard_planner::placement::PlacedMesh;

fn torus(name: &str, mesh: &Mesh) -> PlacedMesh {
    PlacedMesh::on_torus(mesh, name).expect("it fits")
}

/// The transfer time and the latency, in seconds, of a collective along `axes` in which each device starts with `bytes` bytes.
fn seconds(placed: &PlacedMesh, operation: Collective, axes: &[&str], bytes: u128) -> (f64, f64) {
    let groups = placed.groups(axes).expect("axes");
    let collective = GroupedCollective { operation, groups, bytes: bytes as f64 };
    let taken = polyshard_machine::seconds(placed.machine(), &collective, Algorithm::Ring).expect("a collective");
    (taken.transfer, taken.latency)
}

#[track_caller]
fn near(seconds: f64, expected: f64) {
    assert!((seconds - expected).abs() < 1e-3 * expected, "{seconds} s, not {expected}");
}

#[test]
fn pop_quiz_a_gather_without_wraparound() {
    let mesh = Mesh::new([("X", 8), ("Y", 4)]);
    // bf16[E_Y, F]
    let gather =
        |e: u128, f: u128| seconds(&torus("tpu-v5e", &mesh), Collective::AllGather, &["Y"], 2 * e.div_ceil(4) * f);
    // By hand 32 MiB / 9e10 = "350 ns". That is 370 us; and axes of a v5e wrap around at 16 only, as the margin says,
    // so shards of 8 MiB go three hops in one direction each: 3 * 8 MiB / 4.5e10.
    let (transfer, latency) = gather(2048, 8192);
    near(transfer, 559.2e-6);
    near(latency, 3e-6);
    // The second half is not answered by hand: 32 KiB take 0.55 us, less than three hops.
    near(gather(256, 256).0, 3.0 * 32_768.0 / 4.5e10);
}

#[test]
fn question_2_gathers_on_a_torus() {
    let mesh = Mesh::new([("X", 4), ("Y", 4), ("Z", 4)]);
    let v4p = torus("tpu-v4p", &mesh);
    // bf16[B_X, D_Y]
    let bytes = 2 * 1024 / 4 * 4096 / 4;
    // By hand 44 us, with the bandwidth of one direction, although axes of 4 wrap around on a v4p and the next part
    // takes both directions. The answer that is struck out there, 22 us, was right but for 2 MiB = 2^21 bytes.
    near(seconds(&v4p, Collective::AllGather, &["X"], bytes).0, 0.75 * 23.30e-6);
    // By hand 44 us, from 4 * 10^6 bytes; 2^22 elements of two bytes over two axes take 46.6 us, 15/16 of it here.
    near(seconds(&v4p, Collective::AllGather, &["X", "Y"], bytes).0, 0.9375 * 46.60e-6);
    // By hand 11 us, from 10^6 bytes; 2 * 2^19 bytes take 11.65 us.
    near(seconds(&v4p, Collective::AllReduce, &["Z"], bytes).0, 0.75 * 11.65e-6);
}

#[test]
fn question_3_a_gather_that_is_latency() {
    let mesh = Mesh::new([("X", 4), ("Y", 4), ("Z", 4)]);
    let (transfer, latency) = seconds(&torus("tpu-v4p", &mesh), Collective::AllGather, &["X"], 64);
    // Two hops of 1 us, as by hand. The transfer there, "2.5e-4 us", is 256 / 9e10 = 2.8e-3 us; it does not matter.
    near(latency, 2e-6);
    near(transfer, 0.75 * 256.0 / 9e10);
}

#[test]
fn question_10_an_all_to_all_is_a_fourth_of_a_gather() {
    // By hand D^2 / 8 chunks, left from D/2 (D/2 + 1) / 2; and there is N / D^2 where N^2 / D^2 is meant.
    for ranks in [4usize, 8, 16] {
        let mesh = Mesh::new([("X", ranks)]);
        let v4p = torus("tpu-v4p", &mesh);
        let bytes = 4096 * 4096 * 2 / ranks as u128;
        let [gather, exchange] =
            [Collective::AllGather, Collective::AllToAll].map(|op| seconds(&v4p, op, &["X"], bytes).0);
        // Here a gather moves (n - 1) / n of the bytes that the literature counts.
        near(gather * ranks as f64 / (ranks as f64 - 1.0), 4.0 * exchange);
    }
    // The literature's text once calls it a fourth of an AllReduce, which costs twice a gather: it is an eighth.
    let mesh = Mesh::new([("X", 16)]);
    let v4p = torus("tpu-v4p", &mesh);
    let whole = 4096 * 4096 * 2;
    let exchange = seconds(&v4p, Collective::AllToAll, &["X"], whole / 16).0;
    near(seconds(&v4p, Collective::AllReduce, &["X"], whole).0 * 16.0 / 15.0, 8.0 * exchange);
}
