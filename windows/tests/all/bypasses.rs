//! Promise: a bypass opens its window for one module until it ends, and no other window.

use serde_json::{Value, json};

use crate::support::{answer_at, closed, valid, window, words};

fn bypassed(rule: &Value, module: &Value, until: &str) -> Value {
    let mut spec = rule.clone();
    spec["bypasses"] = json!([{ "module": module, "reason": "INC-7", "until": until, "by": "ann" }]);
    spec
}

#[test]
fn it_opens_the_window_until_its_end() {
    let web = json!({ "name": "web" });
    let night = json!({ "allow": [{ "from": "02:00", "to": "04:00", "timeZone": "UTC" }] });
    for rule in [json!({ "deny": [{}] }), night] {
        let windows = [valid("w", &bypassed(&rule, &web, "2026-01-05T11:00:00Z"))];
        let answer = answer_at(&windows, "2026-01-05T10:00:00Z");
        assert_eq!(words(&answer), "open until 2026-01-05T11:00:00Z", "{rule}");
        assert_eq!(answer.next_change.unwrap().to_string(), "2026-01-05T11:00:00Z");
        assert!(
            words(&answer_at(&windows, "2026-01-05T11:00:00Z")).starts_with("closed"),
            "{rule}"
        );
    }
}

#[test]
fn it_is_for_one_module_of_one_kind() {
    for module in [
        json!({ "name": "db" }),
        json!({ "kind": "BootstrapModule", "name": "web" }),
    ] {
        let windows = [valid(
            "w",
            &bypassed(&json!({ "deny": [{}] }), &module, "2026-01-05T11:00:00Z"),
        )];
        assert_eq!(
            words(&answer_at(&windows, "2026-01-05T10:00:00Z")),
            "closed until -",
            "{module}"
        );
    }
}

#[test]
fn it_breaks_no_other_window() {
    let windows = [
        valid(
            "mine",
            &bypassed(
                &json!({ "deny": [{}] }),
                &json!({ "name": "web" }),
                "2026-01-05T11:00:00Z",
            ),
        ),
        valid("theirs", &json!({ "deny": [{}] })),
    ];
    let answer = answer_at(&windows, "2026-01-05T10:00:00Z");
    assert_eq!(closed(&answer).window, "theirs");
}

#[test]
fn a_window_that_opens_meanwhile_stays_open() {
    let deny = json!({ "deny": [{ "dates": "2026-01-01/2026-01-05", "timeZone": "UTC" }] });
    let windows = [valid(
        "w",
        &bypassed(&deny, &json!({ "name": "web" }), "2026-01-06T11:00:00Z"),
    )];
    assert_eq!(
        words(&answer_at(&windows, "2026-01-05T10:00:00Z")),
        "open until -"
    );
    let short = [valid(
        "w",
        &bypassed(&deny, &json!({ "name": "web" }), "2026-01-05T11:00:00Z"),
    )];
    assert_eq!(
        words(&answer_at(&short, "2026-01-05T10:00:00Z")),
        "open until 2026-01-05T11:00:00Z"
    );
}

#[test]
fn it_is_the_way_out_of_a_window_that_cannot_be_read() {
    for rule in [
        json!({ "deny": [{ "timeZone": "Mars" }] }),
        json!({ "deny": "always" }),
    ] {
        let broken = window(
            "w",
            &bypassed(&rule, &json!({ "name": "web" }), "2026-01-05T11:00:00Z"),
        );
        assert!(!broken.errors().is_empty());
        assert_eq!(
            words(&answer_at(&[broken], "2026-01-05T10:00:00Z")),
            "open until 2026-01-05T11:00:00Z"
        );
    }
}
