//! Promise: `muster uninstall` says what goes in which order, refuses while it is needed, and removes what `install` made and nothing else.

use k8s_openapi::api::rbac::v1::ClusterRole;
use muster_apiserver::player::Speeds;
use serde_json::{Value, json};

use crate::bed::{Bed, create, objects, versions};

const ALL: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
];

async fn installed() -> Bed {
    let bed = Bed::new().await;
    bed.management.play_workloads(Speeds::default());
    bed.install("install --export --management").await;
    bed
}

fn module() -> Value {
    json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module",
        "metadata": {"name": "web", "namespace": "default", "finalizers": ["fleet.muster.dev/withdraw"]},
        "spec": {"selector": {}, "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}}}})
}

/// What is there of muster.
async fn there(bed: &Bed) -> Vec<String> {
    let mut all = versions(&bed.management.client(), ALL).await;
    all.retain(|name| name.contains("muster"));
    all
}

async fn definitions(bed: &Bed) -> usize {
    objects(
        &bed.management.client(),
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    )
    .await
    .len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_install_made_goes_and_nothing_else() {
    let bed = installed().await;
    let (before, defined) = (there(&bed).await, definitions(&bed).await);
    assert_eq!(before.len(), 6);
    let said = bed.types("uninstall --management --dry-run", 0).await;
    insta::assert_snapshot!("uninstall", said);
    let said = bed.types("uninstall --management", 2).await;
    assert!(said.contains("--yes"), "{said}");
    assert_eq!(there(&bed).await.len(), 6);
    let said = bed.types("uninstall --management --yes", 0).await;
    assert!(
        said.contains("Namespace muster-system is gone: nothing was left in it"),
        "{said}"
    );
    assert_eq!(
        (there(&bed).await.len(), definitions(&bed).await),
        (0, defined),
        "definitions stay"
    );
    let said = bed.types("uninstall --management --yes", 0).await;
    assert!(
        said.contains("nothing of such an installation is there"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_needed_is_not_removed_without_a_word() {
    let bed = installed().await;
    create(&bed.management.client(), module()).await;
    bed.types(
        "enroll --downstream-kubeconfig new --name eu-2 --no-wait --no-agent",
        0,
    )
    .await;
    let before = there(&bed).await;
    for words in [
        "uninstall --management --yes",
        "uninstall --management --crds --yes",
    ] {
        let said = bed.types(words, 1).await;
        assert!(
            said.contains("module/web") && said.contains("muster unenroll NAME"),
            "{said}"
        );
        assert_eq!(there(&bed).await.len(), before.len());
    }
    let said = bed.types("uninstall --management --keep-objects --yes", 0).await;
    assert!(
        said.contains("modules that nobody would roll any more: module/web"),
        "{said}"
    );
    assert_eq!(there(&bed).await.len(), 0);
    assert_eq!(
        objects(&bed.management.client(), "fleet.muster.dev/v1alpha1", "Module")
            .await
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn definitions_go_by_force_and_nothing_hangs_on_a_finalizer() {
    let bed = installed().await;
    create(&bed.management.client(), module()).await;
    let said = bed.types("uninstall --management --crds --force --yes", 0).await;
    assert!(
        said.contains("CustomResourceDefinition modules.fleet.muster.dev is gone"),
        "{said}"
    );
    // Cluster API's stays.
    assert_eq!((there(&bed).await.len(), definitions(&bed).await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_somebody_else_named_so_stays() {
    let bed = installed().await;
    let client = bed.management.client();
    create(&client, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": "muster-system"}})).await;
    let roles: kube::Api<ClusterRole> = kube::Api::all(client.clone());
    let unlabelled = kube::api::Patch::Merge(json!({"metadata": {"labels": null}}));
    roles
        .patch(
            "muster-controller",
            &kube::api::PatchParams::default(),
            &unlabelled,
        )
        .await
        .unwrap();
    let said = bed.types("uninstall --management --yes", 0).await;
    assert!(
        said.contains("ClusterRole muster-controller is there without muster's labels: it stays")
            && said.contains("Namespace muster-system stays: it holds ConfigMap mine"),
        "{said}"
    );
    assert_eq!(there(&bed).await.len(), 1);
}
