//! Detects from the environment whether an MPI launcher started this process.
//!
//! MPI itself cannot be asked without initialising it, which a plain `cargo run` should not do. Each launcher
//! sets variables of its own in the processes that it starts, and in no others.

/// The settings that an MPI launcher passed to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// The launcher's name, for messages.
    pub name: &'static str,
    /// The variable that identifies it.
    pub variable: &'static str,
    /// The number of processes that it started, if set.
    pub size: Option<usize>,
    /// The rank of this process among them, if set.
    pub rank: Option<usize>,
}

/// Returns the launcher of this process, if it was an MPI launcher.
pub fn launcher() -> Option<Launcher> {
    find(|name| std::env::var(name).ok())
}

/// A launcher, and the variables that it sets.
struct Variables {
    name: &'static str,
    /// The variable that no other launcher sets.
    own: &'static str,
    rank: &'static str,
    size: &'static str,
}

/// A launcher identified by the variable that holds the rank.
const fn by_rank(name: &'static str, rank: &'static str, size: &'static str) -> Variables {
    Variables { name, own: rank, rank, size }
}

/// A step of Slurm, which counts as a launcher if it has several tasks.
const STEP: &str = "SLURM_STEP_ID";
const TASKS: &str = "SLURM_STEP_NUM_TASKS";

const LAUNCHERS: [Variables; 5] = [
    by_rank("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    by_rank("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    // Hydra of MPICH and Intel MPI, `srun --mpi=pmi2`, and Cray's launcher.
    by_rank("an MPI launcher (PMI)", "PMI_RANK", "PMI_SIZE"),
    by_rank("an MPI launcher (PMIx)", "PMIX_RANK", "PMIX_SIZE"),
    Variables { name: "Slurm's `srun`", own: STEP, rank: "SLURM_PROCID", size: TASKS },
];

fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Launcher> {
    let number = |name: &str| variable(name).and_then(|number| number.parse().ok());
    LAUNCHERS.iter().find_map(|launcher| {
        variable(launcher.own)?;
        // `srun --mpi=pmix` sets the rank by PMIx, but the number of ranks by Slurm's variables only.
        let (size, rank) = (number(launcher.size).or_else(|| number(TASKS)), number(launcher.rank));
        // Shells and batch scripts inside an allocation are steps of one task, not MPI programs.
        if launcher.own == STEP && size.is_none_or(|size| size < 2) {
            return None;
        }
        Some(Launcher { name: launcher.name, variable: launcher.own, size, rank })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launcher's variable, the number of processes and the rank of this process.
    type Known<'a> = (&'a str, Option<usize>, Option<usize>);

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Option<Known<'_>>) {
        let found = find(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()));
        assert_eq!(found.map(|launcher| (launcher.variable, launcher.size, launcher.rank)), expected);
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        check(&[("HOME", "/root")], None);
        check(
            &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0")],
            Some(("OMPI_COMM_WORLD_RANK", Some(4), Some(0))),
        );
        check(&[("PMI_RANK", "3"), ("PMI_SIZE", "8")], Some(("PMI_RANK", Some(8), Some(3))));
        check(&[("PMIX_RANK", "3")], Some(("PMIX_RANK", None, Some(3))));
        check(
            &[("PMIX_RANK", "3"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "8")],
            Some(("PMIX_RANK", Some(8), Some(3))),
        );
    }

    #[test]
    fn a_slurm_allocation_is_no_launcher_but_a_step_of_several_tasks_is() {
        check(&[("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], None);
        check(&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1")], None);
        check(
            &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "2")],
            Some(("SLURM_STEP_ID", Some(4), Some(2))),
        );
    }
}
