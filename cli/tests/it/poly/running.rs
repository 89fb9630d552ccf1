//! Files with running reductions give the results of plain loops.

use super::*;
use polyshard::ndarray::ArrayD;
use polyshard::runtime::NpyFile;

fn read(path: &str) -> ArrayD<f64> {
    NpyFile::open(path).expect("the file is there").read().expect("it is an array")
}

/// Runs an example and returns its result.
fn result(folder: &Folder, name: &str, arrays: &[String], values: &[&str]) -> ArrayD<f64> {
    let out = folder.path("out.npy");
    COMMAND_LINE.said(Start::Plain, &words(&["run", &example(name)], arrays, &[&["--out", &out], values].concat()));
    read(&out)
}

#[track_caller]
fn close(found: &ArrayD<f64>, expected: impl Fn(&[usize]) -> f64) {
    for (at, found) in found.indexed_iter() {
        let expected = expected(polyshard::ndarray::Dimension::slice(&at));
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected} at {at:?}");
    }
}

#[test]
fn attention_in_a_ring_is_that_of_plain_loops_with_and_without_a_mask() {
    let folder = Folder(test_folder!("poly_ring_loops"));
    // Ranks have fewer queries or keys than others, or none.
    for shapes in [["2,8,4", "2,12,4", "2,12,3"], ["3,9,2", "3,7,2", "3,7,5"], ["1,2,3", "1,3,3", "1,3,1"]] {
        let arrays = folder.arrays("f64", &shapes);
        let [q, k, v] = [0, 1, 2].map(|nth| read(&arrays[nth]));
        for causal in [false, true] {
            let values = ["--let", "scale=0.5", "--let", if causal { "causal=1" } else { "causal=0" }];
            let found = result(&folder, "ring", &arrays, &values);
            assert_eq!(found.shape(), [q.shape()[0], q.shape()[1], v.shape()[2]]);
            close(&found, |at| {
                let keys = 0..if causal { k.shape()[1].min(at[1] + 1) } else { k.shape()[1] };
                let score = |j| 0.5 * (0..q.shape()[2]).map(|c| q[[at[0], at[1], c]] * k[[at[0], j, c]]).sum::<f64>();
                let weighted = keys.clone().map(|j| score(j).exp() * v[[at[0], j, at[2]]]).sum::<f64>();
                weighted / keys.map(|j| score(j).exp()).sum::<f64>()
            });
        }
    }
}

#[test]
fn centres_of_clusters_are_the_means_of_the_points_that_are_nearest() {
    let folder = Folder(test_folder!("poly_kmeans_loops"));
    // The second one has fewer points than clusters.
    for shapes in [["40,2", "6,2"], ["3,1", "7,1"], ["13,3", "1,3"]] {
        let arrays = folder.arrays("f64", &shapes);
        let [points, begin] = [0, 1].map(|nth| read(&arrays[nth]));
        let found = result(&folder, "kmeans", &arrays, &["--let", "rounds=100"]);
        let &[n, d] = points.shape() else { unreachable!("points are rows") };
        let nearest = |i: usize| {
            let squared = |c: usize| (0..d).map(|f| (points[[i, f]] - found[[c, f]]).powi(2)).sum::<f64>();
            (0..begin.shape()[0]).min_by(|&a, &b| squared(a).total_cmp(&squared(b))).expect("a cluster")
        };
        let clusters: Vec<usize> = (0..n).map(nearest).collect();
        close(&found, |at| {
            let members: Vec<_> = (0..n).filter(|&i| clusters[i] == at[0]).map(|i| points[[i, at[1]]]).collect();
            // Of these centres, none loses all its points: those without any have never moved.
            if members.is_empty() { begin[at] } else { members.iter().sum::<f64>() / members.len() as f64 }
        });
    }
}
