//! `cargo xtask mutate`: reintroduces old bugs, one by one; a test must catch each of them.
//!
//! ```text
//!   e2e/mutations/*.toml ──► copy of the tree (target/mutate/) ──► one bug ──► build ──► its test must be red ──► next
//!                                                              └─► no bug ──► build ──► all those tests must be green
//! ```
//!
//! Invariant: no bug is ever written into the working tree. Invariant: a bug that no longer fits the code, or that does
//! not compile, is a failure of the table and does not count as caught.

pub(crate) mod copy;
pub(crate) mod run;
pub(crate) mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

pub use self::table::{check, mutations_page};
use self::{
    copy::Copy,
    run::{TestOutcome, Tests},
    table::Mutation,
};
use crate::Problems;

/// Which mutations are tried.
#[derive(Debug, clap::Args)]
pub struct Mutate {
    /// Mutations by name or name prefix (`e2e/mutations/NAME.toml`); all if none is given
    names: Vec<String>,
    /// List the mutations without running them
    #[arg(long)]
    list: bool,
}

/// A mutation, the result of its test, and how long that took.
struct Row {
    mutation: Mutation,
    found: MutationResult,
    took: Duration,
}

/// The result of a mutation.
enum MutationResult {
    /// The test failed, as it must.
    Caught(&'static str),
    /// The test passed, or did not run.
    Survived(String),
}

impl Mutate {
    /// Returns 0 if every mutation is caught, and the tests pass without it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mutations = self.selected_mutations()?;
        if self.list {
            print!("{}", table::listed(&mutations));
            return Ok(ExitCode::SUCCESS);
        }
        let problems = table::misfits(&mutations)?;
        ensure!(
            problems.is_empty(),
            "the mutations do not fit the code:\n{}",
            problems.join("\n")
        );
        let began = Instant::now();
        let copy = Copy::new()?;
        let tests = Tests::new(&copy);
        let mut rows = Vec::new();
        for mutation in mutations {
            rows.push(tried(mutation, &copy, &tests)?);
        }
        let red = red_without(&rows, &tests)?;
        Ok(print_summary(&rows, &red, began.elapsed()))
    }

    fn selected_mutations(&self) -> anyhow::Result<Vec<Mutation>> {
        let all = table::read()?;
        for name in &self.names {
            if !all.iter().any(|mutation| mutation.name.starts_with(name)) {
                let known: Vec<&str> = all.iter().map(|mutation| mutation.name.as_str()).collect();
                bail!(
                    "no mutation's name starts with {name:?}: the mutations are {}",
                    known.join(", ")
                );
            }
        }
        let named = |mutation: &Mutation| {
            self.names.is_empty() || self.names.iter().any(|name| mutation.name.starts_with(name))
        };
        Ok(all.into_iter().filter(named).collect())
    }
}

fn tried(mutation: Mutation, copy: &Copy, tests: &Tests<'_>) -> anyhow::Result<Row> {
    let began = Instant::now();
    let originals = copy.mutate(&mutation)?;
    let found = match tests.build(&mutation.caught_by)? {
        Err(output) => MutationResult::Survived(format!("it does not compile:\n{output}")),
        Ok(binary) => match tests.run(&binary, &mutation.caught_by)? {
            TestOutcome::Red => MutationResult::Caught("red"),
            TestOutcome::Hung => MutationResult::Caught("no end"),
            TestOutcome::Green => MutationResult::Survived("the test passes".to_owned()),
            TestOutcome::Unknown(output) => {
                MutationResult::Survived(format!("the test did not run:\n{output}"))
            }
        },
    };
    Copy::put_back(&originals)?;
    let row = Row {
        mutation,
        found,
        took: began.elapsed(),
    };
    println!("{}", line(&row));
    Ok(row)
}

/// The tests that fail without a mutation.
fn red_without(rows: &[Row], tests: &Tests<'_>) -> anyhow::Result<Problems> {
    println!("without any mutation:");
    let mut red = Problems::new();
    for row in rows {
        let test = &row.mutation.caught_by;
        match tests.build(test)? {
            Err(output) => red.push(format!("{test}: does not compile:\n{output}")),
            Ok(binary) => match tests.run(&binary, test)? {
                TestOutcome::Green => {}
                TestOutcome::Red => red.push(format!("{test}: red")),
                TestOutcome::Hung => red.push(format!("{test}: does not end")),
                TestOutcome::Unknown(output) => red.push(format!("{test}: did not run:\n{output}")),
            },
        }
    }
    Ok(red)
}

fn print_summary(rows: &[Row], red: &Problems, took: Duration) -> ExitCode {
    println!("\n{} mutations, {:.0} s in all", rows.len(), took.as_secs_f64());
    for row in rows {
        println!("{}", line(row));
    }
    if red.is_empty() {
        println!("without any mutation: all these tests pass");
    }
    for problem in red {
        println!("FAILED without any mutation: {problem}");
    }
    let caught = rows
        .iter()
        .all(|row| matches!(row.found, MutationResult::Caught(_)));
    if caught && red.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn line(row: &Row) -> String {
    let (word, more) = match &row.found {
        MutationResult::Caught(how) => ("caught", format!(" ({how})")),
        MutationResult::Survived(why) => ("SURVIVED", format!(": {why}")),
    };
    format!(
        "{word:<8} {:>4.0} s  {}  by {}{more}",
        row.took.as_secs_f64(),
        row.mutation.name,
        row.mutation.caught_by
    )
}
