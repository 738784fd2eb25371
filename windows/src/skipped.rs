//! Entries that a clock change skips: they do not open, although the window suggests that they do.

use std::fmt;

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use crate::{Cluster, HORIZON, Window, entry::Entry};

/// An entry of a window whose times do not exist on a date, because the clock jumps over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The index of the entry in `allow` or `deny`, from 0.
    pub entry: usize,
    /// The date on which it would start.
    pub date: Date,
    /// Local start time.
    pub from: DateTime,
    /// Local end time.
    pub to: DateTime,
    /// The time zone of the entry.
    pub time_zone: TimeZone,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            entry,
            date,
            from,
            to,
            time_zone,
        } = self;
        write!(
            f,
            "entry {entry} does not apply on {date}: the clock of {} jumps over {} to {}",
            time_zone.iana_name().unwrap_or("UTC"),
            from.strftime("%H:%M"),
            to.strftime("%H:%M")
        )
    }
}

impl Window {
    /// The times of this window within [`HORIZON`] that do not exist in this cluster. Empty for an invalid window.
    /// Without a cluster: for a window without `timeZoneFrom`.
    pub fn skipped(&self, cluster: Option<&Cluster<'_>>, now: Timestamp) -> Vec<Skipped> {
        let Ok(entries) = self.entries_for(cluster) else {
            return Vec::new();
        };
        let all = entries.entries.iter().enumerate();
        all.flat_map(|(index, (entry, zone))| of_entry(index, entry, zone, now))
            .collect()
    }
}

fn of_entry(index: usize, entry: &Entry, zone: &TimeZone, now: Timestamp) -> Vec<Skipped> {
    let jumps = zone
        .following(now)
        .take_while(|jump| jump.timestamp().duration_since(now) <= HORIZON);
    let mut skipped = Vec::new();
    for jump in jumps {
        let Some((start, end)) = gap(zone, jump.timestamp()) else {
            continue;
        };
        let dates = (-1..=1).filter_map(|days: i32| start.date().checked_add(days.days()).ok());
        for date in dates.filter(|date| entry.starts_on(*date)) {
            let Some((from, to)) = entry.occurrence(date) else {
                continue;
            };
            if start <= from && to <= end {
                skipped.push(Skipped {
                    entry: index,
                    date,
                    from,
                    to,
                    time_zone: zone.clone(),
                });
            }
        }
    }
    skipped
}

/// The local times that a clock change skips, if it does.
fn gap(zone: &TimeZone, jump: Timestamp) -> Option<(DateTime, DateTime)> {
    let before = jump.checked_sub(1.nanosecond()).ok()?;
    let start = zone.to_offset(before).to_datetime(jump);
    let end = zone.to_offset(jump).to_datetime(jump);
    (start < end).then_some((start, end))
}
