//! One entry of a window: which local minutes it contains, and when that changes next.

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, DateTime, Time},
    tz::{AmbiguousOffset, TimeZone},
};
use muster_api::rolloutwindow::{Weekday, WindowEntry};

use crate::{Problem, zone::zone};

const MINUTES_OF_A_DAY: u16 = 24 * 60;
const EVERY_DAY: u8 = 0b111_1111;

/// How many boundaries are tried to find the next change of one entry. A day has two; a week without a change only
/// occurs if a clock change skips an entry of one day: 64 is more than three weeks of the densest entry.
const MAX_BOUNDARIES: usize = 64;
/// How many days ahead the next boundary of an entry is searched: each day of the week, and one on either side.
const DAYS_AHEAD: i32 = 9;

/// A validated entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// One bit per day of the week, Monday first.
    days: u8,
    /// Start and end in minutes after midnight; an end before the start is on the next day. `None`: the whole day.
    span: Option<(u16, u16)>,
    /// The first and the last date on which it may start.
    dates: Option<(Date, Date)>,
    pub(crate) zone: Zone,
}

/// The source of an entry's time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// None is needed: the entry has no local times.
    Needless,
    Fixed(TimeZone),
    /// The value of this annotation on each Cluster.
    Annotation(String),
}

impl Entry {
    /// Validates an entry; an error names the field below it, and the problem.
    pub(crate) fn new(entry: &WindowEntry) -> Result<Self, (&'static str, Problem)> {
        let WindowEntry {
            days,
            from,
            to,
            time_zone,
            time_zone_from,
            dates,
        } = entry;
        let days = match days.as_deref() {
            None => EVERY_DAY,
            Some([]) => return Err(("days", Problem::NoDays)),
            Some(days) => days.iter().fold(0, |all, day| all | bit(*day)),
        };
        let span = span(from.as_deref(), to.as_deref())?;
        let dates = dates
            .as_deref()
            .map(range)
            .transpose()
            .map_err(|problem| ("dates", problem))?;
        let local = days != EVERY_DAY || entry.days.is_some() || from.is_some() || dates.is_some();
        let zone = match (time_zone, time_zone_from) {
            (Some(_), Some(_)) => return Err(("timeZone", Problem::TwoTimeZones)),
            (Some(name), None) => Zone::Fixed(zone(name).map_err(|problem| ("timeZone", problem))?),
            (None, Some(from)) => Zone::Annotation(from.annotation.clone()),
            (None, None) if local => return Err(("timeZone", Problem::NoTimeZone)),
            (None, None) => Zone::Needless,
        };
        Ok(Self {
            days,
            span,
            dates,
            zone,
        })
    }

    /// Whether an occurrence starts on this date.
    pub(crate) fn starts_on(&self, date: Date) -> bool {
        let weekday = 1 << date.weekday().to_monday_zero_offset();
        let dated = self
            .dates
            .is_none_or(|(first, last)| first <= date && date <= last);
        self.days & weekday != 0 && dated
    }

    /// The local start and end of the occurrence that starts on this date.
    pub(crate) fn occurrence(&self, date: Date) -> Option<(DateTime, DateTime)> {
        let (from, to) = self.span.unwrap_or((0, MINUTES_OF_A_DAY));
        let end = if to < from { date.tomorrow().ok()? } else { date };
        Some((at(date, from)?, at(end, to)?))
    }

    /// Whether the entry contains this instant.
    pub(crate) fn contains(&self, zone: &TimeZone, instant: Timestamp) -> bool {
        let local = zone.to_datetime(instant);
        let (today, time) = (local.date(), local.time());
        let started_today = || self.starts_on(today);
        let started_yesterday = || today.yesterday().is_ok_and(|date| self.starts_on(date));
        match self.span {
            None => started_today(),
            Some((from, to)) if from < to => time >= clock(from) && before(time, to) && started_today(),
            Some((from, to)) => {
                time >= clock(from) && started_today() || before(time, to) && started_yesterday()
            }
        }
    }

    /// The first instant after this one at which [`Entry::contains`] changes. `None` if it never does.
    pub(crate) fn next_change(&self, zone: &TimeZone, instant: Timestamp) -> Option<Timestamp> {
        let inside = self.contains(zone, instant);
        let mut boundary = instant;
        for _ in 0..MAX_BOUNDARIES {
            boundary = self.next_boundary(zone, boundary)?;
            if self.contains(zone, boundary) != inside {
                return Some(boundary);
            }
        }
        None
    }

    /// The first instant after this one at which [`Entry::contains`] may change: where the local time reaches a start
    /// or an end, or jumps.
    fn next_boundary(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        if self.is_solid() && self.dates.is_none() {
            return None;
        }
        let after = self
            .skip_ahead(zone, after)
            .map_or(after, |later| later.max(after));
        let today = zone.to_datetime(after).date();
        if self.dates.is_some_and(|(_, last)| is_past(last, today)) {
            return None;
        }
        let mut reached: Option<Timestamp> = None;
        for days in -1..=DAYS_AHEAD {
            let date = today.checked_add(days.days()).ok()?;
            let earlier = reached;
            let instants = self
                .local_boundaries(date)
                .flat_map(|local| instants(zone, local));
            reached = reached
                .into_iter()
                .chain(instants.filter(|instant| *instant > after))
                .min();
            // An occurrence that starts two days later cannot come first: a clock change moves it by less than a day.
            if earlier.is_some() {
                break;
            }
        }
        let jump = zone.following(after).next().map(|jump| jump.timestamp());
        reached.into_iter().chain(jump).min()
    }

    /// An instant before which nothing changes, if the next boundary may be years away: the start of the dates, or
    /// their end for an entry of whole days.
    fn skip_ahead(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let (first, last) = self.dates?;
        let today = zone.to_datetime(after).date();
        let eve = |date: Date| date.yesterday().ok();
        let next = if today < first {
            eve(first)?
        } else if self.is_solid() {
            eve(last)?
        } else {
            return None;
        };
        let skip = today < next;
        let instant = || zone.to_ambiguous_timestamp(at(next, 0)?).compatible().ok();
        skip.then(instant).flatten()
    }

    /// Whether only the dates of the entry depend on the local time.
    fn is_solid(&self) -> bool {
        self.span.is_none() && self.days == EVERY_DAY
    }

    /// The start and the end of the occurrence on this date; adjacent whole days have boundaries without a change,
    /// which does no harm.
    fn local_boundaries(&self, date: Date) -> impl Iterator<Item = DateTime> {
        let occurrence = self.starts_on(date).then(|| self.occurrence(date)).flatten();
        occurrence.into_iter().flat_map(|(from, to)| [from, to])
    }
}

/// The instants at which this is the local time: two if the hour is repeated, none if it is skipped.
fn instants(zone: &TimeZone, local: DateTime) -> impl Iterator<Item = Timestamp> {
    let offsets = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
        AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
        AmbiguousOffset::Gap { .. } => [None, None],
    };
    offsets
        .into_iter()
        .flatten()
        .filter_map(move |offset| offset.to_timestamp(local).ok())
}

fn span(from: Option<&str>, to: Option<&str>) -> Result<Option<(u16, u16)>, (&'static str, Problem)> {
    let (from, to) = match (from, to) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(("to", Problem::HalfOpen)),
        (None, Some(_)) => return Err(("from", Problem::HalfOpen)),
        (Some(from), Some(to)) => (from, to),
    };
    let start = minutes(from).filter(|start| *start < MINUTES_OF_A_DAY);
    let start = start.ok_or_else(|| ("from", Problem::Time(from.to_owned())))?;
    let end = minutes(to).ok_or_else(|| ("to", Problem::Time(to.to_owned())))?;
    match (start, end) {
        _ if start == end => Err(("to", Problem::SameTime(to.to_owned()))),
        (0, MINUTES_OF_A_DAY) => Ok(None),
        span => Ok(Some(span)),
    }
}

/// Parses `HH:MM`, up to 24:00, into minutes after midnight.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str| {
        let valid = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        valid.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let all = hours * 60 + minutes;
    (minutes < 60 && all <= MINUTES_OF_A_DAY).then_some(all)
}

fn range(text: &str) -> Result<(Date, Date), Problem> {
    let unreadable = || Problem::Dates(text.to_owned());
    let date = |text: &str| {
        let valid = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        valid.then(|| text.parse::<Date>().ok()).flatten()
    };
    let (first, last) = text.split_once('/').ok_or_else(unreadable)?;
    let (first, last) = (
        date(first).ok_or_else(unreadable)?,
        date(last).ok_or_else(unreadable)?,
    );
    if last < first {
        return Err(Problem::DatesBackwards { first, last });
    }
    Ok((first, last))
}

const fn bit(day: Weekday) -> u8 {
    1 << (day as u8)
}

/// The local time a number of minutes after midnight; 24:00 is on the next day.
fn at(date: Date, minutes: u16) -> Option<DateTime> {
    if minutes >= MINUTES_OF_A_DAY {
        return Some(date.tomorrow().ok()?.to_datetime(Time::midnight()));
    }
    Some(date.to_datetime(clock(minutes)))
}

/// The last occurrence cannot reach into today, nor again when the clock is set back.
fn is_past(last: Date, today: Date) -> bool {
    last.checked_add(2.days()).is_ok_and(|over| today > over)
}

fn clock(minutes: u16) -> Time {
    let part = |number: u16| i8::try_from(number).unwrap_or_default();
    Time::new(part(minutes / 60), part(minutes % 60), 0, 0).unwrap_or(Time::MAX)
}

fn before(time: Time, end: u16) -> bool {
    end >= MINUTES_OF_A_DAY || time < clock(end)
}
