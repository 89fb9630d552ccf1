//! Whether this process was started by an MPI launcher, found in its environment.
//!
//! MPI itself cannot be asked: to ask is to initialise it, which a plain `cargo run` should not do. Each
//! launcher sets variables of its own in the processes that it starts, and in no others.

/// What an MPI launcher said to the process that it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launcher {
    /// The launcher's name, for messages.
    pub(crate) name: &'static str,
    /// The variable that gave it away.
    pub(crate) variable: &'static str,
    /// The number of processes that it started, if it says so.
    pub(crate) size: Option<usize>,
}

/// Returns the launcher of this process, if it was an MPI launcher.
pub(crate) fn launcher() -> Option<Launcher> {
    find(|name| std::env::var(name).ok())
}

/// Launchers by the variable that names the rank and the one that names the number of ranks.
const LAUNCHERS: [(&str, &str, &str); 5] = [
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    // Hydra of MPICH and Intel MPI, `srun --mpi=pmi2`, and Cray's launcher.
    ("an MPI launcher (PMI)", "PMI_RANK", "PMI_SIZE"),
    ("an MPI launcher (PMIx)", "PMIX_RANK", "PMIX_SIZE"),
    ("Slurm's `srun`", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"),
];

fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Launcher> {
    LAUNCHERS.iter().find_map(|&(name, rank, size)| {
        variable(rank)?;
        let size = variable(size).and_then(|size| size.parse().ok());
        // Shells and batch scripts inside an allocation are steps of one task: no MPI program.
        if rank == "SLURM_STEP_ID" && size.is_none_or(|size| size < 2) {
            return None;
        }
        Some(Launcher { name, variable: rank, size })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Option<(&str, Option<usize>)>) {
        let found = find(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()));
        assert_eq!(found.map(|launcher| (launcher.variable, launcher.size)), expected);
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        check(&[("HOME", "/root")], None);
        check(
            &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0")],
            Some(("OMPI_COMM_WORLD_RANK", Some(4))),
        );
        check(&[("PMI_RANK", "3"), ("PMI_SIZE", "8")], Some(("PMI_RANK", Some(8))));
        check(&[("PMIX_RANK", "3")], Some(("PMIX_RANK", None)));
    }

    #[test]
    fn a_slurm_allocation_is_no_launcher_but_a_step_of_several_tasks_is() {
        check(&[("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], None);
        check(&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1")], None);
        check(&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")], Some(("SLURM_STEP_ID", Some(4))));
    }
}
