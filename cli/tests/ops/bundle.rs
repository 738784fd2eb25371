//! Promise: a support bundle has what is needed and no secret, wherever a user has put one.

use std::{io::Read as _, os::unix::fs::PermissionsExt as _};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::json;

use crate::bed::{Bed, create};

/// Texts that must not be in a bundle.
const CANARIES: [&str; 8] = [
    "canary-in-a-secret",
    "Y2FuYXJ5LWluLWEtc2VjcmV0",
    "canary-in-an-annotation",
    "canary-in-an-address",
    "canary-in-the-environment",
    "canary-in-an-argument",
    "canary-in-a-substitution",
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnkifQ.c2ln",
];

/// The files of a bundle, by name.
fn files(path: &std::path::Path) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name.split_once('/').unwrap().1.to_owned(), text)
    });
    entries.collect()
}

/// Puts secrets in places where users have put them.
async fn put_everywhere(bed: &Bed) {
    let client = bed.management.client();
    let [
        plain,
        _,
        annotation,
        address,
        environment,
        argument,
        substitution,
        token,
    ] = CANARIES;
    create(
        &client,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git", "namespace": "default",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": annotation}}, "stringData": {"password": plain}}),
    )
    .await;
    create(
        &client,
        json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "web", "namespace": "default",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": annotation, "note": format!("see {token}")}},
            "spec": {"selector": {}, "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}},
                "package": {"path": "x", "substitute": {"PASSWORD": substitution}}}}}),
    )
    .await;
    let modules: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        "default",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("fleet.muster.dev", "v1alpha1", "Module")),
    );
    let condition = json!({"type": "Ready", "status": "False", "reason": "SourceNotReady", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": format!("cloning https://ann:{address}@git.example.com/fleet as {plain}: refused")});
    let status = json!({"status": {"observedGeneration": 1, "conditions": [condition]}});
    modules
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    create(
        &client,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other", "namespace": "muster-system"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "c", "image": "x", "args": [format!("--api-key={argument}")], "env": [{"name": "X", "value": environment}]}]}}}}),
    )
    .await;
    create(
        &client,
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "x", "reportingInstance": "x", "action": "A", "reason": "R", "type": "Warning",
            "regarding": {"kind": "Module", "namespace": "default", "name": "web"}, "note": format!("Bearer {token} and {plain}")}),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn it_has_what_is_needed_and_no_secret() {
    let bed = Bed::new().await;
    bed.install("install --export --management").await;
    bed.types("enroll --downstream-kubeconfig new --name eu-2 --no-wait", 0)
        .await;
    put_everywhere(&bed).await;
    let output = bed.types("support-bundle -o b.tar.gz", 0).await;
    assert!(output.contains("b.tar.gz"), "{output}");
    let files = files(&bed.path("b.tar.gz"));
    let mut forbidden: Vec<String> = CANARIES.map(str::to_owned).to_vec();
    for api in [&bed.management, &bed.downstream] {
        let secrets: Api<Secret> = Api::all(api.client());
        for secret in secrets.list(&ListParams::default()).await.unwrap().items {
            let values = secret
                .data
                .unwrap_or_default()
                .into_iter()
                .filter(|(key, _)| key == "token" || key == "value");
            forbidden.extend(values.map(|(_, value)| String::from_utf8(value.0).unwrap()));
        }
    }
    assert!(forbidden.len() > CANARIES.len(), "the account has a token");
    for (name, text) in &files {
        for canary in &forbidden {
            assert!(!text.contains(canary), "{canary} is in {name}: {text}");
        }
        assert!(!text.contains("managedFields"), "{name}");
    }
    let text = |name: &str| {
        &files
            .iter()
            .find(|(path, _)| path == name)
            .unwrap_or_else(|| panic!("no {name}"))
            .1
    };
    assert!(
        text("objects/default/modules.yaml")
            .contains("cloning https://***@git.example.com/fleet as ***: refused")
    );
    assert!(text("objects/default/clusters.yaml").contains("name: eu-2"));
    assert!(text("objects/muster-system/deployments.yaml").contains("name: muster-controller"));
    assert!(text("objects/default/events.yaml").contains("reason: R"));
    assert_eq!(
        text("secrets/default.txt"),
        "default/eu-2-kubeconfig (Opaque): value\ndefault/git (Opaque): password\n"
    );
    assert!(
        text("check.json").contains("check/v1") && text("version.txt").contains(env!("CARGO_PKG_VERSION"))
    );

    assert_eq!(
        std::fs::metadata(bed.path("b.tar.gz"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let output = bed.types("support-bundle -o b.tar.gz", 2).await;
    assert!(
        output.contains("cannot be created (choose another name: -o FILE.tar.gz)"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn many_secrets_are_read_in_pages_and_all_are_masked() {
    let bed = Bed::new().await;
    let client = bed.management.client();
    let value = |number: usize| format!("canary-{number:03}");
    for number in 0..450 {
        create(
            &client,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{number:03}"), "namespace": "default"},
                "stringData": {"password": value(number)}}),
        )
        .await;
    }
    let all: Vec<String> = (0..450).map(value).collect();
    create(
        &client,
        json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module",
            "metadata": {"name": "web", "namespace": "default", "annotations": {"note": all.join(" ")}},
            "spec": {"selector": {}, "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}}}}),
    )
    .await;
    bed.types("support-bundle -o b.tar.gz", 0).await;
    let files = files(&bed.path("b.tar.gz"));
    let text = |name: &str| &files.iter().find(|(found, _)| found == name).unwrap().1;
    assert_eq!(text("secrets/default.txt").lines().count(), 450);
    assert!(!text("objects/default/modules.yaml").contains("canary"));
    let requests = bed.management.recorder().requests();
    let path = "/api/v1/namespaces/default/secrets";
    let pages = requests
        .iter()
        .filter(|request| request.path == path && request.query.contains("limit=200"));
    assert_eq!(pages.count(), 3);
}
