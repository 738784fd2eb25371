//! Promise: paths, requests and responses are those of Cluster API's hooks (api/runtime/hooks/v1alpha1), and a final
//! answer cannot be mistaken for another.

use muster_machines::{
    ClientConfig, Coverage, DISCOVERY, Failed, Fallback, GROUP_VERSION, Hook, Level, MAX_BODY, Polled,
    Refused, Reply, UrlError, can_answer, failure, handlers, path, polled, reply, url, verdict,
    verdict_response,
};
use serde_json::json;

use crate::support::*;

#[test]
fn paths() {
    assert_eq!(
        path(GROUP_VERSION, DISCOVERY, None),
        "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"
    );
    assert_eq!(
        path(
            GROUP_VERSION,
            Hook::UpdateMachine.as_str(),
            Some("update-machine")
        ),
        "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update-machine"
    );
    let config = |url: &str| ClientConfig {
        url: Some(url.to_owned()),
        ..ClientConfig::default()
    };
    let at = |url: &str| muster_machines::url(&config(url), GROUP_VERSION, "CanUpdateMachine", Some("a"));
    assert_eq!(
        at("https://host:9/base/").unwrap(),
        "https://host:9/base/hooks.runtime.cluster.x-k8s.io/v1alpha1/canupdatemachine/a"
    );
    assert!(matches!(at("http://host"), Err(UrlError::NotHttps(_))));
    assert!(matches!(at("https://"), Err(UrlError::Invalid(_))));
    assert!(matches!(at("host/path"), Err(UrlError::Invalid(_))));
    let neither = url(&ClientConfig::default(), GROUP_VERSION, "CanUpdateMachine", None);
    assert_eq!(neither.unwrap_err(), UrlError::Missing);
}

#[test]
fn a_covered_change_is_answered_with_one_patch_for_each_object() {
    let mut coverage = Coverage::begin(Level::Machine, &request(("v1.30.0", "a"), ("v1.31.0", "a"))).unwrap();
    let sides = coverage.sides();
    assert_eq!(sides["current"]["machine"].get("status"), None);
    assert_eq!(
        sides["current"]["machine"]["metadata"],
        json!({"name": "m1", "namespace": "default"})
    );
    coverage
        .take("kubelet", &sets("machinePatch", "/spec/version", "v1.31.0"))
        .unwrap();
    let response = verdict_response(Level::Machine, &verdict(Ok(coverage.end()), Fallback::Replace));
    assert_eq!(response["apiVersion"], GROUP_VERSION);
    assert_eq!(
        (&response["kind"], &response["status"]),
        (&json!("CanUpdateMachineResponse"), &json!("Success"))
    );
    // It parses like an updater's answer.
    can_answer(Level::Machine, Ok((200, response.to_string().as_bytes()))).unwrap();
    assert_eq!(response["machinePatch"]["patchType"], "JSONPatch");
    assert_eq!(response.get("infrastructureMachinePatch"), None);
}

#[test]
fn the_end_is_zero_and_nothing_else_is() {
    let response = reply(&Reply::Done);
    assert_eq!(
        (&response["status"], &response["retryAfterSeconds"]),
        (&json!("Success"), &json!(0))
    );
    let response = reply(&Reply::InProgress {
        after: 0,
        message: "working".to_owned(),
    });
    assert_eq!(
        (&response["retryAfterSeconds"], &response["message"]),
        (&json!(1), &json!("working"))
    );
    let response = reply(&Reply::Failed(Failed {
        at: at(0),
        message: "disk full".to_owned(),
    }));
    assert_eq!(
        (&response["status"], &response["message"]),
        (&json!("Failure"), &json!("disk full"))
    );
    assert_eq!(failure(Hook::CanUpdateMachine, "x")["status"], "Failure");
}

#[test]
fn an_answer_that_cannot_be_read_is_a_failure_with_its_reason() {
    let long = vec![b' '; MAX_BODY + 1];
    for (received, words) in [
        (Err("timed out"), "no answer: timed out"),
        (Ok((302, &b""[..])), "HTTP 302"),
        (Ok((200, &long[..])), "the response is longer than 4194304 bytes"),
        (
            Ok((200, &br#"{"status": "Success"}"#[..])),
            "the answer says Success without retryAfterSeconds, which would have to be 0 at the end",
        ),
        (
            Ok((200, &br#"{"status": "Success", "retryAfterSeconds": -5}"#[..])),
            "the answer's retryAfterSeconds is -5",
        ),
        (
            Ok((200, &br#"{"status": "Pending", "retryAfterSeconds": 0}"#[..])),
            "the answer's status is \"Pending\", which is neither Success nor Failure",
        ),
    ] {
        let message = words.to_owned();
        assert_eq!(polled(received), Polled::Failed { message });
    }
    // Serde accepts a list of values in place of a struct.
    assert!(matches!(
        polled(Ok((200, br#"["Success", "", 0]"#))),
        Polled::Failed { .. }
    ));
    let not_base64 =
        json!({"status": "Success", "machinePatch": {"patchType": "JSONPatch", "patch": "%"}}).to_string();
    let mut coverage = Coverage::begin(Level::Machine, &request(("v1.30.0", "a"), ("v1.31.0", "a"))).unwrap();
    let answer = can_answer(Level::Machine, Ok((200, not_base64.as_bytes()))).unwrap();
    coverage.take("updater", &answer).unwrap_err();
    let mistyped = json!({"status": "Success", "machinePatch": []}).to_string();
    assert!(matches!(
        can_answer(Level::Machine, Ok((200, mistyped.as_bytes()))),
        Err(Refused::Unreadable(_))
    ));
}

#[test]
fn discovery_names_what_is_wrong() {
    let known: Vec<(&str, &str)> = Hook::ALL
        .iter()
        .map(|hook| (GROUP_VERSION, hook.as_str()))
        .collect();
    let one = |name: &str, hook: &str, more: serde_json::Value| {
        let mut handler = json!({"name": name, "requestHook": {"apiVersion": GROUP_VERSION, "hook": hook}});
        json_patch::merge(&mut handler, &more);
        handler
    };
    let read = |all: Vec<serde_json::Value>| handlers(&json!({"status": "Success", "handlers": all}), &known);
    let good = read(vec![
        one("a", "UpdateMachine", json!({"timeoutSeconds": 0})),
        one("b", "CanUpdateMachine", json!({"timeoutSeconds": 30})),
    ]);
    let timeouts: Vec<u8> = good
        .unwrap()
        .iter()
        .map(|handler| handler.timeout_seconds)
        .collect();
    assert_eq!(timeouts, [10, 30]);
    for (all, words) in [
        (
            vec![one("A", "UpdateMachine", json!({}))],
            "handler name \"A\" is not a DNS label",
        ),
        (
            vec![
                one("a", "UpdateMachine", json!({})),
                one("a", "CanUpdateMachine", json!({})),
            ],
            "handler name \"a\" occurs twice",
        ),
        (
            vec![one("a", "UpdateMachine", json!({"timeoutSeconds": -1}))],
            "handler a: timeoutSeconds is -1: at least 0 and at most 30 are accepted",
        ),
        (
            vec![one("a", "UpdateMachine", json!({"failurePolicy": "Maybe"}))],
            "handler a: failurePolicy \"Maybe\" is neither Fail nor Ignore",
        ),
        (
            vec![one("a", "BeforeClusterUpgrade", json!({}))],
            "handler a: hooks.runtime.cluster.x-k8s.io/v1alpha1 BeforeClusterUpgrade is not a supported hook",
        ),
    ] {
        assert_eq!(read(all).unwrap_err().to_string(), words);
    }
}
