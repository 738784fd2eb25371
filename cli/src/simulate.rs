//! `muster simulate`: simulates a rollout over a fleet file with the shipped decision function.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_foresee::simulate::{self, Options, slow};

use crate::{
    exit::{DONE, UNKNOWN},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster simulate fleet.yaml                         how a version would roll out across the clusters of the file
  muster simulate fleet.yaml --fail eu-2             and if it fails on eu-2
  muster simulate fleet.yaml --fail 'eu-{1..3}'      on several; quoted, because the shell expands braces
  muster simulate fleet.yaml --slow us-1=5m --seed 7
  muster simulate fleet.yaml -o svg > rollout.svg
An example file: examples/simulate/fleet.yaml";

/// Width of the chart in a pipe.
const WIDTH: usize = 100;

/// Simulate a rollout across a fleet described in a file, with the controller's own rollout engine
///
/// With -o json: `schema` (`simulate/v1`), verdict, evidence, seconds, batches, carrying, failed and clusters with
/// their changes.
///
/// Exit codes: 0 printed, whatever the result of the rollout; 2 the file or the flags are invalid.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct SimulateFlags {
    /// The fleet: clusters with labels, spec.rollout of a module, how long things take
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The version fails on this cluster, such as eu-2 or 'eu-{1..3}'; may be repeated
    #[arg(long, value_name = "CLUSTER")]
    pub fail: Vec<String>,
    /// The further words of eu-{1..3}, if the shell expands it without quotes
    #[arg(value_name = "CLUSTER", hide = true)]
    pub more: Vec<String>,
    /// The time that this cluster takes to become ready; may be repeated
    #[arg(long, value_name = "CLUSTER=TIME", value_parser = slow)]
    pub slow: Vec<(String, muster_api::Duration)>,
    /// The seed of the random update times: the same seed gives the same result
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Drawn::Text)]
    pub output: Drawn,
    /// Width of the text [default: that of the terminal, or 100]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
}

/// Output format of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawn {
    /// A line per cluster
    Text,
    /// An image
    Svg,
    /// All changes of all clusters; schema simulate/v1
    Json,
}

/// Prints the simulation.
pub(crate) fn run(flags: SimulateFlags, out: &Out) -> anyhow::Result<u8> {
    let (drawn, width) = (flags.output, flags.width);
    let story = match simulate::simulate(&flags.options()) {
        Ok(story) => story,
        Err(error) => {
            complain!(out, "error: {error}");
            return Ok(UNKNOWN);
        }
    };
    out.text(&match drawn {
        Drawn::Text => {
            let fits = match out.width() {
                usize::MAX => WIDTH,
                width => width,
            };
            simulate::story_text(&story, width.unwrap_or(fits))
        }
        Drawn::Svg => simulate::svg(&story),
        Drawn::Json => story.json(),
    })?;
    Ok(DONE)
}

impl SimulateFlags {
    fn options(self) -> Options {
        Options {
            file: self.file,
            fail: self.fail,
            more: self.more,
            slow: self.slow,
            seed: self.seed,
        }
    }
}
