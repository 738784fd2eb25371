//! Promise: `muster uninstall` prints what is removed in which order, refuses while it is needed, and removes what
//! `install` made and nothing else.

use std::io::{Read as _, Write as _};

use k8s_openapi::api::rbac::v1::ClusterRole;
use muster_apiserver::player::Speeds;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::bed::{Bed, SOON, create, objects, versions};

const ALL: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "Service"),
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

/// The objects of muster that exist.
async fn there(bed: &Bed) -> Vec<String> {
    let mut all = versions(&bed.management.client(), ALL).await;
    all.retain(|name| name.contains("muster"));
    all
}

/// The same without versions: the simulation writes the status of the Deployment.
async fn names(bed: &Bed) -> Vec<String> {
    let all = there(bed).await;
    all.iter()
        .filter_map(|name| name.split('@').next().map(str::to_owned))
        .collect()
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
    assert_eq!(before.len(), 7);
    let said = bed.types("uninstall --management --dry-run", 0).await;
    insta::assert_snapshot!("uninstall", said);
    let output = bed.types("uninstall --management", 2).await;
    assert!(output.contains("--yes"), "{output}");
    assert_eq!(there(&bed).await.len(), 7);
    let output = bed.types("uninstall --management --yes", 0).await;
    assert!(
        output.contains("Namespace muster-system is gone: nothing was left in it"),
        "{output}"
    );
    assert_eq!(
        (there(&bed).await.len(), definitions(&bed).await),
        (0, defined),
        "definitions stay"
    );
    let output = bed.types("uninstall --management --yes", 0).await;
    assert!(output.contains("there is no such installation"), "{output}");
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
        let output = bed.types(words, 1).await;
        assert!(
            output.contains("module/web") && output.contains("muster unenroll NAME"),
            "{output}"
        );
        assert_eq!(there(&bed).await.len(), before.len());
    }
    let output = bed.types("uninstall --management --keep-objects --yes", 0).await;
    assert!(
        output.contains("modules that would no longer be rolled out: module/web"),
        "{output}"
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
    let output = bed.types("uninstall --management --crds --force --yes", 0).await;
    assert!(
        output.contains("CustomResourceDefinition modules.fleet.muster.dev is gone"),
        "{output}"
    );
    // Cluster API's definition stays.
    assert_eq!((there(&bed).await.len(), definitions(&bed).await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn unlabelled_objects_with_the_same_name_are_kept() {
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
    let output = bed.types("uninstall --management --yes", 0).await;
    assert!(
        output.contains("ClusterRole muster-controller exists without muster's labels: it stays")
            && output.contains("Namespace muster-system stays: it holds ConfigMap mine"),
        "{output}"
    );
    assert_eq!(there(&bed).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_the_dashboard_and_notifications_brought_goes_too() {
    let bed = Bed::new().await;
    bed.management.play_workloads(Speeds::default());
    bed.install("install --export --management --dashboard token --notify")
        .await;
    assert_eq!(there(&bed).await.len(), 12);
    bed.types("uninstall --management --yes", 0).await;
    assert_eq!(there(&bed).await, Vec::<String>::new());
}

/// The Deployment has the same name for every watched namespace: modules in the namespace that it watches need it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_controller_of_another_namespace_is_not_removed() {
    let bed = Bed::new().await;
    bed.management.play_workloads(Speeds::default());
    bed.install("install --export --management -n fleet").await;
    let before = names(&bed).await;
    for words in [
        "uninstall --management --yes",
        "uninstall --management --force --yes",
    ] {
        let output = bed.types(words, 1).await;
        assert!(
            output.contains("works in namespace fleet, not in default")
                && output.contains("muster uninstall --management -n fleet"),
            "{output}"
        );
        assert_eq!(names(&bed).await, before);
    }
    bed.types("uninstall --management -n fleet --yes", 0).await;
    assert_eq!(names(&bed).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_question_is_asked_beside_the_output_and_can_be_interrupted() {
    let bed = installed().await;
    let before = names(&bed).await;
    let pair = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", "exec \"$MUSTER\" uninstall --management > printed"]);
    command.cwd(bed.path(""));
    command.env("MUSTER", env!("CARGO_BIN_EXE_muster"));
    command.env("KUBECONFIG", bed.path("management"));
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let (mut reader, mut writer) = (
        pair.master.try_clone_reader().unwrap(),
        pair.master.take_writer().unwrap(),
    );
    let typing = tokio::task::spawn_blocking(move || {
        let (mut text, mut piece) = (String::new(), [0; 256]);
        while !text.contains("[y/N]") {
            let read = reader.read(&mut piece).unwrap();
            text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
        }
        writer.write_all(b"\x03").unwrap();
        child.wait().unwrap().exit_code()
    });
    let code = tokio::time::timeout(SOON, typing).await.unwrap().unwrap();
    assert_eq!(code, 130);
    let printed = std::fs::read_to_string(bed.path("printed")).unwrap();
    assert!(
        printed.contains("Interrupted") && !printed.contains("[y/N]"),
        "{printed}"
    );
    assert_eq!(names(&bed).await, before);
}

/// The API server is asked whether it would delete them only with --dry-run=server.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_dry_run_of_the_server_asks_and_removes_nothing() {
    let bed = installed().await;
    let before = names(&bed).await;
    let deletions = |bed: &Bed| {
        let requests = bed.management.recorder().requests();
        let deletes = requests.iter().filter(|request| request.method == "DELETE");
        deletes.count()
    };
    bed.types("uninstall --management --dry-run", 0).await;
    assert_eq!(deletions(&bed), 0);
    let output = bed.types("uninstall --management --dry-run=server", 0).await;
    assert!(
        output.contains("Nothing was removed (server dry run)."),
        "{output}"
    );
    assert_eq!((deletions(&bed), names(&bed).await), (before.len(), before));
}
