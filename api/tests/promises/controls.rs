//! Promise: a control round-trips as plain text or as an object; text that begins like an object but is not valid
//! yields an error that says what to write.

use jiff::Timestamp;
use muster_api::control::{Control, ControlError};
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn plain(what: &str) -> Control {
    Control {
        what: what.to_owned(),
        ..Control::default()
    }
}

#[test]
fn plain_text_is_what_it_is_for() {
    let check =
        |text: &str, expect: &str| assert_eq!(Control::parse(text).unwrap(), plain(expect), "{text:?}");
    check("true", "true");
    check("", "");
    check("  0a1b  ", "0a1b");
    check("eu-1,eu-2", "eu-1,eu-2");
    check("[1]", "[1]");
    check("\"x\"", "\"x\"");
    check("}{", "}{");
}

#[test]
fn an_object_says_more() {
    let check = |text: &str, expect: Control| assert_eq!(Control::parse(text).unwrap(), expect, "{text}");
    check("{}", Control::default());
    check(r#" {"for": "0a1b"} "#, plain("0a1b"));
    check(r#"{"for": "", "by": null}"#, Control::default());
    check(
        r#"{"for": "true", "by": "ann", "reason": "freeze", "at": "2026-01-02T03:04:05Z", "until": "2026-01-02T05:04:05+01:00"}"#,
        Control {
            what: "true".to_owned(),
            by: Some("ann".to_owned()),
            reason: Some("freeze".to_owned()),
            at: Some(at("2026-01-02T03:04:05Z")),
            until: Some(at("2026-01-02T04:04:05Z")),
        },
    );
}

#[test]
fn what_cannot_be_read_and_the_words_for_it() {
    let cases = [
        "{",
        "{true}",
        "{\"by\": \"ann\"} and more",
        "{\"by\": ann}",
        "{\"by\": 7}",
        "{\"untill\": \"2026-01-02T03:04:05Z\"}",
        "{\"until\": \"tomorrow\"}",
        "{\"until\": \"2026-01-02\"}",
        "{\"at\": 1700000000}",
        "{\"by\": \"ann\", \"by\": \"bob\"}",
    ];
    let errors = cases.map(|text| {
        let error = Control::parse(text).unwrap_err();
        let variant = match error {
            ControlError::NotJson { .. } => "NotJson",
            ControlError::NotControl { .. } => "NotControl",
            ControlError::TooLong { .. } => "TooLong",
        };
        format!("{text}\n    {variant}: {error}")
    });
    insta::assert_snapshot!(errors.join("\n"));
    let long = format!("{{\"{}\": 1}}", "x".repeat(200_000));
    assert!(Control::parse(&long).unwrap_err().to_string().len() < 400);
}

#[test]
fn it_ends() {
    let now = at("2026-01-02T03:04:05Z");
    let check =
        |text: &str, expect: bool| assert_eq!(Control::parse(text).unwrap().holds(now), expect, "{text}");
    check("true", true);
    check("", true);
    check("false", false);
    check(r#"{"for": "false"}"#, false);
    check(r#"{"until": "2026-01-02T03:04:06Z"}"#, true);
    check(r#"{"until": "2026-01-02T03:04:05Z"}"#, false);
    check(r#"{"at": "2030-01-01T00:00:00Z"}"#, true);
}

#[test]
fn a_control_until_centuries_away_is_rejected() {
    let now = at("2026-01-02T03:04:05Z");
    let check = |until: &str, over: bool, expect: Result<(), &str>| {
        let control = Control::parse(&format!("{{\"until\": \"{until}\"}}")).unwrap();
        assert_eq!(control.is_over(now), over, "{until}");
        let meant = control.meant(now).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(meant.as_ref().copied().map_err(String::as_str), expect, "{until}");
    };
    check("2025-01-02T03:04:05Z", true, Ok(()));
    check("2026-01-02T03:04:05Z", true, Ok(()));
    check("2027-01-03T03:04:05Z", false, Ok(()));
    let late = "until is 2027-01-03T03:04:06Z, more than a year from now: set an earlier time, or omit it";
    check("2027-01-03T03:04:06Z", false, Err(late));
    let far = "until is 2326-01-02T03:04:05Z, more than a year from now: set an earlier time, or omit it";
    check("2326-01-02T03:04:05Z", false, Err(far));
    assert_eq!(plain("true").meant(now), Ok(plain("true")));
    assert!(
        Control::parse(r#"{"until": "9999-12-30T22:00:00Z"}"#)
            .unwrap()
            .meant(Timestamp::MAX)
            .is_ok()
    );
}

#[test]
fn names_are_separated_by_commas() {
    let check = |text: &str, expect: &[&str]| {
        let control = plain(text);
        assert_eq!(control.names().into_iter().collect::<Vec<_>>(), expect, "{text}");
    };
    check("", &[]);
    check("eu-1", &["eu-1"]);
    check(" us-1 , eu-1,, eu-1 ,", &["eu-1", "us-1"]);
}

#[test]
fn control_texts_are_sanitized_and_bounded() {
    let check =
        |text: &str, expect: &str| assert_eq!(Control::parse(text).unwrap().provenance(), expect, "{text}");
    check("true", "");
    check(r#"{"by": "ann"}"#, " by ann");
    check(
        r#"{"by": "ann\n[31m", "reason": "freeze", "at": "2026-01-02T03:04:05Z", "until": "2026-01-03T03:04:05Z"}"#,
        " by ann [31m (freeze) since 2026-01-02T03:04:05Z until 2026-01-03T03:04:05Z",
    );
    let long = Control {
        reason: Some("ä".repeat(100_000)),
        ..Control::default()
    };
    assert!(long.provenance().len() < 300);
}

fn controls() -> impl Strategy<Value = Control> {
    let time = || {
        let seconds = -60_000_000_000_i64..200_000_000_000;
        proptest::option::of(seconds.prop_map(|seconds| Timestamp::from_second(seconds).unwrap()))
    };
    let text = || proptest::option::of(any::<String>());
    (any::<String>(), text(), text(), time(), time()).prop_map(|(what, by, reason, at, until)| Control {
        what: what.trim().to_owned(),
        by,
        reason,
        at,
        until,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(control in controls()) {
        prop_assert_eq!(Control::parse(&control.to_text()).unwrap(), control);
    }

    #[test]
    fn no_text_is_too_much(text in "\\{?.{0,60}") {
        if let Ok(control) = Control::parse(&text) {
            prop_assert_eq!(Control::parse(&control.to_text()).unwrap(), control);
        }
    }
}
