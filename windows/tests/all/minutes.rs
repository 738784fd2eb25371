//! Promise: jumping between boundaries finds the same as stepping through every minute, for random sets of windows.

use jiff::{Timestamp, ToSpan, civil, tz::TimeZoneDatabase};
use muster_windows::{State, Window};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{ask_of, at, valid};

/// How far the steps go: 16 days, so that each day of the week occurs twice.
const MINUTES: i64 = 16 * 24 * 60;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// Clocks that change by an hour, by half an hour, at midnight, twice around Ramadan, and never.
const ZONES: [&str; 7] = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "UTC",
];
/// Days before clock changes, and the turn of a year.
const STARTS: [&str; 8] = [
    "2026-03-27T00:00:00Z",
    "2026-10-23T00:00:00Z",
    "2026-03-06T00:00:00Z",
    "2026-10-30T00:00:00Z",
    "2026-04-03T00:00:00Z",
    "2026-09-04T00:00:00Z",
    "2026-02-13T00:00:00Z",
    "2025-12-28T00:00:00Z",
];

/// An entry as numbers, evaluated independently from the documentation.
#[derive(Clone, Debug)]
struct Plain {
    days: Option<Vec<usize>>,
    span: Option<(u16, u16)>,
    /// Days after the start of the test period.
    dates: Option<(i64, i64)>,
    zone: usize,
}

#[derive(Clone, Debug)]
struct PlainWindow {
    allow: bool,
    entries: Vec<Plain>,
    /// Minutes after the instant that is evaluated.
    bypass: Option<i64>,
}

fn entry() -> impl Strategy<Value = Plain> {
    let days = prop::option::of(prop::sample::subsequence((0..7).collect::<Vec<_>>(), 1..=7));
    // The small hours are more likely: that is when clocks change.
    let minute = prop_oneof![0..=240u16, 0..1440u16, (0..48u16).prop_map(|half| half * 30)];
    let span = prop::option::weighted(
        0.8,
        (minute.clone(), minute).prop_filter("a span", |(from, to)| from != to),
    );
    let midnight = any::<bool>();
    let dates = prop::option::weighted(0.3, (-3..10i64, 0..6i64));
    (days, span, midnight, dates, 0..ZONES.len()).prop_map(|(days, span, midnight, dates, zone)| Plain {
        days,
        span: span.map(|(from, to)| {
            if to == 0 && midnight {
                (from, 1440)
            } else {
                (from, to)
            }
        }),
        dates: dates.map(|(first, length)| (first, first + length)),
        zone,
    })
}

fn windows() -> impl Strategy<Value = Vec<PlainWindow>> {
    let entries = prop::collection::vec(entry(), 1..4);
    let bypass = prop::option::weighted(0.2, 1..5000i64);
    let window = (any::<bool>(), entries, bypass);
    prop::collection::vec(window, 1..4).prop_map(|all| {
        let plain = |(allow, entries, bypass)| PlainWindow {
            allow,
            entries,
            bypass,
        };
        all.into_iter().map(plain).collect()
    })
}

fn clock(minute: u16) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

fn written(entry: &Plain, start: civil::Date) -> Value {
    let mut json = json!({ "timeZone": ZONES[entry.zone] });
    if let Some(days) = &entry.days {
        json["days"] = days.iter().map(|day| DAYS[*day]).collect();
    }
    if let Some((from, to)) = entry.span {
        (json["from"], json["to"]) = (clock(from).into(), clock(to).into());
    }
    if let Some((first, last)) = entry.dates {
        json["dates"] = format!("{}/{}", start + first.days(), start + last.days()).into();
    }
    json
}

fn build(plain: &[PlainWindow], start: civil::Date, now: Timestamp) -> Vec<Window> {
    let build = |(index, window): (usize, &PlainWindow)| {
        let entries: Vec<Value> = window.entries.iter().map(|entry| written(entry, start)).collect();
        let mut spec = json!({ if window.allow { "allow" } else { "deny" }: entries });
        if let Some(minutes) = window.bypass {
            let until = (now + minutes.minutes()).to_string();
            spec["bypasses"] = json!([{ "module": { "name": "web" }, "reason": "test", "until": until }]);
        }
        valid(&format!("w{index}"), &spec)
    };
    plain.iter().enumerate().map(build).collect()
}

/// The rule from the documentation, implemented literally.
fn inside(entry: &Plain, start: civil::Date, local: civil::DateTime) -> bool {
    let starts = |date: civil::Date| {
        let day = usize::try_from(date.weekday().to_monday_zero_offset()).unwrap();
        let dated = entry
            .dates
            .is_none_or(|(first, last)| start + first.days() <= date && date <= start + last.days());
        entry.days.as_ref().is_none_or(|days| days.contains(&day)) && dated
    };
    let minute = u16::try_from(i32::from(local.hour()) * 60 + i32::from(local.minute())).unwrap();
    let (from, to) = entry.span.unwrap_or((0, 1440));
    if from < to {
        return from <= minute && minute < to && starts(local.date());
    }
    minute >= from && starts(local.date()) || minute < to && starts(local.date().yesterday().unwrap())
}

/// For each minute from `now` on, whether changes may start.
fn walk(plain: &[PlainWindow], start: civil::Date, now: Timestamp) -> Vec<bool> {
    let database = TimeZoneDatabase::bundled();
    let zones: Vec<_> = ZONES.iter().map(|zone| database.get(zone).unwrap()).collect();
    let open = |minute: i64| {
        let instant = now + minute.minutes();
        let local = |zone: usize| zones[zone].to_datetime(instant);
        let (mut allowed, mut has_allow, mut denied) = (false, false, false);
        for window in plain {
            let bypassed = window.bypass.is_some_and(|until| minute < until);
            let contains = window
                .entries
                .iter()
                .any(|entry| inside(entry, start, local(entry.zone)));
            if window.allow {
                has_allow = true;
                allowed |= bypassed || contains;
            } else {
                denied |= contains && !bypassed;
            }
        }
        !denied && (allowed || !has_allow)
    };
    (0..MINUTES).map(open).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn jumps_find_what_a_walk_over_every_minute_finds(
        plain in windows(),
        start in 0..STARTS.len(),
        minute in 0..4320i64,
        second in 0..60i64,
    ) {
        let first = at(STARTS[start]);
        let date = TimeZoneDatabase::bundled().get("UTC").unwrap().to_datetime(first).date();
        let now = first + minute.minutes();
        let windows = build(&plain, date, now);
        let expect = walk(&plain, date, now);
        let answer = ask_of(&windows, &[], &[], &(now + second.seconds()).to_string());
        let (open, until) = match &answer.state {
            State::Open { until } => (true, *until),
            State::Closed(closed) => (false, closed.until),
        };
        prop_assert_eq!(open, expect[0]);
        let end = expect.iter().position(|later| *later != expect[0]);
        match end {
            Some(end) => prop_assert_eq!(until, Some(now + i64::try_from(end).unwrap().minutes())),
            None => prop_assert!(until.is_none_or(|until| until >= now + MINUTES.minutes()), "{:?}", until),
        }
        // Until the next change the answer stays the same, up to the instants in it.
        if let Some(next) = answer.next_change.filter(|next| *next < now + MINUTES.minutes()) {
            let before = ask_of(&windows, &[], &[], &(next - 1.second()).to_string());
            let named = |state: &State| match state {
                State::Open { .. } => None,
                State::Closed(closed) => Some((closed.window.clone(), closed.reverts, closed.while_closed)),
            };
            prop_assert_eq!(named(&answer.state), named(&before.state));
        }
    }
}
