//! Evaluates all windows of a namespace for one cluster and one module at an instant.

use std::fmt;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use muster_api::{
    reasons::Reason,
    rolloutwindow::{ClosedClusters, WhileClosed},
};

use crate::{
    Cluster, LONG, Module, Window, WindowError,
    entry::{Entry, Zone},
    search::{self, Active},
    window::Rule,
};

/// Whether changes of a module may start in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Open or closed.
    pub state: State,
    /// The first instant after which any part of the answer may change. `None`: not until an object changes.
    pub next_change: Option<Timestamp>,
}

/// Whether changes may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Changes may start.
    Open {
        /// When the window closes. `None`: not within [`HORIZON`](crate::HORIZON).
        until: Option<Timestamp>,
    },
    /// Only changes that the fields allow may start; changes in flight continue.
    Closed(Closed),
}

/// Why a cluster is closed, and until when. If several windows close it, the strictest values of `reverts`,
/// `withdrawals` and `while_closed` apply: `Wait`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Name of the reported window: an invalid one, if any; else the deny window that ends last; else the allow window
    /// that opens first.
    pub window: String,
    /// Why that window is invalid for this cluster.
    pub error: Option<WindowError>,
    /// When the cluster opens, considering all windows. `None`: not within [`HORIZON`](crate::HORIZON), or not before
    /// an object changes.
    pub until: Option<Timestamp>,
    /// The time zone in which that instant is displayed.
    pub time_zone: TimeZone,
    /// The message of the window.
    pub message: String,
    /// Whether the cluster may be rolled back to the last good revision.
    pub reverts: WhileClosed,
    /// Whether the module may be removed.
    pub withdrawals: WhileClosed,
    /// Whether the stage waits for the cluster or continues without it.
    pub while_closed: ClosedClusters,
    /// Whether the cluster stays closed for longer than [`LONG`].
    pub is_long: bool,
}

impl Closed {
    /// When the cluster opens, in its local time, with this `strftime` format and the zone: `2026-12-01 02:00
    /// Europe/Berlin`.
    pub fn local_opening(&self, format: &str) -> Option<String> {
        let local = self.time_zone.to_datetime(self.until?);
        let zone = self.time_zone.iana_name().unwrap_or("UTC");
        Some(format!("{} {zone}", local.strftime(format)))
    }

    /// The reason for the cluster: `WindowInvalid` if the window is invalid, else `WindowClosed`.
    pub const fn reason(&self) -> Reason {
        if self.error.is_some() {
            Reason::WindowInvalid
        } else {
            Reason::WindowClosed
        }
    }
}

impl fmt::Display for Closed {
    /// The text after the reason: `until 2026-12-01T02:00 Europe/Berlin (freeze-december): no changes before the
    /// audit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.local_opening("%Y-%m-%dT%H:%M") {
            Some(opening) => write!(f, "until {opening} ({})", self.window)?,
            None => write!(f, "with no opening in sight ({})", self.window)?,
        }
        if self.is_long && self.until.is_some() {
            write!(f, ", not within 30 days")?;
        }
        if let Some(error) = &self.error {
            write!(f, ": {error}")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// The state of a single window, for its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Whether changes may start, according to this window alone. `None` if that depends on the time zone of each
    /// cluster.
    pub open: Option<bool>,
    /// When that changes. `None` if never, not within [`HORIZON`](crate::HORIZON), or if it depends on the cluster.
    pub next_change: Option<Timestamp>,
}

impl Window {
    /// The state of this window alone at this instant, without bypasses. An invalid window is closed.
    pub fn summary(&self, now: Timestamp) -> Summary {
        let local = |entry: &Entry| matches!(entry.zone, Zone::Annotation(_));
        let rule = self.rule.as_ref().filter(|_| self.errors.is_empty());
        if rule.is_some_and(|(_, entries)| entries.iter().any(local)) {
            return Summary::default();
        }
        let active = [Active {
            window: self,
            state: self.entries_for(None),
            bypass_end: None,
        }];
        let (open, until) = search::until(&active, now);
        Summary {
            open: Some(open),
            next_change: until,
        }
    }
}

/// Whether changes of this module may start in this cluster at this instant. `windows` are all windows of the
/// namespace, in any order.
pub fn evaluate(windows: &[Window], cluster: &Cluster<'_>, module: &Module<'_>, now: Timestamp) -> Answer {
    let selecting = windows
        .iter()
        .filter(|window| window.selects_cluster(cluster) && window.selects_module(module));
    let mut active: Vec<Active<'_>> = selecting
        .map(|window| Active {
            window,
            state: window.entries_for(Some(cluster)),
            bypass_end: window.bypass_end(module, now),
        })
        .collect();
    active.sort_by(|one, other| one.window.name.cmp(&other.window.name));
    let (open, until) = search::until(&active, now);
    let state = if open {
        State::Open { until }
    } else {
        closed(&active, now, until)
    };
    // The end of a bypass that another bypass outlasts is not a change, but evaluating once too often does no harm.
    let next_change = active.iter().filter_map(|window| window.next_change(now)).min();
    let next_change = next_change
        .into_iter()
        .chain(reworded(&state, next_change, now))
        .min();
    Answer { state, next_change }
}

/// When the answer for a closed cluster may change although no window does: [`LONG`] before it opens, and once a day
/// while its opening is too far ahead to be found.
fn reworded(state: &State, next_change: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let State::Closed(closed) = state else {
        return None;
    };
    match closed.until {
        Some(until) => until.checked_sub(LONG).ok().filter(|_| closed.is_long),
        None => next_change.and_then(|_| now.checked_add(SignedDuration::from_hours(24)).ok()),
    }
}

/// At least one window closes the cluster, otherwise it would be open.
fn closed(active: &[Active<'_>], now: Timestamp, until: Option<Timestamp>) -> State {
    let denying: Vec<&Active<'_>> = active.iter().filter(|window| window.denies(now)).collect();
    let allowed = active.iter().any(|window| window.allows(now));
    let missing = active
        .iter()
        .filter(|window| window.rule() == Rule::Allow && !allowed);
    let closing: Vec<&Active<'_>> = denying.iter().copied().chain(missing).collect();
    let Some((named, time_zone)) = reported_window(&denying, &closing, now) else {
        return State::Open { until };
    };
    let waits = |is: fn(&Window) -> WhileClosed| {
        let any = closing
            .iter()
            .any(|active| is(active.window) == WhileClosed::Wait);
        if any {
            WhileClosed::Wait
        } else {
            WhileClosed::Allow
        }
    };
    let waited_for = closing
        .iter()
        .any(|active| active.window.while_closed == ClosedClusters::Wait);
    State::Closed(Closed {
        window: named.window.name.clone(),
        error: named.state.as_ref().err().cloned(),
        until,
        time_zone,
        message: named.window.message.clone(),
        reverts: waits(|window| window.reverts),
        withdrawals: waits(|window| window.withdrawals),
        while_closed: if waited_for {
            ClosedClusters::Wait
        } else {
            ClosedClusters::Skip
        },
        is_long: until.is_none_or(|until| until.duration_since(now) > LONG),
    })
}

/// The reported window, and the time zone of the relevant entry. If several qualify, the first by name.
fn reported_window<'a, 'b>(
    denying: &[&'b Active<'a>],
    closing: &[&'b Active<'a>],
    now: Timestamp,
) -> Option<(&'b Active<'a>, TimeZone)> {
    if let Some(invalid) = denying.iter().find(|window| window.state.is_err()) {
        return Some((invalid, TimeZone::UTC));
    }
    let ends = denying
        .iter()
        .filter_map(|window| Some((*window, window.last_end(now)?)));
    // If equal, `max_by_key` returns the last.
    let last = ends
        .rev()
        .max_by_key(|(_, (end, _))| end.unwrap_or(Timestamp::MAX));
    if let Some((window, (_, zone))) = last {
        return Some((window, zone.clone()));
    }
    let starts = closing
        .iter()
        .filter_map(|window| Some((*window, window.first_start(now)?)));
    match starts.min_by_key(|(_, (start, _))| *start) {
        Some((window, (_, zone))) => Some((window, zone.clone())),
        None => closing.first().map(|window| (*window, TimeZone::UTC)),
    }
}
