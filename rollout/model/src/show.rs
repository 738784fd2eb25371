//! Prints states and events, one line each.

use std::fmt::Write as _;

use muster_driver::Then;
use muster_rollout::{Content, Echo, Kind, Memory, Row, State as Phase};

use crate::flying::Flying;
use crate::happen::Happens;
use crate::state::{Fit, State};
use crate::world::{ABORT, APPROVE, World, number_of};

fn letter(number: u8) -> char {
    char::from(b'A' + number)
}

impl World {
    fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("?", |name| name.as_str())
    }

    /// The event in a few words.
    pub fn told(&self, what: &Happens) -> String {
        let name = |at: &usize| self.name(*at);
        match what {
            Happens::SeesRows(at) => format!("leader {at} sees all assignments"),
            Happens::SeesClusters(at) => format!("leader {at} sees all clusters"),
            Happens::Decides(at) => format!("leader {at} decides"),
            Happens::Dies(at, sent) => format!("leader {at} decides, and dies after {sent} rows"),
            Happens::Arrives(flying) => format!("{} arrives", self.flying(flying)),
            Happens::AllLost => "the pending writes are lost".to_owned(),
            Happens::Mirrors(at) => format!("the row of {} is mirrored", name(at)),
            Happens::Begins(at) => format!("{} begins", name(at)),
            Happens::Ends(at) => format!("{} has finished its assignment", name(at)),
            Happens::Relapses(at) => format!("{} fails", name(at)),
            Happens::Target(number) => format!("the target is {}", letter(*number)),
            Happens::Pause(true) => "paused".to_owned(),
            Happens::Pause(false) => "not paused any more".to_owned(),
            Happens::Select(at, true) => format!("{} is selected", name(at)),
            Happens::Select(at, false) => format!("{} is not selected any more", name(at)),
            Happens::Fit(at, Fit::Ready) => format!("{} is back", name(at)),
            Happens::Fit(at, Fit::Away) => format!("{} is away", name(at)),
            Happens::Fit(at, Fit::Held) => format!("{} is held", name(at)),
            Happens::Fit(at, Fit::Unavailable) => format!("{} is not available", name(at)),
            Happens::Fit(at, Fit::Closed) => format!("the window of {} closes", name(at)),
            Happens::Leaves(at) => format!("{} is gone", name(at)),
            Happens::Joins(at) => format!("another {} joins", name(at)),
            Happens::Forgotten => "the memory is lost".to_owned(),
            Happens::Says(word, number) => {
                let word = match *word {
                    APPROVE => "approve",
                    ABORT => "abort",
                    _ => "retry",
                };
                format!("{word} {}", letter(*number))
            }
            Happens::Acknowledged => "the withdrawal is acknowledged".to_owned(),
            Happens::GivenUp(at, true) => format!("{} is given up", name(at)),
            Happens::GivenUp(at, false) => format!("{} is no longer abandoned", name(at)),
            Happens::Beat => "time passes".to_owned(),
            Happens::Back => "the module is deleted and re-created".to_owned(),
        }
    }

    fn flying(&self, flying: &Flying) -> String {
        let name = self.name(flying.cluster);
        let change = flying.write.change;
        match change.then {
            Then::Fenced => format!("{name}: fence {}", change.token),
            Then::Assigned { .. } | Then::Withdrawn(_) | Then::Abandoned => {
                format!("{name}: {}", row(change.applied(None)))
            }
        }
    }

    /// Prints a state.
    pub fn shown(&self, state: &State) -> String {
        let mut text = format!("target {}", letter(state.module.target));
        for (at, cluster) in state.clusters.iter().enumerate() {
            let stands = cluster.sheet.row.map_or_else(|| "-".to_owned(), row);
            let says = cluster.sheet.echo.as_ref().map_or(String::new(), echo);
            let counts = if state.eye.counted.contains(at) { " *" } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(text, " | {}: {stands} {says}{counts}", self.name(at));
        }
        let memory = state
            .module
            .memory
            .as_deref()
            .map_or_else(|| "lost".to_owned(), memory);
        let flying: Vec<String> = state.flying.iter().map(|flying| self.flying(flying)).collect();
        format!("{text} | memory: {memory} | on the way: {}", flying.join(", "))
    }
}

fn row(row: Row) -> String {
    let token = row.token;
    match row.content {
        Content::Nothing => format!("nothing {token}"),
        Content::Withdraw => format!("withdraw {token}"),
        Content::Carries { revision, .. } => {
            format!("{}{token}", revision.map_or('?', |of| letter(number_of(of))))
        }
    }
}

fn echo(echo: &Echo) -> String {
    let word = match &echo.state {
        Phase::Updating | Phase::Progressing(_) => "begun",
        Phase::Succeeded => "done",
        Phase::Failed { .. } => "failed",
        Phase::Withdrawn => "withdrawn",
        Phase::Unknown => "unknown",
    };
    format!("({word} {})", echo.token)
}

fn memory(memory: &Memory) -> String {
    let mut text = format!("seq {}", memory.seq);
    for (unit, charge) in &memory.charges {
        let kind = match charge.kind {
            Kind::Assign => "",
            Kind::Join => " join",
            Kind::Relapsed => " relapsed",
            Kind::Fence => " fence",
            Kind::Withdraw => " withdraw",
            Kind::Revert => " back",
            Kind::Abandon => " given up",
        };
        let of = charge
            .revision
            .map_or(String::new(), |of| letter(number_of(of)).to_string());
        let released = if charge.skipped { " released" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, ", {unit}{kind} {of}{}{released}", charge.token);
    }
    if let Some(run) = memory.run {
        let _ = write!(text, ", {:?} {}", run.state, letter(number_of(run.target)));
    }
    text
}
