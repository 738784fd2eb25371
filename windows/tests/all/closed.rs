//! Promise: a closed cluster reports which window closes it, until when, and what may start anyway.

use muster_api::{
    reasons::Reason,
    rolloutwindow::{ClosedClusters, WhileClosed},
};
use serde_json::json;

use crate::support::{answer_at, at, closed, valid, words};

#[test]
fn the_words_of_the_page() {
    let freeze = json!({
        "deny": [{ "dates": "2026-11-20/2026-11-30", "timeZone": "Europe/Berlin" }],
        "message": "no changes before the audit",
    });
    let night = json!({ "allow": [{ "from": "02:00", "to": "04:00", "timeZone": "Europe/Berlin" }] });
    let windows = [valid("freeze-december", &freeze), valid("night", &night)];
    let answer = answer_at(&windows, "2026-11-25T12:00:00Z");
    let closed = closed(&answer);
    assert_eq!(
        format!("{} {closed}", closed.reason()),
        "WindowClosed until 2026-12-01T02:00 Europe/Berlin (freeze-december): no changes before the audit"
    );
    assert_eq!(
        (closed.until, closed.is_long),
        (Some(at("2026-12-01T01:00:00Z")), false)
    );
}

#[test]
fn of_several_the_strictest_holds() {
    let lax = json!({ "deny": [{}], "withdrawals": "Allow", "whileClosed": "Skip" });
    let strict = json!({ "deny": [{}], "reverts": "Wait" });
    let of = |specs: &[&serde_json::Value]| {
        let windows: Vec<_> = specs.iter().map(|spec| valid("w", spec)).collect();
        let answer = answer_at(&windows, "2026-01-01T00:00:00Z");
        let closed = closed(&answer);
        (closed.reverts, closed.withdrawals, closed.while_closed)
    };
    assert_eq!(
        of(&[&lax]),
        (WhileClosed::Allow, WhileClosed::Allow, ClosedClusters::Skip)
    );
    assert_eq!(
        of(&[&strict]),
        (WhileClosed::Wait, WhileClosed::Wait, ClosedClusters::Wait)
    );
    assert_eq!(
        of(&[&lax, &strict]),
        (WhileClosed::Wait, WhileClosed::Wait, ClosedClusters::Wait)
    );
}

#[test]
fn a_window_that_is_open_is_not_asked() {
    let windows = [
        valid("freeze", &json!({ "deny": [{}], "withdrawals": "Allow" })),
        valid("always", &json!({ "allow": [{}], "reverts": "Wait" })),
    ];
    let answer = answer_at(&windows, "2026-01-01T00:00:00Z");
    let closed = closed(&answer);
    assert_eq!(
        (closed.window.as_str(), closed.reverts, closed.withdrawals),
        ("freeze", WhileClosed::Allow, WhileClosed::Allow)
    );
}

#[test]
fn the_deny_that_ends_last_is_named_else_the_allow_that_opens_first() {
    let deny = |dates: &str| json!({ "deny": [{ "dates": dates, "timeZone": "UTC" }] });
    let denies = [
        valid("a", &deny("2026-01-01/2026-01-09")),
        valid("b", &deny("2026-01-01/2026-01-05")),
    ];
    assert_eq!(closed(&answer_at(&denies, "2026-01-02T00:00:00Z")).window, "a");
    let allow = |from: &str, to: &str| json!({ "allow": [{ "from": from, "to": to, "timeZone": "UTC" }] });
    let allows = [
        valid("late", &allow("22:00", "23:00")),
        valid("soon", &allow("03:00", "04:00")),
    ];
    assert_eq!(closed(&answer_at(&allows, "2026-01-02T00:00:00Z")).window, "soon");
}

#[test]
fn no_opening_within_30_days_is_flagged() {
    let windows = [valid(
        "freeze",
        &json!({ "deny": [{ "dates": "2026-03-01/2026-03-31", "timeZone": "UTC" }] }),
    )];
    for (now, long) in [("2026-03-01T23:59:59Z", true), ("2026-03-02T00:00:00Z", false)] {
        let answer = answer_at(&windows, now);
        assert_eq!(
            (words(&answer), closed(&answer).is_long),
            ("closed until 2026-04-01T00:00:00Z".into(), long),
            "{now}"
        );
    }
    let never = answer_at(&[valid("stop", &json!({ "deny": [{}] }))], "2026-03-01T00:00:00Z");
    assert_eq!(closed(&never).to_string(), "with no opening in sight (stop)");
    assert_eq!(
        (closed(&never).reason(), closed(&never).is_long),
        (Reason::WindowClosed, true)
    );
}

#[test]
fn a_window_by_itself() {
    let now = at("2026-01-05T03:00:00Z");
    let summary = |spec: serde_json::Value| {
        let summary = crate::support::window("w", &spec).summary(now);
        (summary.open, summary.next_change.map(|at| at.to_string()))
    };
    let night = json!({ "from": "02:00", "to": "04:00", "timeZone": "UTC" });
    let local = json!({ "from": "02:00", "to": "04:00", "timeZoneFrom": { "annotation": "zone" } });
    let four = || Some("2026-01-05T04:00:00Z".to_owned());
    assert_eq!(summary(json!({ "allow": [night] })), (Some(true), four()));
    assert_eq!(summary(json!({ "deny": [night] })), (Some(false), four()));
    assert_eq!(summary(json!({ "allow": [night, local] })), (None, None));
    assert_eq!(summary(json!({ "allow": [] })), (Some(false), None));
}
