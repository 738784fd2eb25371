//! `cargo xtask`: the tasks of this repository.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use xtask::{
    Problems, alone, arrows, bench, browser, circles, conformance, deploy, fixtures, fuzz, generated, house,
    links, long, model, mutate, names, real, rulebook, simulate, tree, walks, words,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of this repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check that each crate builds alone, with only the features that it requests
    Alone(alone::Alone),
    /// Compare the rollout controller with a controller that only writes (needs `cargo xtask real build`)
    Bench(bench::Bench),
    /// Test the dashboard in a real browser (needs Node; installs Chromium if it is missing)
    Browser(browser::Browser),
    /// Build Helm, and compare its rendering of deploy/charts with the output of muster install --export (needs Go)
    Charts,
    /// Check formatting, lints, licenses and bans, dependencies between crates, import cycles, generated files, links,
    /// rules of the engine, house rules, words
    Check,
    /// Run the test cases of the systems that muster replaces against its functions
    Conformance(conformance::Conformance),
    /// Run the fuzz targets for a while (needs cargo-fuzz)
    Fuzz(fuzz::Fuzz),
    /// Write the generated files
    Generate,
    /// Run the tests that are too long for the test command: crashes, faults, hostile clusters
    Long(long::Long),
    /// Exhaust all scopes of the model of the rollout, and print the table
    Model(model::Model),
    /// Reintroduce old bugs, one by one in a copy of the repository, and check that a test catches each
    Mutate(mutate::Mutate),
    /// Check the rules of deploy/prometheus with promtool, and run their tests (needs Go)
    Monitoring,
    /// Test on real Kubernetes: build its programs, start and stop control planes, run test suites on them
    Real(real::Real),
    /// Simulate random histories of a fleet, and check the laws of a rollout in each
    Simulate(simulate::Simulate),
    /// Apply the typical first changes of a contributor to a copy of the repository, and check that each compiles and
    /// its test passes
    Walks(walks::Walks),
    /// Write the fixtures that kubectl's reader, Flux's envsubst and others generate (needs Go)
    Fixtures {
        /// Only report outdated fixtures, and read the manifests of well-known projects as kubectl does
        #[arg(long)]
        check: bool,
    },
}

/// A check by a tool: name, arguments, and whether it is skipped with a notice if the tool is missing (it has to be
/// installed manually).
const TOOLS: &[(&str, &[&str], bool)] = &[
    ("cargo", &["fmt", "--all", "--check"], false),
    (
        "cargo",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ],
        false,
    ),
    (
        "cargo-deny",
        &[
            "--log-level",
            "error",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ],
        true,
    ),
];

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().chore {
        Chore::Alone(alone) => alone.run(),
        Chore::Bench(bench) => bench.run(),
        Chore::Browser(browser) => browser.run(),
        Chore::Conformance(conformance) => conformance.run(),
        Chore::Charts => deploy::charts().map(|()| ExitCode::SUCCESS),
        Chore::Check => check(),
        Chore::Fuzz(fuzz) => fuzz.run(),
        Chore::Long(long) => long.run(),
        Chore::Model(model) => model.run(),
        Chore::Monitoring => deploy::monitoring().map(|()| ExitCode::SUCCESS),
        Chore::Mutate(mutate) => mutate.run(),
        Chore::Real(real) => real.run(),
        Chore::Simulate(simulate) => simulate.run(),
        Chore::Walks(walks) => walks.run(),
        Chore::Generate => generated::write()
            .and_then(|()| deploy::write_charts())
            .map(|()| ExitCode::SUCCESS),
        Chore::Fixtures { check: false } => fixtures::write().map(|()| ExitCode::SUCCESS),
        Chore::Fixtures { check: true } => check_fixtures(),
    }
}

fn check() -> anyhow::Result<ExitCode> {
    let mut good = true;
    for (name, problems) in [
        ("arrows", arrows::check()?),
        ("circles", circles::check()?),
        ("reasons of dependencies", arrows::unexplained()?),
        ("generated files", generated::check()?),
        ("links", links::check()?),
        ("mutations", mutate::check()?),
        ("walks", walks::check()?),
        ("rules of the engine", rulebook::check()?),
        ("house rules", house::check()?),
        ("words", words::check()?),
        ("names", names::check()?),
    ] {
        good &= print_problems(name, &problems);
    }
    for (program, arguments, optional) in TOOLS {
        good &= run(program, arguments, *optional)?;
    }
    println!(
        "advisories: not checked here: their database is not part of the repository (run `cargo deny check advisories` where it is available)"
    );
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn check_fixtures() -> anyhow::Result<ExitCode> {
    let good = print_problems("fixtures", &fixtures::check()?) & fixtures::manifests_are_read_alike()?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print_problems(name: &str, problems: &Problems) -> bool {
    println!(
        "{name}: {}",
        if problems.is_empty() {
            "good".to_owned()
        } else {
            format!("{} problems", problems.len())
        }
    );
    for problem in problems {
        println!("  {problem}");
    }
    problems.is_empty()
}

fn run(program: &str, arguments: &[&str], optional: bool) -> anyhow::Result<bool> {
    let line = format!("{program} {}", arguments.join(" "));
    match tree::program(program)
        .args(arguments)
        .current_dir(tree::root())
        .status()
    {
        Ok(status) => {
            println!("{line}: {}", if status.success() { "good" } else { "failed" });
            Ok(status.success())
        }
        Err(error) if optional && error.kind() == std::io::ErrorKind::NotFound => {
            println!("{line}: not installed, not checked (`cargo install {program} --locked`)");
            Ok(true)
        }
        Err(error) => Err(error).context(line),
    }
}
