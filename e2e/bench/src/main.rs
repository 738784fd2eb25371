//! Benchmarks of rollouts, of their decisions and of the controllers around them: `cargo xtask bench`.
//!
//! ```text
//!   this process ── the module is changed ──► muster's Module controller ─┐
//!        │                                    or the perfect controller ──┴─► rows of ProxyAssemblages (a real kube-apiserver)
//!        └── answers each row after a while, as a cluster would; sees when all have answered
//! ```
//!
//! Both controllers are separate processes of this same program. The perfect one reads nothing and decides nothing: it
//! writes one patch per cluster, with eight concurrent writers, and learns of the answers through a watch.

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

/// The same allocator as in `muster`.
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
    /// Run the workloads with muster and with the perfect controller, and print a table
    Run(Plan),
    /// Roll out a NodeModule over many simulated nodes, and print what it cost
    Nodes(nodes::Plan),
    /// Roll out a Kubernetes version over many simulated Clusters, and print what it cost
    Upgrades(upgrades::Plan),
    /// Roll out many modules over clusters with agents, and print the cost of an assignment
    Many(many::Plan),
    /// Run several API servers in one process; answer each line of standard input with the writes since the previous
    /// one
    #[command(hide = true)]
    Servers {
        /// Directory for the kubeconfigs.
        directory: PathBuf,
        /// Names of the API servers.
        names: Vec<String>,
    },
    /// Run muster's Module controller for clusters that are all the same API server of this process
    #[command(hide = true)]
    Controller {
        /// Kubeconfig of the management cluster.
        kubeconfig: PathBuf,
        /// Namespace of the modules.
        namespace: String,
    },
    /// Run the perfect controller: each line `COMMIT LIMIT` of standard input brings that commit to all clusters
    #[command(hide = true)]
    Perfect {
        /// Kubeconfig of the management cluster.
        kubeconfig: PathBuf,
        /// Namespace of the assemblages.
        namespace: String,
    },
}

/// Sizes and repetitions of the workloads.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// Clusters of the largest workload
    #[arg(long, default_value_t = 1_000)]
    clusters: usize,
    /// Clusters of a fleet on muster's own API server; 0 skips it
    #[arg(long, default_value_t = 10_000)]
    many: usize,
    /// Runs of each workload; the median is reported
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Also write the table, as Markdown, to this file
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
                // Keep what was measured so far if the user interrupts a long benchmark.
                report::print_report(&plan, &decisions, &figures)?;
                workload::embedded(&plan, &mut figures).await?;
            }
            report::print_report(&plan, &decisions, &figures)
        }
        Role::Nodes(plan) => nodes::run(&plan).await,
        Role::Upgrades(plan) => upgrades::run(&plan).await,
        Role::Many(plan) => many::run(&plan).await,
        Role::Servers { directory, names } => many::serve(&directory, &names).await,
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
