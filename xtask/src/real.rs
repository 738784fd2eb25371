//! `cargo xtask real`: tests on real Kubernetes. Builds the programs of control planes, starts and stops fleets of
//! them, and runs test suites on them that otherwise use the embedded API server.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, bail, ensure};
use muster_real::{Built, Cache, Fleet, PROGRAMS, Plan, Program, down};

use crate::tree;

/// The management control plane; the others are `c1`, `c2`, and so on.
const MANAGEMENT: &str = "management";
/// Environment variable that makes the contract suite use a real server.
const CONTRACT: &str = "MUSTER_CONTRACT_KUBECONFIG";

/// Environment variable for the directory in which scenarios record the permissions they used.
const RIGHTS_USED: &str = "MUSTER_RIGHTS_USED";

/// Subcommands.
#[derive(Debug, clap::Args)]
pub struct Real {
    #[command(subcommand)]
    what: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Build the missing programs (needs Go)
    Build {
        /// Programs, or all of a Go module (`cluster-api`), by name; all if none is given
        programs: Vec<String>,
    },
    /// Start a management cluster and other clusters; they run until `down`
    Up {
        /// Number of clusters besides the management cluster
        #[arg(long, default_value_t = 2)]
        clusters: usize,
        /// With simulated nodes and pods: workloads become ready
        #[arg(long)]
        kwok: bool,
        /// With Flux in each cluster
        #[arg(long)]
        flux: bool,
        /// Directory for kubeconfigs, logs and data
        #[arg(long, value_name = "DIRECTORY")]
        dir: Option<PathBuf>,
    },
    /// Stop what `up` started, and remove its directory
    Down {
        /// The directory that `up` was given
        #[arg(long, value_name = "DIRECTORY")]
        dir: Option<PathBuf>,
    },
    /// Start what a suite needs, run it, and stop everything
    Run {
        /// `contract`, `kubectl`, `nodes`, `cluster-api`, `scenarios`, or part of a scenario's name (`rollout::`)
        #[arg(required = true, value_name = "SUITE")]
        suites: Vec<Suite>,
    },
    /// Run all suites
    All,
}

/// The suites on real control planes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Suite {
    /// The tests of `apiserver/tests/contract`.
    Contract,
    /// The tests of `apiserver/tests/kubectl`.
    Kubectl,
    /// The tests of `e2e/tests/nodes`: nodes in network namespaces.
    Nodes,
    /// The tests of `e2e/tests/capi` whose names contain this: ClusterUpgrades and in-place updates with Cluster API's
    /// own controllers.
    ClusterApi(String),
    /// The scenarios of `e2e/tests/real.rs` whose names contain this.
    Scenarios(String),
}

impl From<&str> for Suite {
    fn from(name: &str) -> Self {
        match name {
            "contract" => Self::Contract,
            "kubectl" => Self::Kubectl,
            "nodes" => Self::Nodes,
            "cluster-api" => Self::ClusterApi(String::new()),
            "scenarios" => Self::Scenarios(String::new()),
            other => match other.strip_prefix("cluster-api::") {
                Some(filter) => Self::ClusterApi(filter.to_owned()),
                None => Self::Scenarios(other.to_owned()),
            },
        }
    }
}

impl Real {
    /// Returns 0 on success: all tests that ran have passed.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            Action::Build { programs } => build(&programs),
            Action::Up {
                clusters,
                kwok,
                flux,
                dir,
            } => up(clusters, kwok, flux, dir),
            Action::Down { dir } => end(dir),
            Action::Run { suites } => run(&suites),
            Action::All => {
                run(&["contract", "kubectl", "nodes", "cluster-api", "scenarios"].map(Suite::from))
            }
        }
    }
}

fn build(names: &[String]) -> anyhow::Result<ExitCode> {
    let is_named = |program: &Program, name: &String| program.name == *name || program.module == *name;
    let unknown = names
        .iter()
        .find(|name| PROGRAMS.iter().all(|program| !is_named(program, name)));
    if let Some(unknown) = unknown {
        let known: BTreeSet<&str> = PROGRAMS
            .iter()
            .flat_map(|program| [program.module, program.name])
            .collect();
        let known: Vec<&str> = known.into_iter().collect();
        bail!(
            "unknown program or Go module {unknown:?}: the programs are {}",
            known.join(", ")
        );
    }
    let wanted = |program: &&Program| names.is_empty() || names.iter().any(|name| is_named(program, name));
    let (cache, began) = (Cache::open()?, Instant::now());
    for program in PROGRAMS.iter().filter(wanted) {
        match cache.build(program)? {
            Built::Already => println!("{:<24} there already", program.name),
            Built::Now(took) => println!("{:<24} built in {:.0} s", program.name, took.as_secs_f64()),
        }
    }
    cache.take_files(
        &PROGRAMS
            .iter()
            .filter(wanted)
            .map(|program| program.module)
            .collect(),
    )?;
    println!(
        "{:<24} {:.0} s, in {}",
        "all of it",
        began.elapsed().as_secs_f64(),
        cache.directory().display()
    );
    Ok(ExitCode::SUCCESS)
}

fn up(clusters: usize, kwok: bool, flux: bool, dir: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let (directory, began) = (directory(dir)?, Instant::now());
    let others = (1..=clusters).map(|number| format!("c{number}"));
    let names: Vec<String> = std::iter::once(MANAGEMENT.to_owned()).chain(others).collect();
    let mut fleet = Fleet::start(&directory, Plan { kwok, flux })?;
    fleet.add(&names)?;
    for plane in fleet.planes() {
        println!(
            "{:<12} {}  KUBECONFIG={}",
            plane.name,
            plane.url,
            plane.kubeconfig().display()
        );
    }
    fleet.leave()?;
    println!(
        "{:<12} after {:.1} s; `cargo xtask real down` ends it",
        "ready",
        began.elapsed().as_secs_f64()
    );
    Ok(ExitCode::SUCCESS)
}

fn end(dir: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let directory = directory(dir)?;
    let ended = down(&directory)?;
    // Only if it looks like a directory of a fleet.
    if directory.join("cmd").is_dir() {
        std::fs::remove_dir_all(&directory)?;
    }
    println!("{ended} processes ended");
    Ok(ExitCode::SUCCESS)
}

fn run(suites: &[Suite]) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for suite in suites {
        let began = Instant::now();
        let good = suite.run().with_context(|| format!("{suite:?}"))?;
        rows.push((suite, good, began.elapsed()));
    }
    for (suite, good, took) in &rows {
        let word = if *good { "good" } else { "BROKEN" };
        println!("{word:<6} {:>5.0} s  {suite:?}", took.as_secs_f64());
    }
    Ok(if rows.iter().all(|(_, good, _)| *good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Suite {
    fn run(&self) -> anyhow::Result<bool> {
        test(&["--no-run"])?;
        println!("=== {self:?}, on real control planes");
        match self {
            Self::Contract => asks_one_server("contract"),
            Self::Kubectl => asks_one_server("kubectl"),
            Self::Nodes => {
                Cache::open()?.require(&Plan::default().programs())?;
                scenarios("nodes", "kubernetes")
            }
            Self::ClusterApi(filter) => scenarios("capi", filter),
            Self::Scenarios(filter) => scenarios("real", filter),
        }
    }
}

/// Runs a test binary against the server in a kubeconfig.
fn asks_one_server(binary: &str) -> anyhow::Result<bool> {
    let directory = tempfile::tempdir()?;
    let plan = Plan {
        kwok: true,
        flux: false,
    };
    let mut fleet = Fleet::start(&directory.path().join("fleet"), plan)?;
    fleet.add(&[MANAGEMENT.to_owned()])?;
    let kubeconfig = fleet.plane(MANAGEMENT)?.kubeconfig();
    let mut tests = cargo(&["--test", binary]);
    Ok(tests
        .env(CONTRACT, kubeconfig)
        .status()
        .context("cargo test")?
        .success())
}

/// Runs scenarios, each with its own fleet, one at a time: a control plane takes half a GiB. Then checks the
/// permissions that they used.
fn scenarios(binary: &str, filter: &str) -> anyhow::Result<bool> {
    let those = ["--test", binary, "--", "--ignored", filter];
    let listed = cargo(&[&those[..], &["--list"]].concat())
        .output()
        .context("cargo test --list")?;
    let found = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .any(|line| line.ends_with(": test"));
    ensure!(
        found,
        "no scenario of {binary} has {filter:?} in its name: see e2e/tests"
    );
    let used = tempfile::tempdir()?;
    let run = |arguments: &[&str]| -> anyhow::Result<bool> {
        let status = cargo(arguments).env(RIGHTS_USED, used.path()).status();
        Ok(status.context("cargo test")?.success())
    };
    let good = run(&[&those[..], &["--nocapture", "--test-threads=1"]].concat())?;
    // Only all scenarios together use every permission; for nodes there is one scenario, and for ClusterUpgrades a
    // single one uses all.
    let promises: &[&str] = match (binary, filter) {
        ("nodes", _) => &["nothing_is_denied", "nothing_is_granted_for_nodes_in_vain"],
        ("capi", "") => &[
            "nothing_is_denied",
            "nothing_is_granted_for_upgrades_in_vain",
            "nothing_is_granted_for_machines_in_vain",
        ],
        ("capi", "three") => &["nothing_is_denied", "nothing_is_granted_for_upgrades_in_vain"],
        (_, "") => &["nothing_is_denied", "nothing_is_granted_in_vain"],
        _ => &["nothing_is_denied"],
    };
    let rights = run(&[&["--test", "rights", "--", "--ignored"], promises].concat())?;
    Ok(good && rights)
}

/// Built like in the test command.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = tree::cargo();
    command
        .args(["test", "--workspace"])
        .args(arguments)
        .current_dir(tree::root());
    command
}

fn test(arguments: &[&str]) -> anyhow::Result<()> {
    let status = cargo(arguments).status().context("cargo test")?;
    ensure!(
        status.success(),
        "cargo test --workspace {}: {status}",
        arguments.join(" ")
    );
    Ok(())
}

fn directory(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match given {
        Some(directory) => Ok(directory),
        None => Ok(Cache::open()?.directory().join("fleet")),
    }
}
