//! `cargo xtask mutate`: old bugs, made again one by one, each of which a test must catch.
//!
//! ```text
//!   e2e/mutations/*.toml ──► copy of the tree (target/mutate/) ──► one bug ──► build ──► its test must be red ──► next
//!                                                              └─► no bug ──► build ──► all those tests must be green
//! ```
//!
//! Invariant: no bug is ever written into the tree that people work in.
//! Invariant: a bug that no longer fits the code, or that does not compile, is a failure of the table and not a bug caught.

pub(crate) mod copy;
pub(crate) mod run;
pub(crate) mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

pub use self::table::{check, page};
use self::{
    copy::Copy,
    run::{Outcome, Tests},
    table::Mutation,
};
use crate::Problems;

/// What is run.
#[derive(Debug, clap::Args)]
pub struct Mutate {
    /// Mutations by name (`e2e/mutations/NAME.toml`), or by how their names begin; all if none is named
    names: Vec<String>,
    /// Say which there are, and run nothing
    #[arg(long)]
    list: bool,
}

/// A mutation, what its test said, and how long that took.
struct Row {
    mutation: Mutation,
    found: Found,
    took: Duration,
}

/// What became of a mutation.
enum Found {
    /// The test was red.
    Caught(&'static str),
    /// It was green, or it could not be seen.
    Survived(String),
}

impl Mutate {
    /// 0: every mutation is caught, and the tests are green without it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mutations = self.wanted()?;
        if self.list {
            print!("{}", table::listed(&mutations));
            return Ok(ExitCode::SUCCESS);
        }
        let problems = table::misfits(&mutations)?;
        ensure!(
            problems.is_empty(),
            "the table does not fit the code:\n{}",
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
        Ok(told(&rows, &red, began.elapsed()))
    }

    fn wanted(&self) -> anyhow::Result<Vec<Mutation>> {
        let all = table::read()?;
        for name in &self.names {
            if !all.iter().any(|mutation| mutation.name.starts_with(name)) {
                let known: Vec<&str> = all.iter().map(|mutation| mutation.name.as_str()).collect();
                bail!(
                    "no mutation's name begins with {name:?}: there are {}",
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
        Err(said) => Found::Survived(format!("it does not compile:\n{said}")),
        Ok(binary) => match tests.run(&binary, &mutation.caught_by)? {
            Outcome::Red => Found::Caught("red"),
            Outcome::Hung => Found::Caught("no end"),
            Outcome::Green => Found::Survived("the test is green".to_owned()),
            Outcome::Unknown(said) => Found::Survived(format!("the test did not run:\n{said}")),
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

/// The tests that are not green without a mutation.
fn red_without(rows: &[Row], tests: &Tests<'_>) -> anyhow::Result<Problems> {
    println!("without any mutation:");
    let mut red = Problems::new();
    for row in rows {
        let test = &row.mutation.caught_by;
        match tests.build(test)? {
            Err(said) => red.push(format!("{test}: does not compile:\n{said}")),
            Ok(binary) => match tests.run(&binary, test)? {
                Outcome::Green => {}
                Outcome::Red => red.push(format!("{test}: red")),
                Outcome::Hung => red.push(format!("{test}: does not end")),
                Outcome::Unknown(said) => red.push(format!("{test}: did not run:\n{said}")),
            },
        }
    }
    Ok(red)
}

fn told(rows: &[Row], red: &Problems, took: Duration) -> ExitCode {
    println!("\n{} mutations, {:.0} s in all", rows.len(), took.as_secs_f64());
    for row in rows {
        println!("{}", line(row));
    }
    if red.is_empty() {
        println!("without any mutation: all these tests are green");
    }
    for problem in red {
        println!("NOT GREEN without any mutation: {problem}");
    }
    let caught = rows.iter().all(|row| matches!(row.found, Found::Caught(_)));
    if caught && red.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn line(row: &Row) -> String {
    let (word, more) = match &row.found {
        Found::Caught(how) => ("caught", format!(" ({how})")),
        Found::Survived(why) => ("SURVIVED", format!(": {why}")),
    };
    format!(
        "{word:<8} {:>4.0} s  {}  by {}{more}",
        row.took.as_secs_f64(),
        row.mutation.name,
        row.mutation.caught_by
    )
}
