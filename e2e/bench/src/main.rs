//! Benchmarks of the rollout, of its decisions and of its shell: `cargo xtask bench`.
//!
//! ```text
//!   this process ── the module is changed ──► muster's Module controller ─┐
//!        │                                    or the perfect controller ──┴─► rows of ProxyAssemblages (a real kube-apiserver)
//!        └── answers each row after a while, as a cluster would; sees when all have answered
//! ```
//!
//! Both controllers are processes of their own, of this same program. The perfect one reads nothing and decides nothing: it writes one patch for
//! each cluster, by eight writers, and hears of the answers by a watch.

mod agents;
mod controller;
mod decisions;
mod fleet;
mod many;
mod meter;
mod nodes;
mod perfect;
mod report;
mod side;
mod upgrades;
mod usage;
mod workload;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// As in `muster`.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "muster-bench")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Runs the workloads, beside the perfect controller, and prints a table
    Run(Plan),
    /// Rolls a NodeModule over many played nodes, and prints what it took
    Nodes(nodes::Plan),
    /// Rolls a Kubernetes version over many played Clusters, and prints what it took
    Upgrades(upgrades::Plan),
    /// Rolls many modules over clusters with agents, and prints what an assignment takes
    Many(many::Plan),
    /// API servers in one process; each line of standard input is answered with the writes since the last one
    #[command(hide = true)]
    Servers {
        /// Where the kubeconfigs go.
        folder: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// muster's Module controller, for clusters that are all the same server of this process
    #[command(hide = true)]
    Controller {
        /// How the management cluster is reached.
        kubeconfig: PathBuf,
        /// Where the modules are.
        namespace: String,
    },
    /// The perfect controller: on each line of standard input `COMMIT LIMIT` it brings that commit to all
    #[command(hide = true)]
    Perfect {
        /// How the management cluster is reached.
        kubeconfig: PathBuf,
        /// Where the assemblages are.
        namespace: String,
    },
}

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// Clusters of the largest workload
    #[arg(long, default_value_t = 1_000)]
    clusters: usize,
    /// Clusters of a fleet on muster's own API server; 0 leaves it out
    #[arg(long, default_value_t = 10_000)]
    many: usize,
    /// Runs of each workload, of which the median is told
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Write the table, as Markdown, into this file too
    #[arg(long)]
    out: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().role {
        Role::Run(plan) => {
            let decisions = decisions::all();
            let mut figures = workload::real(&plan).await?;
            if plan.many > 0 {
                // What was measured already is not lost if this takes too long for somebody.
                report::tell(&plan, &decisions, &figures)?;
                workload::embedded(&plan, &mut figures).await?;
            }
            report::tell(&plan, &decisions, &figures)
        }
        Role::Nodes(plan) => nodes::run(&plan).await,
        Role::Upgrades(plan) => upgrades::run(&plan).await,
        Role::Many(plan) => many::run(&plan).await,
        Role::Servers { folder, names } => many::serve(&folder, &names).await,
        Role::Controller {
            kubeconfig,
            namespace,
        } => controller::run(&kubeconfig, &namespace).await,
        Role::Perfect {
            kubeconfig,
            namespace,
        } => perfect::run(&kubeconfig, &namespace).await,
    }
}
