//! Promise: a Secret for git reaches a cluster with the module that needs it, and is removed with it; the account that
//! distributes it can write nothing else there, by the policy of `muster install --export --downstream --distribute`.
//! On real control planes only: admission is real.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use muster_api::labels::SYSTEM_NAMESPACE;
use muster_controllers::registry::{connect_over_network, kubeconfig};
use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, export, kinds},
    fleet::{Quality, ROLLED, status_text},
};

/// Maximum time until a change of a Secret is distributed.
const ROTATED: Duration = Duration::from_secs(75);
/// Maximum time until a cluster that now allows it gets the Secret.
const ALLOWED: Duration = Duration::from_secs(150);
const LABEL: &str = "fleet.muster.dev/distributed";

/// Denied without the policy, distributed with it, rotated, and removed with its module.
pub async fn comes_and_goes(ground: Ground) {
    let began = Timestamp::now();
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    let login = json!({"username": "git", "password": "hunter2-one"});
    bed.fleet()
        .create(
            kinds::SECRET,
            json!({"metadata": {"name": "shop"}, "stringData": login}),
        )
        .await;
    let version = bed.release("web", 1, Quality::Good);
    let mut spec = bed.spec("web", &version);
    spec["sync"]["source"]["git"]["secretRef"] = json!({"name": "shop", "distribute": true});
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;

    let poll = async || {
        let proxy = bed
            .fleet()
            .get(kinds::PROXY_ASSEMBLAGE, "eu-1")
            .await
            .unwrap_or_default();
        let states = proxy["status"]["syncs"].as_array().cloned().unwrap_or_default();
        let refused = states
            .iter()
            .any(|state| state["reason"] == "DistributionRefused");
        if refused {
            Ok(())
        } else {
            Err(proxy["status"].to_string())
        }
    };
    bed.wait_until("it is refused", ROLLED, poll).await;
    assert_eq!(copies(&bed).await, BTreeMap::new());

    bed.administer(
        "eu-1",
        &export(&["--downstream", "--distribute"], Some(ground)).await,
    )
    .await;
    // Retried every 35 seconds; a policy takes effect some seconds after it is created.
    bed.until_ready_within(kinds::MODULE, "web", &version, ALLOWED)
        .await;
    let brought = copies(&bed).await;
    assert_eq!(brought.values().collect::<Vec<_>>(), ["hunter2-one"]);
    held(&bed, brought.keys().next().unwrap()).await;
    bed.excuse_denials_since(began);

    let next = json!({"stringData": {"password": "hunter2-two"}});
    bed.fleet().patch(kinds::SECRET, "shop", next).await;
    let poll = async || {
        let copies = copies(&bed).await;
        if copies.values().eq(["hunter2-two"]) {
            Ok(())
        } else {
            Err(format!("{copies:?}"))
        }
    };
    bed.wait_until("it is rotated", ROTATED, poll).await;

    bed.fleet().delete(kinds::MODULE, "web").await;
    let poll = async || match copies(&bed).await {
        copies if copies.is_empty() => Ok(()),
        copies => Err(format!("{copies:?}")),
    };
    bed.wait_until("it is gone", ROLLED, poll).await;
    let gone = async || match bed.fleet().get(kinds::MODULE, "web").await {
        None => Ok(()),
        Some(module) => Err(status_text(&module)),
    };
    bed.wait_until("the module is gone", ROLLED, gone).await;
}

/// The passwords of the distributed Secrets, by name.
async fn copies(bed: &Bed) -> BTreeMap<String, String> {
    let all = bed.inside("eu-1", SYSTEM_NAMESPACE).list(kinds::SECRET).await;
    let brought = all
        .iter()
        .filter(|secret| secret["metadata"]["labels"][LABEL] == "true");
    let password = |secret: &Value| {
        let secret: Secret = serde_json::from_value(secret.clone()).unwrap();
        String::from_utf8(secret.data.unwrap()["password"].0.clone()).unwrap()
    };
    brought
        .map(|secret| {
            (
                secret["metadata"]["name"].as_str().unwrap().to_owned(),
                password(secret),
            )
        })
        .collect()
}

/// What the account must not do, with the message of the policy or of the authorizer.
async fn held(bed: &Bed, copy: &str) {
    let access = kubeconfig::parse_kubeconfig(bed.kubeconfig("eu-1").as_bytes()).unwrap();
    let account = connect_over_network(&access).unwrap();
    let mine = json!({"metadata": {"name": "git-mine"}, "stringData": {"password": "of a person"}});
    bed.inside("eu-1", SYSTEM_NAMESPACE)
        .create(kinds::SECRET, mine)
        .await;
    let good = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": name, "labels": {LABEL: "true"}}, "data": {"password": "eA=="},
        })
    };
    let with = |pointer: &str, value: Value| {
        let mut secret = good("git-other");
        *secret.pointer_mut(pointer).unwrap() = value;
        secret
    };
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "git-token", "labels": {LABEL: "true"},
            "annotations": {"kubernetes.io/service-account.name": "muster-agent"},
        },
    });
    let named = "the management cluster may write only Secrets named git-";
    let opaque = "Secrets from the management cluster must be Opaque";
    let keys = "Secrets from the management cluster may have only keys that git needs";
    let persons = "a Secret with this name exists that muster did not create";
    let rights = "cannot patch resource \"secrets\"";
    for (namespace, secret, expect) in [
        (SYSTEM_NAMESPACE, token, opaque),
        (SYSTEM_NAMESPACE, good("shop"), named),
        (SYSTEM_NAMESPACE, with("/metadata/labels", json!({})), opaque),
        (
            SYSTEM_NAMESPACE,
            with("/data", json!({"password": "eA==", "token": "eA=="})),
            keys,
        ),
        (SYSTEM_NAMESPACE, good("git-mine"), persons),
        ("default", good("git-other"), rights),
    ] {
        let why = apply(&account, namespace, &secret)
            .await
            .expect_err(&secret.to_string());
        assert!(why.contains(expect), "{secret}: {why}");
    }
    let secrets: Api<Secret> = Api::namespaced(account.clone(), SYSTEM_NAMESPACE);
    let why = secrets
        .delete("git-mine", &DeleteParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(why.contains(persons), "{why}");
    // It cannot read Secrets, not even those that it wrote.
    for why in [
        secrets.get(copy).await.map(drop).unwrap_err().to_string(),
        secrets
            .list(&ListParams::default())
            .await
            .map(drop)
            .unwrap_err()
            .to_string(),
    ] {
        assert!(why.contains("is forbidden"), "{why}");
    }
    let made = Secret {
        metadata: serde_json::from_value(json!({"generateName": "shop-"})).unwrap(),
        ..Secret::default()
    };
    let why = secrets
        .create(&PostParams::default(), &made)
        .await
        .unwrap_err()
        .to_string();
    assert!(why.contains(named), "{why}");
    apply(&account, SYSTEM_NAMESPACE, &good("git-other"))
        .await
        .unwrap();
    secrets
        .delete("git-other", &DeleteParams::default())
        .await
        .unwrap();
}

async fn apply(client: &Client, namespace: &str, secret: &Value) -> Result<(), String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let name = secret["metadata"]["name"].as_str().unwrap();
    let by = PatchParams::apply("account").force();
    let answer = secrets.patch(name, &by, &Patch::Apply(secret)).await;
    answer.map(drop).map_err(|error| error.to_string())
}
