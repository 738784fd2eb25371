//! Promise: an entry means what its fields say, to the minute.

use serde_json::{Value, json};

use crate::support::{answer_at, ask_of, valid, words};

fn check(rule: &Value, cases: &[(&str, &str)]) {
    let windows = [valid("w", rule)];
    for (now, expect) in cases {
        assert_eq!(words(&answer_at(&windows, now)), *expect, "{rule} at {now}");
    }
}

#[test]
fn without_a_window_that_selects_it_a_cluster_is_open() {
    assert_eq!(words(&answer_at(&[], "2026-01-01T00:00:00Z")), "open until -");
    let elsewhere = json!({ "selector": { "matchLabels": { "env": "dev" } }, "deny": [{}] });
    let of_others = json!({ "moduleSelector": { "matchLabels": { "tier": "db" } }, "deny": [{}] });
    let answer = answer_at(
        &[valid("a", &elsewhere), valid("b", &of_others)],
        "2026-01-01T00:00:00Z",
    );
    assert_eq!(
        (words(&answer).as_str(), answer.next_change),
        ("open until -", None)
    );
}

#[test]
fn an_empty_entry_is_always() {
    check(
        &json!({ "allow": [{}] }),
        &[("2026-01-01T00:00:00Z", "open until -")],
    );
    check(
        &json!({ "deny": [{}] }),
        &[("2026-01-01T00:00:00Z", "closed until -")],
    );
    check(
        &json!({ "allow": [{ "timeZone": "Asia/Kolkata", "from": "00:00", "to": "24:00" }] }),
        &[("2026-01-01T00:00:00Z", "open until -")],
    );
}

#[test]
fn a_start_is_inside_and_an_end_is_not() {
    check(
        &json!({ "allow": [{ "days": ["Mon"], "from": "09:00", "to": "17:00", "timeZone": "Europe/Berlin" }] }),
        &[
            ("2026-01-05T07:59:59Z", "closed until 2026-01-05T08:00:00Z"),
            ("2026-01-05T08:00:00Z", "open until 2026-01-05T16:00:00Z"),
            ("2026-01-05T15:59:59Z", "open until 2026-01-05T16:00:00Z"),
            ("2026-01-05T16:00:00Z", "closed until 2026-01-12T08:00:00Z"),
        ],
    );
}

#[test]
fn days_name_the_start_of_what_ends_the_next_day() {
    check(
        &json!({ "allow": [{ "days": ["Fri"], "from": "22:00", "to": "02:00", "timeZone": "UTC" }] }),
        &[
            ("2026-01-02T01:00:00Z", "closed until 2026-01-02T22:00:00Z"), // Friday morning is Thursday's
            ("2026-01-02T23:00:00Z", "open until 2026-01-03T02:00:00Z"),
            ("2026-01-03T01:59:00Z", "open until 2026-01-03T02:00:00Z"),
            ("2026-01-03T22:00:00Z", "closed until 2026-01-09T22:00:00Z"),
        ],
    );
}

#[test]
fn the_end_of_a_day_is_written_in_two_ways() {
    for to in ["24:00", "00:00"] {
        check(
            &json!({ "allow": [{ "days": ["Sun"], "from": "20:00", "to": to, "timeZone": "UTC" }] }),
            &[
                ("2026-01-04T20:00:00Z", "open until 2026-01-05T00:00:00Z"),
                ("2026-01-05T00:00:00Z", "closed until 2026-01-11T20:00:00Z"),
            ],
        );
    }
}

#[test]
fn both_dates_are_inside() {
    check(
        &json!({ "deny": [{ "dates": "2026-12-20/2027-01-03", "timeZone": "Europe/Berlin" }] }),
        &[
            ("2026-01-01T00:00:00Z", "open until 2026-12-19T23:00:00Z"),
            ("2026-12-19T23:00:00Z", "closed until 2027-01-03T23:00:00Z"),
            ("2027-01-03T22:59:00Z", "closed until 2027-01-03T23:00:00Z"),
            ("2027-01-03T23:00:00Z", "open until -"),
        ],
    );
    // An occurrence on the last date ends on the next day.
    check(
        &json!({ "allow": [{ "dates": "2026-05-01/2026-05-01", "from": "22:00", "to": "04:00", "timeZone": "UTC" }] }),
        &[
            ("2026-05-01T03:00:00Z", "closed until 2026-05-01T22:00:00Z"),
            ("2026-05-02T03:00:00Z", "open until 2026-05-02T04:00:00Z"),
            ("2026-05-02T04:00:00Z", "closed until -"),
        ],
    );
}

#[test]
fn a_change_years_ahead_is_found() {
    check(
        &json!({ "deny": [{ "dates": "2020-01-01/2039-12-31", "timeZone": "Europe/Berlin" }] }),
        &[("2026-01-01T00:00:00Z", "closed until -")], // beyond the horizon
    );
    check(
        &json!({ "deny": [{ "dates": "2035-01-01/2035-12-31", "timeZone": "Europe/Berlin" }] }),
        &[("2026-01-01T00:00:00Z", "open until 2034-12-31T23:00:00Z")],
    );
}

#[test]
fn deny_wins_and_several_allows_are_a_union() {
    let windows = [
        valid(
            "day",
            &json!({ "allow": [{ "from": "08:00", "to": "12:00", "timeZone": "UTC" }] }),
        ),
        valid(
            "noon",
            &json!({ "allow": [{ "from": "12:00", "to": "18:00", "timeZone": "UTC" }] }),
        ),
        valid(
            "lunch",
            &json!({ "deny": [{ "from": "12:30", "to": "13:00", "timeZone": "UTC" }] }),
        ),
    ];
    for (now, expect) in [
        ("2026-01-05T07:00:00Z", "closed until 2026-01-05T08:00:00Z"),
        ("2026-01-05T09:00:00Z", "open until 2026-01-05T12:30:00Z"),
        ("2026-01-05T12:30:00Z", "closed until 2026-01-05T13:00:00Z"),
        ("2026-01-05T17:00:00Z", "open until 2026-01-05T18:00:00Z"),
    ] {
        assert_eq!(words(&answer_at(&windows, now)), expect, "{now}");
        let mut reversed = windows.clone();
        reversed.reverse();
        assert_eq!(
            answer_at(&reversed, now),
            answer_at(&windows, now),
            "{now}: the order means nothing"
        );
    }
}

#[test]
fn an_allow_that_is_denied_throughout_never_opens() {
    let allow = valid(
        "a",
        &json!({ "allow": [{ "from": "10:00", "to": "11:00", "timeZone": "UTC" }] }),
    );
    let deny = json!({ "deny": [{ "from": "09:00", "to": "12:00", "timeZone": "UTC" }] });
    let answer = answer_at(&[allow, valid("d", &deny)], "2026-01-05T10:00:00Z");
    assert_eq!(words(&answer), "closed until -");
    assert!(answer.next_change.is_some(), "it is asked again");
}

#[test]
fn a_union_of_pieces_is_open_throughout() {
    let pieces = json!({ "allow": [
        { "from": "00:00", "to": "12:00", "timeZone": "UTC" },
        { "from": "12:00", "to": "24:00", "timeZone": "UTC" },
    ] });
    check(&pieces, &[("2026-01-05T10:00:00Z", "open until -")]);
}

#[test]
fn each_cluster_may_have_its_time_zone() {
    let night = json!({ "allow": [{ "from": "02:00", "to": "04:00", "timeZoneFrom": { "annotation": "example.com/zone" } }] });
    let windows = [valid("night", &night)];
    for (zone, expect) in [
        ("Europe/Berlin", "open until 2026-01-05T03:00:00Z"),
        ("Asia/Kolkata", "closed until 2026-01-05T20:30:00Z"),
    ] {
        let answer = ask_of(
            &windows,
            &[],
            &[("example.com/zone", zone)],
            "2026-01-05T01:30:00Z",
        );
        assert_eq!(words(&answer), expect, "{zone}");
    }
}

#[test]
fn the_repeated_hour_counts_twice() {
    let rule = json!({ "allow": [{ "days": ["Sun"], "from": "02:00", "to": "03:00", "timeZone": "Europe/Berlin" }] });
    check(
        &rule,
        &[
            ("2026-10-24T23:59:00Z", "closed until 2026-10-25T00:00:00Z"),
            ("2026-10-25T00:00:00Z", "open until 2026-10-25T02:00:00Z"),
        ],
    );
    let half = json!({ "allow": [{ "days": ["Sun"], "from": "02:00", "to": "02:30", "timeZone": "Europe/Berlin" }] });
    check(
        &half,
        &[
            ("2026-10-25T00:00:00Z", "open until 2026-10-25T00:30:00Z"),
            ("2026-10-25T00:30:00Z", "closed until 2026-10-25T01:00:00Z"),
            ("2026-10-25T01:00:00Z", "open until 2026-10-25T01:30:00Z"),
            ("2026-10-25T01:30:00Z", "closed until 2026-11-01T01:00:00Z"),
        ],
    );
}
