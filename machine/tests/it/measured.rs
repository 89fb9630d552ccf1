//! Links and profiles from measured seconds: fits recover the figures that made the seconds, and invalid input is
//! refused.

use expect_test::expect;
use polyshard_machine::{
    Algorithm, Collective, Device, GroupedCollective, Interconnect, Level, Machine, MachineError, Measurement, Profile,
    fit_link, fit_profiles, leave_one_out, seconds, seconds_of_messages,
};
use proptest::prelude::*;

const OPERATIONS: [Collective; 3] = [Collective::AllReduce, Collective::AllGather, Collective::AllToAll];

fn machine(ranks: usize) -> Machine {
    let level = Level::new("rank", ranks, Interconnect::Switch, 4e9, 2e-6);
    let device = Device { memory_bandwidth: 1e10, memory_capacity: 1 << 30, ..Device::default() };
    Machine::new("four", vec![level], device).unwrap()
}

fn collective(operation: Collective, ranks: usize, bytes: f64) -> GroupedCollective {
    GroupedCollective { operation, groups: vec![(0..ranks).collect()], bytes }
}

/// Measurements of a machine that takes `factor(bytes)` times its links' time.
fn measured(machine: &Machine, factor: impl Fn(f64) -> f64) -> Vec<Measurement> {
    let mut all = Vec::new();
    for operation in OPERATIONS {
        for bytes in (10..=26).map(|power| f64::from(1 << power)) {
            let collective = collective(operation, machine.devices(), bytes);
            let links = seconds(machine, &collective, Algorithm::Ring).unwrap().total();
            all.push(Measurement { collective, algorithm: Algorithm::Ring, seconds: factor(bytes) * links });
        }
    }
    all
}

fn refused<T>(result: Result<T, MachineError>) -> String {
    format!("{}\n", result.err().expect("it should be refused"))
}

proptest! {
    /// The figures that made the seconds are recovered, also if some of the times are far off.
    #[test]
    fn a_link_is_found_from_its_times(latency in 1e-7..1e-3f64, bandwidth in 1e6..1e11f64, odd in 0usize..9) {
        let line = |bytes: f64| latency + bytes / bandwidth;
        let mut times: Vec<_> = (6..=26).step_by(2).map(|power| f64::from(1 << power)).map(|s| (s, line(s))).collect();
        times[odd].1 *= 3.0;
        let link = fit_link(&times).unwrap();
        // Latency and bandwidth can be separated only where each is a good part of some time.
        if line(64.0) < 2.0 * latency {
            prop_assert!((link.latency / latency - 1.0).abs() < 0.02, "{link:?}");
        }
        if line(67e6) > 2.0 * latency {
            prop_assert!((link.bandwidth / bandwidth - 1.0).abs() < 0.02, "{link:?}");
        }
    }

    /// A machine with fitted profiles predicts the measurements, whatever they were, and reads as it was written.
    #[test]
    fn profiles_predict_what_they_were_fitted_to(
        ranks in 2usize..6,
        factors in prop::collection::vec(0.01..100.0f64, 17),
    ) {
        let all = measured(&machine(ranks), |bytes| factors[bytes.log2() as usize - 10]);
        let fitted = fit_profiles(&machine(ranks), &all).unwrap();
        for one in &all {
            let predicted = seconds(&fitted, &one.collective, one.algorithm).unwrap().total();
            prop_assert!((predicted / one.seconds - 1.0).abs() < 1e-9);
        }
        prop_assert_eq!(Machine::from_toml(&fitted.to_toml()).unwrap(), fitted);
    }

    /// Between sizes a factor is between its neighbours'; beyond them it is that of the last.
    #[test]
    fn factors_stay_between_those_that_were_measured(bytes in 1.0..1e12f64, low in 0.1..10.0f64, high in 0.1..10.0f64) {
        let (bytes_, factor) = (vec![1e3, 1e6], vec![low, high]);
        let profile = Profile { operation: Collective::Reduce, ranks: 2, bytes: bytes_, factor };
        let at = profile.at(bytes);
        prop_assert!(at >= low.min(high) * (1.0 - 1e-12) && at <= low.max(high) * (1.0 + 1e-12));
        if !(1e3..=1e6).contains(&bytes) {
            prop_assert_eq!(at, if bytes < 1e3 { low } else { high });
        }
    }
}

#[test]
fn a_measurement_that_is_left_out_is_predicted_from_its_neighbours() {
    // A power of the size is a line on logarithmic scales, so all predictions but those of the ends are exact.
    let all = measured(&machine(4), |bytes| (bytes / 1024.0).powf(0.125));
    let predicted = leave_one_out(&machine(4), &all).unwrap();
    for (one, predicted) in all.iter().zip(predicted) {
        let end = [1024.0, f64::from(1 << 26)].contains(&one.collective.bytes);
        let off = (predicted / one.seconds).ln().abs();
        let expected = if end { 0.125 * 2f64.ln() } else { 0.0 };
        assert!((off - expected).abs() < 1e-9, "{one:?}: {predicted}");
    }
}

#[test]
fn an_operation_that_was_not_measured_takes_what_its_links_take() {
    let fitted = fit_profiles(&machine(4), &measured(&machine(4), |_| 2.0)).unwrap();
    let total = |machine: &Machine, operation| {
        seconds(machine, &collective(operation, 4, 1e5), Algorithm::Ring).unwrap().total()
    };
    assert_eq!(total(&fitted, Collective::Reduce), total(&machine(4), Collective::Reduce));
    let twice = total(&fitted, Collective::AllReduce) / total(&machine(4), Collective::AllReduce);
    assert!((twice - 2.0).abs() < 1e-12);
}

#[test]
fn messages_take_the_factor_of_an_exchange_among_as_many_ranks() {
    let profile = |ranks, factor| Profile {
        operation: Collective::Exchange,
        ranks,
        bytes: vec![1e3, 1e9],
        factor: vec![factor, 10.0 * factor],
    };
    let profiled = machine(4).with_profiles(vec![profile(2, 2.0), profile(4, 3.0)]).unwrap();
    // All send 2 KB to each other: an exchange of 8 KB, of which a part stays.
    let all = (0..4).flat_map(|from| (0..4).map(move |to| (from, to, 2e3))).collect::<Vec<_>>();
    let exchange = seconds(&profiled, &collective(Collective::Exchange, 4, 8e3), Algorithm::Ring).unwrap();
    assert!((seconds_of_messages(&profiled, &all).unwrap().total() / exchange.total() - 1.0).abs() < 1e-9);
    // Two ranks that exchange 4 KB have 8 KB of which they swap a half.
    let two = [(1, 2, 4e3), (2, 1, 4e3)];
    let factor =
        seconds_of_messages(&profiled, &two).unwrap().total() / seconds_of_messages(&machine(4), &two).unwrap().total();
    assert!((factor / profile(2, 2.0).at(8e3) - 1.0).abs() < 1e-9, "{factor}");
    // A message to oneself takes no time.
    assert_eq!(seconds_of_messages(&profiled, &[(1, 1, 4e3)]).unwrap().total(), 0.0);
}

#[test]
fn groups_that_were_not_measured_take_the_factors_of_the_nearest() {
    let profile =
        |ranks, factor| Profile { operation: Collective::Reduce, ranks, bytes: vec![1.0], factor: vec![factor] };
    let profiled = machine(64).with_profiles(vec![profile(2, 2.0), profile(16, 3.0)]).unwrap();
    let factor = |ranks| {
        let collective = collective(Collective::Reduce, ranks, 1e3);
        let total = |machine: &Machine| seconds(machine, &collective, Algorithm::Ring).unwrap().total();
        (total(&profiled) / total(&machine(64)) * 1e9).round() / 1e9
    };
    assert_eq!([2, 3, 5, 6, 16, 64].map(factor), [2.0, 2.0, 2.0, 3.0, 3.0, 3.0]);
}

#[test]
fn several_measurements_of_one_size_count_by_their_mean() {
    let mut all = measured(&machine(2), |_| 1.0);
    all.extend(measured(&machine(2), |_| 4.0));
    let fitted = fit_profiles(&machine(2), &all).unwrap();
    assert!(fitted.profiles().iter().all(|profile| profile.bytes.len() == 17));
    assert!(fitted.profiles().iter().flat_map(|profile| &profile.factor).all(|factor| (factor - 2.0).abs() < 1e-9));
}

#[test]
fn messages_of_one_size_or_without_growth_are_all_bandwidth() {
    for times in [vec![(1e6, 1e-3)], vec![(1e6, 1e-3); 4], vec![(1e3, 2e-6), (1e6, 1e-6)]] {
        let link = fit_link(&times).unwrap();
        assert_eq!(link.latency, 0.0, "{times:?}");
        assert!(link.bandwidth > 0.0 && link.bandwidth.is_finite(), "{times:?}");
    }
    assert!((fit_link(&[(1e6, 1e-3)]).unwrap().bandwidth / 1e9 - 1.0).abs() < 1e-12);
}

#[test]
fn times_that_say_nothing_are_refused() {
    let mut all = measured(&machine(2), |_| 1.0);
    let mut other = all.clone();
    all[3].seconds = -1.0;
    other[3].collective.groups = vec![vec![0, 7]];
    let refusals = [
        refused(fit_link(&[])),
        refused(fit_link(&[(8.0, 1e-6), (16.0, 0.0)])),
        refused(fit_profiles(&machine(2), &all)),
        refused(fit_profiles(&machine(2), &other)),
    ]
    .concat();
    expect![[r#"
        measurement 0 cannot be fitted: all messages are empty; measure at least one with data
        measurement 1 cannot be fitted: 16 bytes took 0 s; leave it out
        measurement 3 cannot be fitted: it took -1 s for 8192 bytes, but its links predict 0.000006048 s; leave it out
        group [0, 7] has rank 7, but the machine `four` has ranks 0..2
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn profiles_that_are_none_are_refused() {
    let check = |bytes: &[f64], factor: &[f64]| {
        let profile =
            Profile { operation: Collective::Reduce, ranks: 2, bytes: bytes.to_vec(), factor: factor.to_vec() };
        refused(machine(2).with_profiles(vec![profile]))
    };
    let profile = Profile { operation: Collective::Reduce, ranks: 3, bytes: vec![1.0], factor: vec![1.0] };
    let text = machine(2).to_toml() + "[[profile]]\noperation = \"Gather\"\nranks = 2\nbytes = [1.0]\nfactor = [1.0]\n";
    let said = Machine::from_toml(&text).unwrap_err().to_string();
    let refusals = [
        check(&[], &[]),
        check(&[1.0, 2.0], &[1.0]),
        check(&[1.0, 2.0], &[1.0, 0.0]),
        check(&[2.0, 2.0], &[1.0, 1.0]),
        refused(machine(2).with_profiles(vec![profile; 2])),
    ]
    .concat();
    expect![[r#"
        invalid profile of Reduce on 2 ranks: 0 sizes and 0 factors; give one factor for each size, at least one
        invalid profile of Reduce on 2 ranks: 2 sizes and 1 factor; give one factor for each size, at least one
        invalid profile of Reduce on 2 ranks: 0 is among its numbers; give positive numbers
        invalid profile of Reduce on 2 ranks: size 2 comes after 2; give increasing sizes
        invalid profile of Reduce on 3 ranks: it is given twice; give one
    "#]]
    .assert_eq(&refusals);
    assert!(said.contains("unknown variant `Gather`, expected one of `Slice`"), "{said}");
}
