//! Promise: times that a clock change skips do not open the window, and are reported in advance.

use serde_json::{Value, json};

use crate::support::{answer_at, at, valid, words};

fn skipped(entry: &Value, now: &str) -> Vec<String> {
    let window = valid("w", &json!({ "allow": [{}, entry] }));
    window
        .skipped(None, at(now))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn an_entry_inside_the_gap_is_reported_and_stays_closed() {
    let entry = json!({ "days": ["Sun"], "from": "02:10", "to": "02:50", "timeZone": "Europe/Berlin" });
    assert_eq!(
        skipped(&entry, "2026-01-01T00:00:00Z"),
        ["entry 1 does not apply on 2026-03-29: the clock of Europe/Berlin jumps over 02:10 to 02:50"]
    );
    let windows = [valid("w", &json!({ "allow": [entry] }))];
    assert_eq!(
        words(&answer_at(&windows, "2026-03-29T00:59:00Z")),
        "closed until 2026-04-05T00:10:00Z"
    );
}

#[test]
fn what_is_there_in_part_is_not_reported() {
    for entry in [
        json!({ "from": "01:30", "to": "02:30", "timeZone": "Europe/Berlin" }),
        json!({ "from": "02:30", "to": "03:01", "timeZone": "Europe/Berlin" }),
        json!({ "days": ["Mon"], "from": "02:10", "to": "02:50", "timeZone": "Europe/Berlin" }),
        json!({ "from": "02:10", "to": "02:50", "timeZone": "Asia/Kolkata" }),
        json!({ "from": "02:00", "to": "02:31", "timeZone": "Australia/Lord_Howe" }),
    ] {
        assert_eq!(skipped(&entry, "2026-01-01T00:00:00Z"), [""; 0], "{entry}");
    }
    let half = json!({ "from": "02:00", "to": "02:30", "timeZone": "Australia/Lord_Howe" });
    assert_eq!(
        skipped(&half, "2026-01-01T00:00:00Z").len(),
        1,
        "half an hour is what is skipped there"
    );
}

#[test]
fn a_whole_day_can_be_skipped() {
    let friday = json!({ "dates": "2011-12-30/2011-12-30", "timeZone": "Pacific/Apia" });
    assert_eq!(
        skipped(&friday, "2011-12-01T00:00:00Z"),
        ["entry 1 does not apply on 2011-12-30: the clock of Pacific/Apia jumps over 00:00 to 00:00"]
    );
    let windows = [valid("w", &json!({ "allow": [friday] }))];
    assert_eq!(
        words(&answer_at(&windows, "2011-12-01T00:00:00Z")),
        "closed until -"
    );
}
