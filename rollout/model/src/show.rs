//! Prints states and events, one line each.

use std::fmt::Write as _;

use muster_driver::NewContent;
use muster_rollout::{Assignment, Content, Kind, Memory, Report, State as Phase};

use crate::event::Event;
use crate::pending_write::PendingWrite;
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
    pub fn describe_event(&self, what: &Event) -> String {
        let name = |at: &usize| self.name(*at);
        match what {
            Event::SeesRows(at) => format!("leader {at} sees all assignments"),
            Event::SeesClusters(at) => format!("leader {at} sees all clusters"),
            Event::Decides(at) => format!("leader {at} decides"),
            Event::Dies(at, sent) => format!("leader {at} decides, and dies after {sent} rows"),
            Event::Arrives(flying) => format!("{} arrives", self.flying(flying)),
            Event::AllLost => "the pending writes are lost".to_owned(),
            Event::Mirrors(at) => format!("the row of {} is mirrored", name(at)),
            Event::Begins(at) => format!("{} begins", name(at)),
            Event::Ends(at) => format!("{} has finished its assignment", name(at)),
            Event::Relapses(at) => format!("{} fails", name(at)),
            Event::Target(number) => format!("the target is {}", letter(*number)),
            Event::Pause(true) => "paused".to_owned(),
            Event::Pause(false) => "not paused any more".to_owned(),
            Event::Select(at, true) => format!("{} is selected", name(at)),
            Event::Select(at, false) => format!("{} is not selected any more", name(at)),
            Event::Fit(at, Fit::Ready) => format!("{} is back", name(at)),
            Event::Fit(at, Fit::Away) => format!("{} is away", name(at)),
            Event::Fit(at, Fit::Held) => format!("{} is held", name(at)),
            Event::Fit(at, Fit::Unavailable) => format!("{} is not available", name(at)),
            Event::Fit(at, Fit::Closed) => format!("the window of {} closes", name(at)),
            Event::Leaves(at) => format!("{} is gone", name(at)),
            Event::Joins(at) => format!("another {} joins", name(at)),
            Event::Forgotten => "the memory is lost".to_owned(),
            Event::Says(word, number) => {
                let word = match *word {
                    APPROVE => "approve",
                    ABORT => "abort",
                    _ => "retry",
                };
                format!("{word} {}", letter(*number))
            }
            Event::Acknowledged => "the withdrawal is acknowledged".to_owned(),
            Event::GivenUp(at, true) => format!("{} is given up", name(at)),
            Event::GivenUp(at, false) => format!("{} is no longer abandoned", name(at)),
            Event::Beat => "time passes".to_owned(),
            Event::Back => "the module is deleted and re-created".to_owned(),
        }
    }

    fn flying(&self, flying: &PendingWrite) -> String {
        let name = self.name(flying.cluster);
        let change = flying.write.change;
        match change.then {
            NewContent::Fenced => format!("{name}: fence {}", change.token),
            NewContent::Assigned { .. } | NewContent::Withdrawn(_) | NewContent::Abandoned => {
                format!("{name}: {}", row(change.applied(None)))
            }
        }
    }

    /// Prints a state.
    pub fn describe_state(&self, state: &State) -> String {
        let mut text = format!("target {}", letter(state.module.target));
        for (at, cluster) in state.clusters.iter().enumerate() {
            let assignment = cluster.sheet.assignment.map_or_else(|| "-".to_owned(), row);
            let report = cluster
                .sheet
                .report
                .as_ref()
                .map_or(String::new(), describe_report);
            let counts = if state.eye.counted.contains(at) { " *" } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(text, " | {}: {assignment} {report}{counts}", self.name(at));
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

fn row(row: Assignment) -> String {
    let token = row.token;
    match row.content {
        Content::Nothing => format!("nothing {token}"),
        Content::Withdraw => format!("withdraw {token}"),
        Content::Carries { revision, .. } => {
            format!("{}{token}", revision.map_or('?', |of| letter(number_of(of))))
        }
    }
}

fn describe_report(report: &Report) -> String {
    let word = match &report.state {
        Phase::Updating | Phase::Progressing(_) => "begun",
        Phase::Succeeded => "done",
        Phase::Failed { .. } => "failed",
        Phase::Withdrawn => "withdrawn",
        Phase::Unknown => "unknown",
    };
    format!("({word} {})", report.token)
}

fn memory(memory: &Memory) -> String {
    let mut text = format!("seq {}", memory.seq);
    for (unit, change) in &memory.in_flight {
        let kind = match change.kind {
            Kind::Assign => "",
            Kind::Join => " join",
            Kind::Relapsed => " relapsed",
            Kind::Fence => " fence",
            Kind::Withdraw => " withdraw",
            Kind::Revert => " back",
            Kind::Abandon => " given up",
        };
        let of = change
            .revision
            .map_or(String::new(), |of| letter(number_of(of)).to_string());
        let released = if change.skipped { " released" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, ", {unit}{kind} {of}{}{released}", change.token);
    }
    if let Some(run) = memory.run {
        let _ = write!(text, ", {:?} {}", run.state, letter(number_of(run.target)));
    }
    text
}
