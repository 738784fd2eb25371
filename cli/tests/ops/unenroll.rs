//! Promise: `muster unenroll` prints first what will happen and asks; removes Cluster, Secret and account and nothing
//! else; prints what is left with the command that removes it; never hangs.

use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use serde_json::json;

use crate::bed::{Bed, create, objects, versions};

const CLUSTER: &str = "cluster.x-k8s.io/v1beta2";
const ACCOUNT: &[(&str, &str)] = &[
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
];

async fn enrolled() -> Bed {
    let bed = Bed::new().await;
    bed.types(
        "enroll --downstream-kubeconfig new --name eu-2 -l env=prod --bootstrap --no-wait",
        0,
    )
    .await;
    bed
}

/// The objects of the account that exist.
async fn account(bed: &Bed) -> Vec<String> {
    let mut all = versions(&bed.downstream.client(), ACCOUNT).await;
    all.retain(|name| name.contains("muster-management"));
    all
}

async fn fleet(bed: &Bed) -> usize {
    let client = bed.management.client();
    objects(&client, CLUSTER, "Cluster").await.len() + objects(&client, "v1", "Secret").await.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn it_says_what_will_happen_and_does_it_on_a_word() {
    let bed = enrolled().await;
    let output = bed.types("unenroll eu-2", 2).await;
    assert!(output.contains("--yes") && fleet(&bed).await == 2, "{output}");
    let output = bed.types("unenroll eu-2 --dry-run", 0).await;
    assert!(
        output.contains("Nothing was done") && fleet(&bed).await == 2,
        "{output}"
    );

    let output = bed.types("unenroll eu-2 --yes", 0).await;
    insta::assert_snapshot!("unenrolled", output);
    assert_eq!((fleet(&bed).await, account(&bed).await.len()), (0, 7));

    let output = bed
        .types("unenroll eu-2 --yes --downstream-kubeconfig new", 0)
        .await;
    assert!(
        output.contains("the account of the management cluster in context new is gone"),
        "{output}"
    );
    assert_eq!(account(&bed).await, Vec::<String>::new());
    // The agent's objects stay.
    assert_eq!(
        objects(&bed.downstream.client(), "apps/v1", "Deployment")
            .await
            .len(),
        1
    );
    let output = bed.types("unenroll eu-2 --yes", 0).await;
    assert!(output.contains("eu-2 is not in the fleet"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_cannot_be_removed_is_named_with_the_command_that_does() {
    let bed = enrolled().await;
    let roles = Match {
        path: Some("/clusterroles/".to_owned()),
        ..Match::default()
    };
    bed.downstream
        .faults()
        .add(Rule::always(roles, Fault::Status(Failure::Forbidden)));
    let output = bed
        .types("unenroll eu-2 --yes --downstream-kubeconfig new", 1)
        .await;
    assert!(
        output.contains("ClusterRole muster-management")
            && output.contains("delete --ignore-not-found clusterrole/muster-management\n")
            && !output.contains("ServiceAccount muster-system/muster-management"),
        "{output}"
    );
    assert_eq!((fleet(&bed).await, account(&bed).await.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_cluster_that_is_gone_does_not_keep_it() {
    let bed = enrolled().await;
    let closed = std::fs::read_to_string(bed.path("new"))
        .unwrap()
        .replace(&bed.address(), "https://127.0.0.1:9");
    std::fs::write(bed.path("closed"), closed).unwrap();
    let output = bed
        .types("unenroll eu-2 --yes --downstream-kubeconfig closed", 2)
        .await;
    assert!(
        output.contains("--force continues without it") && fleet(&bed).await == 2,
        "{output}"
    );
    let output = bed
        .types("unenroll eu-2 --yes --force --downstream-kubeconfig closed", 0)
        .await;
    assert!(
        output.contains("left in eu-2, because") && fleet(&bed).await == 0,
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_something_else_manages_is_left_alone() {
    let bed = Bed::new().await;
    create(
        &bed.management.client(),
        json!({"apiVersion": CLUSTER, "kind": "Cluster", "metadata": {"name": "eu-2", "namespace": "default"}, "spec": {}}),
    )
    .await;
    let output = bed.types("unenroll eu-2 --yes", 1).await;
    assert!(
        output.contains("something else manages it") && fleet(&bed).await == 1,
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn to_empty_it_no_module_may_select_it_whatever_its_labels_and_it_ends() {
    let bed = enrolled().await;
    let client = bed.management.client();
    let proxy = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage", "metadata": {"name": "eu-2", "namespace": "default"},
        "spec": {"clusterRef": {"name": "eu-2"}, "syncs": [{"name": "podinfo", "source": {"git": {
            "url": "https://git.example.com/fleet", "version": {"commit": "0123456789012345678901234567890123456789"}}}}]}});
    create(&client, proxy).await;
    let output = bed.types("unenroll eu-2 --yes --prune --timeout 2s", 1).await;
    assert!(
        output.contains("within 2 s these modules were not withdrawn from eu-2: podinfo"),
        "{output}"
    );
    let cluster = &objects(&client, CLUSTER, "Cluster").await[0];
    assert_eq!(cluster.metadata.labels, None);

    let module = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "everywhere", "namespace": "default"},
        "spec": {"selector": {}, "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}, "package": {"path": "x"}}}});
    create(&client, module).await;
    let output = bed.types("unenroll eu-2 --yes --prune", 1).await;
    assert!(
        output.contains("everywhere would still select eu-2 without any labels"),
        "{output}"
    );
    assert_eq!(fleet(&bed).await, 2);
}
