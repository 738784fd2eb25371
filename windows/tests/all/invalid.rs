//! Promise: an invalid window reports why, and closes what it selects; it is never open.

use muster_api::reasons::Reason;
use muster_windows::{Problem, Window, WindowError};
use serde_json::{Value, json};

use crate::support::{answer_at, ask_of, closed, valid, window, words};

const NOW: &str = "2026-01-05T10:00:00Z";

fn entry(entry: &Value) -> Value {
    json!({ "allow": [entry] })
}

/// Each spec has an error with this text, and is closed.
fn check(cases: &[(Value, &str)]) {
    for (spec, expect) in cases {
        let window = window("w", spec);
        let errors: Vec<String> = window.errors().iter().map(ToString::to_string).collect();
        assert!(
            errors.iter().any(|line| line.contains(expect)),
            "{spec}: {errors:?}"
        );
        let answer = answer_at(&[window], NOW);
        assert_eq!(words(&answer), "closed until -", "{spec}");
        let closed = closed(&answer);
        assert_eq!(
            (closed.reason(), closed.is_long),
            (Reason::WindowInvalid, true),
            "{spec}"
        );
    }
}

#[test]
fn each_error_of_an_entry_names_its_field() {
    check(&[
        (json!({}), "spec: set either allow or deny"),
        (
            json!({ "allow": [{}], "deny": [{}] }),
            "spec: set either allow or deny, not both",
        ),
        (json!({ "allow": [] }), "spec.allow: list at least one entry"),
        (
            json!({ "deny": vec![json!({}); 33] }),
            "spec.deny: 33 entries are too many",
        ),
        (
            entry(&json!({ "timeZone": "Europe/Berlim" })),
            "spec.allow[0].timeZone: time zone \"Europe/Berlim\" does not exist",
        ),
        (
            entry(&json!({ "timeZone": "Etc/Unknown" })),
            "spec.allow[0].timeZone: time zone \"Etc/Unknown\" does not exist",
        ),
        (
            entry(&json!({ "timeZone": "../../etc/localtime" })),
            "does not exist",
        ),
        (
            entry(&json!({ "days": ["Mon"] })),
            "spec.allow[0].timeZone: set timeZone or timeZoneFrom",
        ),
        (
            entry(&json!({ "timeZone": "UTC", "timeZoneFrom": { "annotation": "zone" } })),
            "spec.allow[0].timeZone: set either timeZone or timeZoneFrom, not both",
        ),
        (
            entry(&json!({ "days": [], "timeZone": "UTC" })),
            "spec.allow[0].days: list at least one day",
        ),
        (
            entry(&json!({ "from": "10:00", "timeZone": "UTC" })),
            "spec.allow[0].to: set both from and to",
        ),
        (
            entry(&json!({ "to": "10:00", "timeZone": "UTC" })),
            "spec.allow[0].from: set both from and to",
        ),
        (
            entry(&json!({ "from": "10:00", "to": "10:00", "timeZone": "UTC" })),
            "spec.allow[0].to: from and to are both 10:00",
        ),
        (
            entry(&json!({ "from": "24:00", "to": "10:00", "timeZone": "UTC" })),
            "spec.allow[0].from: \"24:00\" is not a time of day",
        ),
        (
            entry(&json!({ "from": "9:00", "to": "10:00", "timeZone": "UTC" })),
            "spec.allow[0].from: \"9:00\" is not a time of day",
        ),
        (
            entry(&json!({ "from": "09:00", "to": "24:01", "timeZone": "UTC" })),
            "spec.allow[0].to: \"24:01\" is not a time of day",
        ),
        (
            entry(&json!({ "from": "09:60", "to": "10:00", "timeZone": "UTC" })),
            "is not a time of day",
        ),
        (
            entry(&json!({ "dates": "2026-02-30/2026-03-01", "timeZone": "UTC" })),
            "spec.allow[0].dates: \"2026-02-30/2026-03-01\" is not a range",
        ),
        (
            entry(&json!({ "dates": "2026-02-03", "timeZone": "UTC" })),
            "is not a range of dates",
        ),
        (
            entry(&json!({ "dates": "2027-01-03/2026-12-20", "timeZone": "UTC" })),
            "spec.allow[0].dates: the dates end on 2026-12-20, before they start on 2027-01-03",
        ),
    ]);
}

#[test]
fn each_error_of_another_field_names_it() {
    check(&[
        (
            json!({ "selector": { "matchExpressions": [{ "key": "env", "operator": "Is" }] }, "allow": [{}] }),
            "spec.selector: operator \"Is\" of key \"env\" does not exist",
        ),
        (
            json!({ "moduleSelector": { "matchLabels": { "a b": "c" } }, "allow": [{}] }),
            "spec.moduleSelector: key \"a b\"",
        ),
        (
            json!({ "allow": [{}], "bypasses": [{ "module": { "name": "web" }, "reason": "INC-1" }] }),
            "spec.bypasses[0]: the bypass of Module/web has no end: set until",
        ),
        (
            json!({ "allow": [{}], "bypasses": [{ "module": { "name": "web" }, "reason": " ", "until": "2027-01-01T00:00:00Z" }] }),
            "spec.bypasses[0]: the bypass of Module/web has no reason",
        ),
        (
            json!({ "allow": [{ "days": ["Monday"] }] }),
            "spec: unknown variant `Monday`",
        ),
        (json!({ "allow": "always" }), "spec: invalid type: string"),
    ]);
}

#[test]
fn every_entry_is_read_to_its_end() {
    let window = window(
        "w",
        &json!({ "deny": [{ "timeZone": "Mars" }, {}, { "days": ["Mon"] }] }),
    );
    let fields: Vec<&str> = window.errors().iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["spec.deny[0].timeZone", "spec.deny[2].timeZone"]);
}

#[test]
fn it_closes_what_it_selects_and_nothing_else() {
    let broken = window(
        "w",
        &json!({ "selector": { "matchLabels": { "env": "dev" } }, "allow": "always" }),
    );
    assert_eq!(
        words(&ask_of(
            std::slice::from_ref(&broken),
            &[("env", "dev")],
            &[],
            NOW
        )),
        "closed until -"
    );
    assert_eq!(
        words(&ask_of(&[broken], &[("env", "prod")], &[], NOW)),
        "open until -"
    );
}

#[test]
fn without_a_selector_that_can_be_read_it_closes_its_namespace() {
    for object in [
        json!({ "metadata": { "name": "w" }, "spec": { "selector": "all", "allow": [{}] } }),
        json!({ "metadata": { "name": "w" }, "spec": { "selector": { "matchExpressions": [{ "key": "env", "operator": "Is" }] }, "allow": [{}] } }),
        json!({ "metadata": { "name": "w" }, "spec": { "allow": [{}] } }),
        json!({ "metadata": { "name": "w" } }),
        json!({}),
    ] {
        let window = Window::read(&object);
        for labels in [&[("env", "dev")][..], &[]] {
            let answer = ask_of(std::slice::from_ref(&window), labels, &[], NOW);
            assert_eq!(words(&answer), "closed until -", "{object}");
        }
    }
}

#[test]
fn a_cluster_without_its_time_zone_is_closed() {
    let rule =
        json!({ "allow": [{ "from": "02:00", "to": "04:00", "timeZoneFrom": { "annotation": "zone" } }] });
    let windows = [valid("night", &rule)];
    let missing = answer_at(&windows, NOW);
    let problem = Problem::NoAnnotation("zone".to_owned());
    let field = "metadata.annotations[zone]".to_owned();
    assert_eq!(closed(&missing).error, Some(WindowError { field, problem }));
    let unknown = ask_of(&windows, &[], &[("zone", "Mars")], NOW);
    assert_eq!(
        closed(&unknown).to_string(),
        "with no opening in sight (night): metadata.annotations[zone]: time zone \"Mars\" does not exist: use a name such as Europe/Berlin or UTC"
    );
    assert_eq!(
        words(&ask_of(&windows, &[], &[("zone", "UTC")], NOW)),
        "closed until 2026-01-06T02:00:00Z"
    );
}

#[test]
fn the_invalid_window_is_named_before_others() {
    let windows = [
        valid("a", &json!({ "deny": [{}] })),
        window("b", &json!({ "allow": [{ "timeZone": "Mars" }] })),
    ];
    assert_eq!(closed(&answer_at(&windows, NOW)).window, "b");
}
