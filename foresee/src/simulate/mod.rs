//! A fleet file, the shipped decision function, and a picture of what would happen.
//!
//! ```text
//!   fleet file ─► file ─► Fleet ─► play (simulator) ─► Story ─► picture ─┬─► text
//!   flags ───────────────────┘                           │                └─► svg
//!                                                        └─► JSON
//! ```
//!
//! Invariant: same file, flags and seed give the same bytes; nothing is told before all of it is known.

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

/// The narrowest picture that says something.
const NARROWEST: usize = 40;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fleet: clusters with labels, spec.rollout of a module, how long things take.
    pub file: PathBuf,
    /// The version fails on these clusters, such as eu-2 or eu-{1..3}.
    pub fail: Vec<String>,
    /// What a shell makes of eu-{1..3} without quotes, but for the first.
    pub more: Vec<String>,
    /// These clusters take so long to be ready.
    pub slow: Vec<(String, muster_api::Duration)>,
    /// The seed of how long each cluster takes: the same seed gives the same story.
    pub seed: u64,
}

/// What would happen.
pub fn simulate(options: &Options) -> Result<Story, FleetError> {
    let mut fleet = Fleet::read(&options.file)?;
    for name in &options.fail {
        fleet.fail(name)?;
    }
    for (name, time) in &options.slow {
        fleet.slow(name, *time)?;
    }
    also(&mut fleet, options)?;
    play::play(&fleet, options.seed)
}

/// The story as text, a line for each cluster, on lines of so many columns.
pub fn text(story: &Story, width: usize) -> String {
    text::draw(story, width.max(NARROWEST))
}

/// The story as a picture.
pub fn svg(story: &Story) -> String {
    svg::draw(story)
}

/// Clusters of --fail and CLUSTER=TIME of --slow, but for the first of each, where a shell expanded eu-{1..3}.
fn also(fleet: &mut Fleet, options: &Options) -> Result<(), FleetError> {
    for said in &options.more {
        match slow(said) {
            Ok((name, time)) if !options.slow.is_empty() => fleet.slow(&name, time)?,
            Err(_no_time) if !options.fail.is_empty() => fleet.fail(said)?,
            _ => return Err(FleetError::Stray { said: said.clone() }),
        }
    }
    Ok(())
}

/// Reads `CLUSTER=TIME`.
pub fn slow(text: &str) -> Result<(String, muster_api::Duration), String> {
    let (name, time) = text
        .split_once('=')
        .ok_or("write CLUSTER=TIME, such as us-1=5m")?;
    let time: muster_api::Duration = time.parse().map_err(|error: DurationError| error.to_string())?;
    Ok((name.to_owned(), time))
}
