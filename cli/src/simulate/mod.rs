//! `muster simulate`: a fleet file, the shipped decision function, and a picture of what would happen.
//!
//! ```text
//!   fleet file ─► file ─► Fleet ─► play (simulator) ─► Story ─► picture ─┬─► text
//!   flags ───────────────────┘                           │                └─► svg
//!                                                        └─► JSON
//! ```
//!
//! Invariant: same file, flags and seed give the same bytes; nothing is printed before all of it is known.

mod fault;
mod file;
mod picture;
mod play;
mod story;
mod svg;
mod text;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use self::{fault::FleetError, file::Fleet};
use crate::{
    exit::{DONE, UNKNOWN},
    flags::duration,
    output,
};

pub const EXAMPLES: &str = "\
Examples:
  muster simulate fleet.yaml                         how a version would roll over the clusters of the file
  muster simulate fleet.yaml --fail eu-2             and if it fails on eu-2
  muster simulate fleet.yaml --fail 'eu-{1..3}'      on several, in quotes: the shell has braces of its own
  muster simulate fleet.yaml --slow us-1=5m --seed 7
  muster simulate fleet.yaml -o svg > rollout.svg
A file to begin with: examples/simulate/fleet.yaml";

/// How wide the picture is in a pipe.
const WIDTH: usize = 100;
/// The narrowest picture that says something.
const NARROWEST: usize = 40;

#[derive(Args, Debug)]
pub struct SimulateFlags {
    /// The fleet: clusters with labels, spec.rollout of a module, how long things take
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The version fails on this cluster, such as eu-2 or 'eu-{1..3}'; may be repeated
    #[arg(long, value_name = "CLUSTER")]
    pub fail: Vec<String>,
    /// What a shell makes of eu-{1..3} without quotes, but for the first
    #[arg(value_name = "CLUSTER", hide = true)]
    pub more: Vec<String>,
    /// This cluster takes so long to be ready; may be repeated
    #[arg(long, value_name = "CLUSTER=TIME", value_parser = slow)]
    pub slow: Vec<(String, muster_api::Duration)>,
    /// The seed of how long each cluster takes: the same seed gives the same picture
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = Drawn::Text)]
    pub output: Drawn,
    /// Columns of the text; else those of the terminal, or 100
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
}

/// How a simulation is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drawn {
    /// A line for each cluster
    Text,
    /// A picture
    Svg,
    /// Every change of every cluster; schema simulate/v1
    Json,
}

/// Prints what would happen.
pub fn run(flags: &SimulateFlags) -> anyhow::Result<u8> {
    let text = match simulated(flags) {
        Ok(text) => text,
        Err(error) => {
            complain!("error: {error}");
            return Ok(UNKNOWN);
        }
    };
    output::text(&text)?;
    Ok(DONE)
}

fn simulated(flags: &SimulateFlags) -> Result<String, FleetError> {
    let mut fleet = Fleet::read(&flags.file)?;
    for name in &flags.fail {
        fleet.fail(name)?;
    }
    for (name, time) in &flags.slow {
        fleet.slow(name, *time)?;
    }
    also(&mut fleet, flags)?;
    let story = play::play(&fleet, flags.seed)?;
    Ok(match flags.output {
        Drawn::Text => {
            let fits = match output::width() {
                usize::MAX => WIDTH,
                width => width,
            };
            text::draw(&story, flags.width.unwrap_or(fits).max(NARROWEST))
        }
        Drawn::Svg => svg::draw(&story),
        Drawn::Json => story.json(),
    })
}

/// Clusters of --fail and CLUSTER=TIME of --slow, but for the first of each, where a shell expanded eu-{1..3}.
fn also(fleet: &mut Fleet, flags: &SimulateFlags) -> Result<(), FleetError> {
    for said in &flags.more {
        match slow(said) {
            Ok((name, time)) if !flags.slow.is_empty() => fleet.slow(&name, time)?,
            Err(_no_time) if !flags.fail.is_empty() => fleet.fail(said)?,
            _ => return Err(FleetError::Stray { said: said.clone() }),
        }
    }
    Ok(())
}

fn slow(text: &str) -> Result<(String, muster_api::Duration), String> {
    let (name, time) = text
        .split_once('=')
        .ok_or("write CLUSTER=TIME, such as us-1=5m")?;
    let time = duration(time)?;
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Ok((name.to_owned(), muster_api::Duration::from_millis(millis)))
}
