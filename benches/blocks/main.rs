//! The benchmark of blocks of several statements: in passes over memory, apart, and beside what bounds them.
//!
//! | part | prints seconds of |
//! | --- | --- |
//! | `cg` | a round of conjugate gradients: in passes, apart, and as three loops by hand |
//! | `rows` | softmax and layer norm of rows: in passes, apart; passes over memory, and the exponentials alone |
//! | `mlp` | a layer with bias and ReLU, and its product alone, twice |
//! | `attention` | attention of several heads, and its two products and its exponentials alone |
//! | `table` | the table, from the lines printed by the other parts |

mod contestants;
mod hand;

use clap::Subcommand;
use polyshard_testing::bench::part;
use polyshard_testing::bench::record::Record;
use polyshard_testing::bench::tabulate::{first_seen, median_of, read, verdict};

/// Measures blocks.
#[derive(Subcommand)]
enum Part {
    /// A round of conjugate gradients.
    Cg(Sizes),
    /// Softmax and layer norm.
    Rows(Sizes),
    /// A layer with bias and ReLU.
    Mlp(Sizes),
    /// Attention.
    Attention(Sizes),
    /// Prints the table of the lines on standard input.
    Table,
}

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Sizes {
    /// The ranks, threads.
    #[arg(long)]
    pub(crate) ranks: usize,
    /// The extent of the arrays.
    #[arg(long)]
    pub(crate) size: usize,
    /// Timed runs of each, after one that is not timed.
    #[arg(long, default_value_t = 7)]
    pub(crate) runs: usize,
}

/// A figure: the seconds of a contestant are at most this many times those of others together.
struct Figure {
    contestant: &'static str,
    others: &'static [&'static str],
    /// Whether the largest of the others counts, not their sum.
    largest: bool,
    most: f64,
}

const FIGURES: [Figure; 7] = [
    Figure { contestant: "cg:passes", others: &["cg:hand"], largest: false, most: 1.15 },
    Figure { contestant: "cg:passes", others: &["cg:apart"], largest: false, most: 1.1 * 12.0 / 18.0 },
    Figure { contestant: "softmax:passes", others: &["softmax:memory", "softmax:exp"], largest: true, most: 1.25 },
    Figure { contestant: "layernorm:passes", others: &["layernorm:memory"], largest: true, most: 1.25 },
    Figure { contestant: "mlp:layer", others: &["mlp:product"], largest: false, most: 1.05 },
    Figure { contestant: "mlp:again", others: &["mlp:product"], largest: false, most: 1.05 },
    Figure {
        contestant: "attention:passes",
        others: &["attention:products", "attention:exp"],
        largest: false,
        most: 1.3,
    },
];

fn main() -> polyshard::Result<()> {
    match part() {
        None => Ok(()),
        Some(Part::Cg(sizes)) => contestants::cg(&sizes),
        Some(Part::Rows(sizes)) => contestants::rows(&sizes),
        Some(Part::Mlp(sizes)) => contestants::mlp(&sizes),
        Some(Part::Attention(sizes)) => contestants::attention(&sizes),
        Some(Part::Table) => {
            table(&read());
            Ok(())
        }
    }
}

/// Prints the medians, and each figure beside its target.
fn table(records: &[Record]) {
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        println!("{} ranks, {}, {}", case.grid, case.dtype, case.size);
        for contestant in first_seen(records.iter().filter(|one| one.case == case).map(|one| &one.contestant)) {
            let seconds = median_of(records, &case, contestant).expect("it was measured");
            println!("  {contestant:24} {:9.3} ms", 1e3 * seconds);
        }
        for Figure { contestant, others: names, largest, most } in FIGURES {
            let seconds = |name: &str| median_of(records, &case, name);
            let others: Option<Vec<f64>> = names.iter().map(|name| seconds(name)).collect();
            let Some((own, others)) = seconds(contestant).zip(others) else { continue };
            let bound = if largest { others.into_iter().fold(0.0, f64::max) } else { others.iter().sum() };
            let (ratio, joined) = (own / bound, names.join(if largest { " or " } else { " and " }));
            println!("  {contestant} over {joined}: {ratio:.2}, at most {most:.2}: {}", verdict(ratio <= most));
        }
    }
}
