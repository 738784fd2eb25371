//! Finds until when a set of windows stays open or closed, by jumping between boundaries.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    WindowError,
    entry::Entry,
    window::{Entries, Rule, Window},
};

/// How far ahead the next opening or closing is searched: 366 days.
pub const HORIZON: SignedDuration = SignedDuration::from_hours(366 * 24);
/// How many boundaries are tried: more than two for each day of [`HORIZON`]. Only windows that are split into hours and
/// together never change need more.
pub const MAX_STEPS: usize = 2_048;

/// A window that selects the cluster and the module, with its time zones for that cluster.
pub(crate) struct Active<'a> {
    pub(crate) window: &'a Window,
    /// The entries, or why the window is closed.
    pub(crate) state: Result<Entries<'a>, WindowError>,
    /// The end of a bypass, until which the window is open whatever its entries say.
    pub(crate) bypass_end: Option<Timestamp>,
}

impl Active<'_> {
    fn is_bypassed(&self, at: Timestamp) -> bool {
        self.bypass_end.is_some_and(|end| at < end)
    }

    /// The rule of the window; an invalid window denies.
    pub(crate) fn rule(&self) -> Rule {
        self.state.as_ref().map_or(Rule::Deny, |entries| entries.rule)
    }

    fn entries(&self) -> &[(&Entry, TimeZone)] {
        self.state.as_ref().map_or(&[], |entries| &entries.entries)
    }

    /// Whether the window denies all changes.
    pub(crate) fn denies(&self, at: Timestamp) -> bool {
        let denying = self.state.is_err() || self.contains(at);
        self.rule() == Rule::Deny && denying && !self.is_bypassed(at)
    }

    /// Whether the window allows changes, unless another one denies them.
    pub(crate) fn allows(&self, at: Timestamp) -> bool {
        self.rule() == Rule::Allow && (self.is_bypassed(at) || self.contains(at))
    }

    fn contains(&self, at: Timestamp) -> bool {
        self.entries()
            .iter()
            .any(|(entry, zone)| entry.contains(zone, at))
    }

    /// The entry that contains this instant and ends last, with its end; `None` as the end means never.
    pub(crate) fn last_end(&self, at: Timestamp) -> Option<(Option<Timestamp>, &TimeZone)> {
        let inside = self
            .entries()
            .iter()
            .filter(|(entry, zone)| entry.contains(zone, at));
        let ends = inside.map(|(entry, zone)| (entry.next_change(zone, at), zone));
        ends.max_by_key(|(end, _)| end.unwrap_or(Timestamp::MAX))
    }

    /// The entry that starts next after this instant, among those that do not contain it.
    pub(crate) fn first_start(&self, at: Timestamp) -> Option<(Timestamp, &TimeZone)> {
        let outside = self
            .entries()
            .iter()
            .filter(|(entry, zone)| !entry.contains(zone, at));
        let starts = outside.filter_map(|(entry, zone)| Some((entry.next_change(zone, at)?, zone)));
        starts.min_by_key(|(start, _)| *start)
    }

    /// The first instant after this one at which anything in the window changes.
    pub(crate) fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let entries = self
            .entries()
            .iter()
            .filter_map(|(entry, zone)| entry.next_change(zone, at));
        entries.chain(self.bypass_end.filter(|end| *end > at)).min()
    }

    /// When the window stops allowing changes. `None` if never.
    fn allowed_until(&self, at: Timestamp) -> Option<Timestamp> {
        let inside = self.last_end(at);
        match (inside, self.bypass_end.filter(|end| *end > at)) {
            (Some((end, _)), bypass) => Some(end?.max(bypass.unwrap_or(at))),
            (None, bypass) => bypass,
        }
    }

    /// When the window starts to deny changes. `None` if never.
    fn denied_from(&self, at: Timestamp) -> Option<Timestamp> {
        if self.rule() == Rule::Allow {
            return None;
        }
        match self.bypass_end.filter(|end| *end > at) {
            Some(end) if self.denies(end) => Some(end),
            Some(end) => self.first_start(end).map(|(start, _)| start),
            None => self.first_start(at).map(|(start, _)| start),
        }
    }
}

/// Whether changes may start.
pub(crate) fn is_open(active: &[Active<'_>], at: Timestamp) -> bool {
    let mut allow = active
        .iter()
        .filter(|window| window.rule() == Rule::Allow)
        .peekable();
    let allowed = allow.peek().is_none() || allow.any(|window| window.allows(at));
    allowed && !active.iter().any(|window| window.denies(at))
}

/// Whether changes may start at this instant, and until when that stays so. `None`: forever, or beyond the horizon.
pub(crate) fn until(active: &[Active<'_>], now: Timestamp) -> (bool, Option<Timestamp>) {
    if is_open(active, now) {
        (true, closing(active, now))
    } else {
        (false, opening(active, now))
    }
}

/// When open windows close.
fn closing(active: &[Active<'_>], now: Timestamp) -> Option<Timestamp> {
    let denied = active.iter().filter_map(|window| window.denied_from(now)).min();
    let has_allow = active.iter().any(|window| window.rule() == Rule::Allow);
    let over = || {
        let mut at = now;
        for _ in 0..MAX_STEPS {
            let ends = active
                .iter()
                .filter(|window| window.allows(at))
                .map(|window| window.allowed_until(at));
            // No window allows changes any more: this is the end.
            let Some(end) = ends.max_by_key(|end| end.unwrap_or(Timestamp::MAX)) else {
                return Some(at);
            };
            at = end?;
            if denied.is_some_and(|denied| denied <= at) || is_beyond(now, at) {
                return None;
            }
        }
        None
    };
    let ended = has_allow.then(over).flatten();
    denied.into_iter().chain(ended).min()
}

/// When closed windows open.
fn opening(active: &[Active<'_>], now: Timestamp) -> Option<Timestamp> {
    let mut at = now;
    for _ in 0..MAX_STEPS {
        let mut denying = active.iter().filter(|window| window.denies(at)).peekable();
        at = if denying.peek().is_some() {
            let ends = denying.map(|window| window.last_end(at).and_then(|(end, _)| end));
            ends.max_by_key(|end| end.unwrap_or(Timestamp::MAX))??
        } else if is_open(active, at) {
            return Some(at);
        } else {
            let starts = active.iter().filter(|window| window.rule() == Rule::Allow);
            starts
                .filter_map(|window| window.first_start(at))
                .map(|(start, _)| start)
                .min()?
        };
        if is_beyond(now, at) {
            return None;
        }
    }
    None
}

fn is_beyond(now: Timestamp, at: Timestamp) -> bool {
    at.duration_since(now) > HORIZON
}
