//! Promise: entries open and close when Python's zoneinfo says so, minute by minute over three years
//! (`fixtures/intervals.py`).

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::support::{ask_of, at, valid};
use muster_windows::State;

#[test]
fn every_change_is_where_zoneinfo_has_it() {
    let fixture: Value = serde_json::from_str(include_str!("../fixtures/intervals.json")).unwrap();
    let (first, last) = (
        at(fixture["first"].as_str().unwrap()),
        at(fixture["last"].as_str().unwrap()),
    );
    let cases = fixture["cases"].as_array().unwrap();
    let mut changes = 0;
    for case in cases {
        let mut entry = case["entry"].clone();
        entry["timeZone"] = case["timeZone"].clone();
        let allow = valid("w", &json!({ "allow": [entry] }));
        let deny = valid("w", &json!({ "deny": [entry] }));
        let mut now = first;
        let mut open = case["open"].as_bool().unwrap();
        for minute in case["changes"].as_array().unwrap() {
            let summary = allow.summary(now);
            let expect = first + minute.as_i64().unwrap().minutes();
            let within = expect.duration_since(now) <= muster_windows::HORIZON;
            let found = summary.next_change;
            assert_eq!(summary.open, Some(open), "{entry} at {now}");
            assert!(
                found == Some(expect) || found.is_none() && !within,
                "{entry} at {now}: {found:?}, not {expect}"
            );
            assert_eq!(deny.summary(now).open, Some(!open), "{entry} at {now}");
            (now, open) = (expect, !open);
            changes += 1;
        }
        let rest = allow.summary(now);
        assert!(
            rest.open == Some(open) && rest.next_change.is_none_or(|next| next >= last),
            "{entry}: {rest:?}"
        );
    }
    println!("{} cases, {changes} changes", cases.len());
    let zones: BTreeSet<&str> = cases
        .iter()
        .map(|case| case["timeZone"].as_str().unwrap())
        .collect();
    assert_eq!((cases.len(), zones.len()), (60, 5));
    assert!(changes > 10_000, "{changes}");
}

/// The same with the annotation of a cluster, at each change and at the minute before it.
#[test]
fn a_cluster_is_open_when_zoneinfo_says_so() {
    let fixture: Value = serde_json::from_str(include_str!("../fixtures/intervals.json")).unwrap();
    let first: Timestamp = at(fixture["first"].as_str().unwrap());
    for case in fixture["cases"].as_array().unwrap() {
        let mut entry = case["entry"].clone();
        entry["timeZoneFrom"] = json!({ "annotation": "zone" });
        let windows = [valid("w", &json!({ "allow": [entry] }))];
        let zone = case["timeZone"].as_str().unwrap();
        let open_at = |instant: Timestamp| {
            let answer = ask_of(&windows, &[], &[("zone", zone)], &instant.to_string());
            matches!(answer.state, State::Open { .. })
        };
        let mut open = case["open"].as_bool().unwrap();
        for minute in case["changes"].as_array().unwrap().iter().take(120) {
            let change = first + minute.as_i64().unwrap().minutes();
            assert_eq!(
                open_at(change - 1.second()),
                open,
                "{entry} {zone} before {change}"
            );
            open = !open;
            assert_eq!(open_at(change), open, "{entry} {zone} at {change}");
        }
    }
}
