//! Simulates a rollout over a fleet file with the shipped decision function.
//!
//! ```text
//!   fleet file ─► file ─► Fleet ─► play (simulator) ─► Story ─► picture ─┬─► text
//!   flags ───────────────────┘                           │                └─► svg
//!                                                        └─► JSON
//! ```
//!
//! Invariant: the same file, flags and seed give the same bytes; nothing is printed before the result is complete.

mod fault;
mod file;
mod picture;
mod play;
mod story;
mod svg;
mod text;

use std::path::PathBuf;

use muster_api::duration::DurationError;

use self::file::Fleet;
pub use self::{fault::FleetError, story::Story};

/// The minimum width of a chart.
const NARROWEST: usize = 40;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fleet file: clusters with labels, spec.rollout of a module, how long things take.
    pub file: PathBuf,
    /// The version fails on these clusters, such as eu-2 or eu-{1..3}.
    pub fail: Vec<String>,
    /// The further words of eu-{1..3}, if the shell expands it without quotes.
    pub more: Vec<String>,
    /// The time that these clusters take to become ready.
    pub slow: Vec<(String, muster_api::Duration)>,
    /// The seed of the random update times: the same seed gives the same result.
    pub seed: u64,
}

/// Runs the simulation.
pub fn simulate(options: &Options) -> Result<Story, FleetError> {
    let mut fleet = Fleet::read(&options.file)?;
    for name in &options.fail {
        fleet.fail(name)?;
    }
    for (name, time) in &options.slow {
        fleet.slow(name, *time)?;
    }
    also(&mut fleet, options)?;
    play::simulate_fleet(&fleet, options.seed)
}

/// The result as text, a line per cluster, with this line width.
pub fn story_text(story: &Story, width: usize) -> String {
    text::render_story(story, width.max(NARROWEST))
}

/// The result as an image.
pub fn svg(story: &Story) -> String {
    svg::render_svg(story)
}

/// Clusters of --fail and CLUSTER=TIME of --slow, without the first of each, if a shell expanded eu-{1..3}.
fn also(fleet: &mut Fleet, options: &Options) -> Result<(), FleetError> {
    for argument in &options.more {
        match slow(argument) {
            Ok((name, time)) if !options.slow.is_empty() => fleet.slow(&name, time)?,
            Err(_no_time) if !options.fail.is_empty() => fleet.fail(argument)?,
            _ => {
                return Err(FleetError::Stray {
                    argument: argument.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Parses `CLUSTER=TIME`.
pub fn slow(text: &str) -> Result<(String, muster_api::Duration), String> {
    let (name, time) = text
        .split_once('=')
        .ok_or("write CLUSTER=TIME, such as us-1=5m")?;
    let time: muster_api::Duration = time.parse().map_err(|error: DurationError| error.to_string())?;
    Ok((name.to_owned(), time))
}
