//! What is notified, how often, and to which receivers.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sha2::Sha256;
use tokio::time::Instant;

use super::{
    bed::{Bed, COMMIT, SECRETS, revision},
    host::ReceivedRequest,
};

const ALL: &str = "
- {name: hook, kind: webhook, url: HOST/hook, secretFile: key}
- {name: chat, kind: slack, api: HOST/slack, channel: '#rollouts', tokenFile: token}
- {name: old-chat, kind: slack, urlFile: hook-url}
- {name: github, kind: github, repository: 'https://git.test/acme/fleet', api: HOST/github, tokenFile: token}
- {name: gitlab, kind: gitlab, repository: 'https://git.test/acme/fleet', api: HOST/gitlab/, tokenFile: token}
- {name: other, kind: github, repository: 'https://git.test/acme/other', api: HOST/other, tokenFile: token}
";

fn texts(requests: &[ReceivedRequest], field: &str) -> Vec<String> {
    let text = |request: &ReceivedRequest| request.body[field].as_str().unwrap_or_default().to_owned();
    requests.iter().map(text).collect()
}

/// A rollout from start to end, in all protocols.
#[tokio::test]
async fn one_message_for_each_rollout() {
    let bed = Bed::new(ALL).await;
    bed.module("web", json!({})).await;
    bed.begins("web").await;
    bed.host.until("/hook", 1).await;
    bed.host.until("/slack", 1).await;
    bed.host.until("/incoming", 1).await;
    bed.host.until("/github", 1).await;
    bed.host.until("/gitlab", 1).await;
    bed.recorded("web", "chat", |record| record["sequence"] == 1)
        .await;
    // Progress changes a message that can be edited, and nothing else.
    bed.set_rollout_status("web", 2, json!({})).await;
    bed.host.until("/slack", 2).await;
    bed.recorded("web", "chat", |record| record["tenths"] == 5).await;
    let paused = json!({"type": "Paused", "status": "True", "reason": "Paused", "message": "paused by ann: freeze <!channel>", "lastTransitionTime": bed.now()});
    bed.set_rollout_status("web", 2, json!({"conditions": [paused]}))
        .await;
    bed.host.until("/hook", 2).await;
    bed.host.until("/slack", 3).await;
    bed.host.until("/github", 2).await;
    bed.set_rollout_status("web", 4, json!({"conditions": []})).await;
    bed.host.until("/hook", 3).await;
    bed.host.until("/github", 3).await;
    bed.ends("web", "Good", json!({})).await;
    let hook = bed.host.until("/hook", 4).await;
    let chat = bed.host.until("/slack", 5).await;
    let old_chat = bed.host.until("/incoming", 2).await;
    let github = bed.host.until("/github", 4).await;
    let gitlab = bed.host.until("/gitlab", 2).await;
    assert!(
        bed.host.received_requests("/other").is_empty(),
        "another repository"
    );

    of_webhooks(&hook);
    of_channels(&chat);
    assert_eq!(old_chat.len(), 2, "the first and the last");
    of_commits(&github, &gitlab);
}

fn of_webhooks(hook: &[ReceivedRequest]) {
    assert_eq!(texts(hook, "phase"), ["Rolling", "Paused", "Rolling", "Good"]);
    let ids: Vec<&str> = hook
        .iter()
        .map(|request| request.body["id"].as_str().unwrap())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let sequence: Vec<u64> = hook
        .iter()
        .map(|request| request.body["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequence, [1, 2, 3, 4]);
    for request in hook {
        verify(request);
    }
    let last = &hook[3].body;
    assert_eq!(
        last["module"],
        json!({"namespace": "fleet", "kind": "Module", "name": "web"})
    );
    assert_eq!(
        (&last["version"], &last["commit"]),
        (&json!("v1.1.0"), &json!(COMMIT))
    );
    assert_eq!(
        (&last["revision"], &last["schema"]),
        (&json!(revision("web")), &json!("notification/v1"))
    );
    assert_eq!(last["clusters"]["updated"], 4);
    assert_eq!(last["link"], "https://muster.test/module/web");
}

fn of_channels(chat: &[ReceivedRequest]) {
    let paths: Vec<&str> = chat.iter().map(|heard| heard.path.as_str()).collect();
    assert_eq!(paths[0], "/slack/chat.postMessage");
    assert!(
        paths[1..].iter().all(|path| *path == "/slack/chat.update"),
        "{paths:?}"
    );
    assert_eq!(chat[0].body["channel"], "#rollouts");
    assert_eq!(chat[0].headers["authorization"], format!("Bearer {}", SECRETS[0]));
    for heard in &chat[1..] {
        assert_eq!(
            (&heard.body["channel"], &heard.body["ts"]),
            (&json!("C1"), &chat[1].body["ts"])
        );
    }
    let messages = texts(chat, "text");
    assert_eq!(
        messages[1],
        "◐ module/web v1.1.0 is rolling out: 2 of 4 clusters <https://muster.test/module/web|View>"
    );
    assert!(messages[2].contains("freeze &lt;!channel&gt;"), "{messages:?}");
    assert!(
        messages[4].starts_with("● module/web v1.1.0 is rolled out: 4 of 4 clusters"),
        "{messages:?}"
    );
}

fn of_commits(github: &[ReceivedRequest], gitlab: &[ReceivedRequest]) {
    assert_eq!(
        github[0].path,
        format!("/github/repos/acme/fleet/statuses/{COMMIT}")
    );
    assert_eq!(
        texts(github, "state"),
        ["pending", "pending", "pending", "success"]
    );
    assert!(
        texts(github, "context")
            .iter()
            .all(|context| context == "muster/fleet/module/web")
    );
    assert_eq!(github[3].body["target_url"], "https://muster.test/module/web");
    assert_eq!(
        gitlab[0].path,
        format!("/gitlab/projects/acme%2Ffleet/statuses/{COMMIT}")
    );
    assert_eq!(texts(gitlab, "state"), ["running", "success"]);
    assert_eq!(gitlab[0].headers["private-token"], SECRETS[0]);
}

/// As any library of Standard Webhooks does it.
fn verify(heard: &ReceivedRequest) {
    let header = |name: &str| heard.headers[name].clone();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRETS[1].as_bytes()).unwrap();
    mac.update(
        format!(
            "{}.{}.{}",
            header("webhook-id"),
            header("webhook-timestamp"),
            heard.text
        )
        .as_bytes(),
    );
    let signature = header("webhook-signature");
    let signature = STANDARD.decode(signature.strip_prefix("v1,").unwrap()).unwrap();
    mac.verify_slice(&signature).unwrap();
}

/// The record survives a crash: no message is repeated, and the existing message is edited.
#[tokio::test]
async fn a_restart_repeats_nothing() {
    let mut bed = Bed::new(ALL).await;
    bed.module("web", json!({})).await;
    bed.begins("web").await;
    for receiver in ["hook", "chat", "old-chat", "github", "gitlab"] {
        bed.recorded("web", receiver, |told| told["sequence"] == 1).await;
    }
    let first = bed.host.until("/slack", 1).await;
    bed.start();
    bed.ends(
        "web",
        "Bad",
        json!({"evidence": [{"cluster": "eu-1", "message": "Deployment web/web: CrashLoopBackOff"}]}),
    )
    .await;
    let hook = bed.host.until("/hook", 2).await;
    let chat = bed.host.until("/slack", 2).await;
    assert_eq!(chat[1].path, "/slack/chat.update");
    assert_eq!(first[0].path, "/slack/chat.postMessage");
    assert_eq!(hook[1].body["sequence"], 2);
    assert_eq!(hook[1].body["evidence"][0]["cluster"], "eu-1");
    assert_eq!(
        texts(&bed.host.until("/github", 2).await, "state"),
        ["pending", "failure"]
    );
    assert_eq!(
        texts(&bed.host.until("/gitlab", 2).await, "state"),
        ["running", "failed"]
    );
    for receiver in ["hook", "chat", "old-chat", "github", "gitlab"] {
        bed.recorded("web", receiver, |told| told["phase"] == "Bad").await;
    }
    // A retry is another rollout: the previous message is not edited.
    bed.start();
    bed.story(
        "web",
        json!({"started": "2026-11-21T13:00:00Z", "finished": null, "verdict": null, "evidence": []}),
    )
    .await;
    let chat = bed.host.until("/slack", 3).await;
    assert_eq!(chat[2].path, "/slack/chat.postMessage");
    let hook = bed.host.until("/hook", 3).await;
    assert_ne!(hook[2].body["id"], hook[1].body["id"]);
    let whole = serde_json::to_string(&bed.revision("web").await).unwrap() + &bed.metrics.scrape().unwrap();
    for secret in SECRETS {
        assert!(!whole.contains(secret));
    }
}

/// A crash after the receiver has responded and before the record is written: one message is repeated, with the same
/// number.
#[tokio::test]
async fn a_lost_record_repeats_one_message_with_its_number() {
    let mut bed = Bed::new("- {name: hook, kind: webhook, url: HOST/hook}").await;
    bed.module("web", json!({})).await;
    bed.begins("web").await;
    bed.recorded("web", "hook", |_| true).await;
    bed.stop();
    let lost = Patch::Merge(json!({"metadata": {"annotations": {"notify.fleet.muster.dev/hook": null}}}));
    let name = bed.revision("web").await.metadata.name.unwrap();
    bed.revisions()
        .patch(&name, &PatchParams::default(), &lost)
        .await
        .unwrap();
    bed.start();
    let hook = bed.host.until("/hook", 2).await;
    assert_eq!(hook[0].headers["webhook-id"], hook[1].headers["webhook-id"]);
    bed.recorded("web", "hook", |told| told["sequence"] == 1).await;
    bed.ends("web", "Good", json!({})).await;
    assert_eq!(bed.host.until("/hook", 3).await[2].body["sequence"], 2);
}

/// A receiver that does not respond delays no other.
#[tokio::test]
async fn a_silent_receiver_does_not_block_the_others() {
    let bed = Bed::new(
        "- {name: silent, kind: webhook, url: HOST/silent}\n- {name: hook, kind: webhook, url: HOST/hook}",
    )
    .await;
    for name in ["a", "b", "c"] {
        bed.module(name, json!({})).await;
    }
    let begin = Instant::now();
    for name in ["a", "b", "c"] {
        bed.begins(name).await;
    }
    bed.host.until("/hook", 3).await;
    let took = begin.elapsed();
    assert!(
        took < Duration::from_secs(9),
        "{took:?}: less than the time of one try"
    );
    for name in ["a", "b", "c"] {
        bed.recorded(name, "hook", |told| told["sequence"] == 1).await;
    }
}

/// A transient failure is retried, an invalid request is not.
#[tokio::test]
async fn what_does_not_arrive() {
    let bed = Bed::new(
        "- {name: shaky, kind: webhook, url: HOST/shaky}\n- {name: strict, kind: webhook, url: HOST/strict}",
    )
    .await;
    bed.host.answers("/shaky", 503);
    bed.host.answers("/strict", 422);
    bed.module("web", json!({})).await;
    bed.begins("web").await;
    let shaky = bed.host.until("/shaky", 2).await;
    assert_eq!(shaky[0].headers["webhook-id"], shaky[1].headers["webhook-id"]);
    bed.recorded("web", "shaky", |told| told.get("given_up").is_none())
        .await;
    bed.recorded("web", "strict", |told| told["given_up"] == true)
        .await;
    // The next phase is another message.
    bed.ends("web", "Good", json!({})).await;
    bed.host.until("/strict", 2).await;
    bed.recorded("web", "strict", |told| told["phase"] == "Good")
        .await;
    let metrics = bed.metrics.scrape().unwrap();
    for line in [
        "muster_notifications_total{receiver=\"strict\",outcome=\"given-up\"} 1",
        "muster_notifications_total{receiver=\"strict\",outcome=\"sent\"} 1",
        "muster_notifications_total{receiver=\"shaky\",outcome=\"failed\"} 0",
        "muster_notifications_pending{receiver=\"shaky\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

/// Receivers select by labels of modules, and by phases.
#[tokio::test]
async fn receivers_are_selected_by_labels_and_phases() {
    let bed = Bed::new(
        "- {name: web, kind: webhook, url: HOST/web, modules: {matchLabels: {team: web}}}
- {name: all, kind: webhook, url: HOST/all}
- {name: end, kind: webhook, url: HOST/end, phases: [Good, Bad]}",
    )
    .await;
    bed.module("web", json!({"team": "web"})).await;
    bed.module("base", json!({"team": "base"})).await;
    for name in ["web", "base"] {
        bed.begins(name).await;
    }
    bed.host.until("/all", 2).await;
    bed.ends("web", "Good", json!({})).await;
    bed.ends("base", "Superseded", json!({})).await;
    bed.host.until("/all", 4).await;
    let web = bed.host.until("/web", 2).await;
    assert!(web.iter().all(|request| request.body["module"]["name"] == "web"));
    let end = bed.host.until("/end", 1).await;
    assert_eq!(
        (&end[0].body["phase"], &end[0].body["sequence"]),
        (&json!("Good"), &json!(1))
    );
}

/// A phase that returns is notified again, also to receivers that are not notified of the phase in between.
#[tokio::test]
async fn a_second_pause_is_notified() {
    let bed = Bed::new("- {name: pauses, kind: webhook, url: HOST/pauses, phases: [Paused, Bad]}").await;
    bed.module("web", json!({})).await;
    bed.begins("web").await;
    let paused = json!({"type": "Paused", "status": "True", "reason": "Paused", "message": "paused by ann", "lastTransitionTime": bed.now()});
    bed.set_rollout_status("web", 1, json!({"conditions": [paused]}))
        .await;
    bed.recorded("web", "pauses", |record| record["phase"] == "Paused")
        .await;
    bed.set_rollout_status("web", 1, json!({"conditions": []})).await;
    bed.recorded("web", "pauses", |record| record["phase"] == "Rolling")
        .await;
    bed.set_rollout_status("web", 1, json!({"conditions": [paused]}))
        .await;
    let requests = bed.host.until("/pauses", 2).await;
    assert_eq!(texts(&requests, "phase"), ["Paused", "Paused"]);
    assert_eq!(requests[1].body["sequence"], 2);
}

/// A message to a receiver that asked to wait is counted as pending, whether it was tried or not.
#[tokio::test]
async fn what_waits_is_counted() {
    let bed = Bed::new("- {name: busy, kind: webhook, url: HOST/busy}").await;
    bed.host.answers("/busy", 429);
    for name in ["a", "b"] {
        bed.module(name, json!({})).await;
    }
    bed.begins("a").await;
    bed.counted("muster_notifications_total{receiver=\"busy\",outcome=\"failed\"} 1")
        .await;
    bed.begins("b").await;
    bed.counted("muster_notifications_pending{receiver=\"busy\"} 2")
        .await;
    bed.host.until("/busy", 1).await;
}
