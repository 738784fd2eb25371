//! Promise: a Secret may be written in parts, be invalid, be removed and return: each time that is reported, without a
//! value of it, and nothing else changes; a renewed credential is used by the existing client.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use muster_api::cluster::{NotReady, Version};
use muster_apiserver::{
    Verb,
    fault::{Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::support::{Bed, NS, SOON, kubeconfig};

/// A value that must never be shown.
const CANARY: &str = "hunter2";

/// Sets exactly this data in the Secret.
async fn hold(bed: &Bed, data: &[(&str, &str)]) {
    let data: BTreeMap<String, ByteString> = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some("eu-1-kubeconfig".to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("cluster.x-k8s.io/secret".to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(bed.management.client(), NS);
    match secrets.get_opt("eu-1-kubeconfig").await.unwrap() {
        Some(_) => secrets
            .replace("eu-1-kubeconfig", &PostParams::default(), &secret)
            .await
            .unwrap(),
        None => secrets.create(&PostParams::default(), &secret).await.unwrap(),
    };
}

/// Name of the case, data of the Secret, and the expected reason and message.
type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, NotReady, String);

#[tokio::test(start_paused = true)]
async fn each_state_of_a_secret_is_named_and_none_shows_its_content() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.cluster("eu-1").await;
    let good = kubeconfig("eu-1", "token");
    let with_canary = |change: &dyn Fn(&mut Value)| {
        let mut config: Value = serde_json::from_str(&good).unwrap();
        config["users"][0]["user"]["token"] = json!(CANARY);
        change(&mut config);
        config.to_string()
    };
    let whole = with_canary(&|_| {});
    let cut = &whole[..whole.len() - 20];
    let two_contexts = with_canary(&|config| {
        config.as_object_mut().unwrap().remove("current-context");
        let second = json!({"name": "d", "context": {"cluster": "c", "user": "u"}});
        config["contexts"].as_array_mut().unwrap().push(second);
    });
    let exec = with_canary(&|config| config["users"][0]["user"]["exec"] = json!({"command": CANARY}));
    let twice = with_canary(&|config| {
        let entry = config["users"][0].clone();
        config["users"].as_array_mut().unwrap().push(entry);
    });
    let rejected = "the kubeconfig in Secret fleet/eu-1-kubeconfig is not accepted: ";
    let absent = "Secret fleet/eu-1-kubeconfig with the kubeconfig in key value is missing";
    let cases: [Case<'_>; 8] = [
        ("no key", vec![], NotReady::NoKubeconfig, absent.to_owned()),
        (
            "another key",
            vec![("kubeconfig", &whole)],
            NotReady::NoKubeconfig,
            absent.to_owned(),
        ),
        (
            "empty",
            vec![("value", "")],
            NotReady::KubeconfigRejected,
            format!("{rejected}field (document): must be a mapping"),
        ),
        (
            "cut off",
            vec![("value", cut)],
            NotReady::KubeconfigRejected,
            format!("{rejected}the kubeconfig is not YAML (line 1)"),
        ),
        (
            "two contexts, none current",
            vec![("value", &two_contexts)],
            NotReady::KubeconfigRejected,
            format!("{rejected}field current-context is missing"),
        ),
        (
            "a program",
            vec![("value", &exec)],
            NotReady::KubeconfigRejected,
            format!("{rejected}field users[u].user.exec is not allowed: it would run a program on this host"),
        ),
        (
            "two users of one name",
            vec![("value", &twice)],
            NotReady::KubeconfigRejected,
            format!("{rejected}field users: has two entries with the name that is used"),
        ),
        (
            "a token that nothing knows",
            vec![("value", &whole)],
            NotReady::KubeconfigRejected,
            format!("{rejected}server: no such server in this test"),
        ),
    ];
    for (what, data, reason, message) in cases {
        hold(&bed, &[("value", &good)]).await;
        bed.until("eu-1", None).await;
        hold(&bed, &data).await;
        let took = bed.until("eu-1", Some(reason)).await;
        assert!(took <= SOON, "{what}: {took:?}");
        assert_eq!(bed.message("eu-1"), message, "{what}");
        let refused = bed.registry.client("eu-1").err().unwrap();
        for shown in [format!("{refused}"), format!("{:?}", bed.registry)] {
            assert!(!shown.contains(CANARY), "{what}: {shown}");
        }
    }
    bed.secrets()
        .delete("eu-1-kubeconfig", &DeleteParams::default())
        .await
        .unwrap();
    assert!(bed.until("eu-1", Some(NotReady::NoKubeconfig)).await <= SOON);
    hold(&bed, &[("value", &good)]).await;
    assert!(bed.until("eu-1", None).await <= SOON, "back again");
    for event in bed.events().await {
        assert!(!event.contains(CANARY), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewed_credential_loses_no_watch_and_no_write_in_flight() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.cluster("eu-1").await;
    bed.secret("eu-1", &kubeconfig("eu-1", "old")).await;
    bed.until("eu-1", None).await;
    let held = bed.registry.client("eu-1").unwrap();
    let namespaces: Api<Namespace> = Api::all(held.clone());
    let from = namespaces
        .list_metadata(&kube::api::ListParams::default())
        .await
        .unwrap();
    let version = from.metadata.resource_version.unwrap();
    let events = namespaces
        .watch(&WatchParams::default().timeout(280), &version)
        .await
        .unwrap();
    let mut events = Box::pin(events);

    let slow = Match {
        path: Some("/configmaps".to_owned()),
        ..Match::client("old")
    };
    bed.downstream["eu-1"]
        .faults()
        .add(Rule::always(slow, Fault::Delay(Duration::from_secs(8))));
    let config_maps: Api<ConfigMap> = Api::namespaced(held, "default");
    let apply = |name: &'static str| {
        let config_maps = config_maps.clone();
        async move {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let by = PatchParams::apply("muster-test");
            config_maps.patch(name, &by, &Patch::Apply(object)).await
        }
    };
    let in_flight = tokio::spawn(apply("first"));
    let writes = || {
        let requests = bed.downstream["eu-1"].recorder().requests();
        let ours = requests
            .iter()
            .filter(|request| request.is_write() && request.path.contains("/default/configmaps/"));
        ours.map(|request| request.client.clone()).collect::<Vec<_>>()
    };
    while writes().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "new")).await;
    let renewed = || {
        bed.downstream["eu-1"]
            .recorder()
            .requests()
            .iter()
            .any(|request| request.client == "new")
    };
    while !renewed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    apply("second").await.unwrap();
    in_flight.await.unwrap().unwrap();
    assert_eq!(writes(), ["old", "new"]);
    let fresh = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}});
    bed.downstream["eu-1"].add([fresh]).unwrap();
    let event = tokio::time::timeout(SOON, events.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        matches!(event, WatchEvent::Added(namespace) if namespace.metadata.name.as_deref() == Some("fresh"))
    );
    assert_eq!(bed.state("eu-1"), None);
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_secret_came_does_not_take_it_away() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    let management = &bed.management;
    let secret = Match {
        verbs: vec![Verb::Get],
        path: Some("/secrets/eu-1-kubeconfig".to_owned()),
        ..Match::default()
    };
    let late = Rule::always(secret, Fault::Drip(Duration::from_millis(20)));
    management.faults().add(late);
    bed.cluster("eu-1").await;
    let requested = || {
        let requests = management.recorder().requests();
        requests
            .iter()
            .any(|request| request.path.ends_with("/secrets/eu-1-kubeconfig"))
    };
    while !requested() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bed.secret("eu-1", &kubeconfig("eu-1", "token")).await;
    assert!(bed.until("eu-1", None).await <= SOON);
    let mut changes = Box::pin(bed.registry.subscribe());
    changes.next().await.unwrap();
    let answered = tokio::time::timeout(Duration::from_mins(1), changes.next()).await;
    assert!(answered.is_err(), "{:?}", bed.message("eu-1"));
    assert_eq!(bed.state("eu-1"), None);
}
