//! Promise: one command enrolls a cluster and prints each step; it succeeds only if the management side reached the
//! cluster; running it again changes nothing; problems are reported before anything is written; the token is never
//! shown.

use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    ResourceExt,
    api::{Api, ListParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use serde_json::json;

use crate::bed::{Bed, SOON, create, objects, versions};

const CLUSTER: &str = "cluster.x-k8s.io/v1beta2";
const ENROLL: &str = "enroll --downstream-kubeconfig new --name eu-2 -l env=prod,region=eu";

/// All objects that an enrollment writes.
const DOWNSTREAM: &[(&str, &str)] = &[
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("apps/v1", "Deployment"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];
const MANAGEMENT: &[(&str, &str)] = &[("v1", "Secret"), (CLUSTER, "Cluster")];

/// The tokens and keys that must not be shown.
async fn secrets(bed: &Bed) -> Vec<String> {
    let secrets: Api<Secret> = Api::all(bed.downstream.client());
    let all = secrets.list(&ListParams::default()).await.unwrap().items;
    let data = all.into_iter().flat_map(|secret| secret.data.unwrap_or_default());
    data.filter(|(key, _)| key == "token")
        .map(|(_, value)| String::from_utf8(value.0).unwrap())
        .collect()
}

async fn shows_no_token(bed: &Bed, output: &str) {
    for token in secrets(bed).await {
        assert!(!output.contains(&token), "{output}");
    }
}

async fn everything(bed: &Bed) -> (Vec<String>, Vec<String>) {
    (
        versions(&bed.downstream.client(), DOWNSTREAM).await,
        versions(&bed.management.client(), MANAGEMENT).await,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_cluster_comes_in_and_doing_it_twice_changes_nothing() {
    let bed = Bed::new().await;
    bed.start_controller();
    create(
        &bed.management.client(),
        json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "podinfo", "namespace": "default"},
            "spec": {"suspend": true, "selector": {"matchLabels": {"env": "prod"}},
                "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}, "package": {"path": "x"}}}}),
    )
    .await;
    let said = bed.types(ENROLL, 0).await;
    insta::assert_snapshot!("enrolled", said);
    shows_no_token(&bed, &said).await;
    let clusters = objects(&bed.management.client(), CLUSTER, "Cluster").await;
    assert_eq!(clusters[0].metadata.labels.as_ref().unwrap()["region"], "eu");

    // The API server itself updates a definition when it becomes served.
    let definitions: Api<CustomResourceDefinition> = Api::all(bed.downstream.client());
    for definition in definitions.list(&ListParams::default()).await.unwrap() {
        let name = definition.name_any();
        let served = await_condition(definitions.clone(), &name, is_crd_established());
        tokio::time::timeout(SOON, served).await.unwrap().unwrap();
    }
    let before = everything(&bed).await;
    let said = bed.types(ENROLL, 0).await;
    insta::assert_snapshot!("enrolled_twice", said);
    assert_eq!(
        everything(&bed).await,
        before,
        "the second time changed something"
    );

    // Labels that are not listed stay: without them modules would withdraw.
    let output = bed
        .types("enroll --downstream-kubeconfig new --name eu-2", 0)
        .await;
    assert!(
        output.contains("labelled env=prod region=eu: unchanged")
            && output.contains("modules that select eu-2: podinfo"),
        "{output}"
    );
    assert_eq!(everything(&bed).await, before);
    for flag in ["--dry-run=client", "--dry-run=server"] {
        let output = bed
            .types(
                &format!("enroll --downstream-kubeconfig new --name eu-2 -l env=dev {flag}"),
                0,
            )
            .await;
        assert!(
            output.contains(
                "would apply Secret default/eu-2-kubeconfig (to https://127.0.0.1:2222) and Cluster default/eu-2, \
                 labelled env=dev (was prod) region=eu, in the management cluster"
            ),
            "{flag}: {output}"
        );
    }
    assert_eq!(everything(&bed).await, before);

    let output = bed
        .types("enroll --downstream-kubeconfig new --name eu-3", 1)
        .await;
    assert!(
        output.contains("is already in the fleet, as Cluster eu-2"),
        "{output}"
    );
    assert_eq!(everything(&bed).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_the_management_side_cannot_reach_is_a_failure_that_says_why() {
    let bed = Bed::new().await;
    bed.start_controller();
    let account = Match {
        client: Some("system:serviceaccount:muster-system:muster-management".to_owned()),
        ..Match::default()
    };
    // From here, the first two requests of the account succeed.
    let mut rule = Rule::always(account, Fault::Refuse);
    rule.after = 1;
    let rule = bed.downstream.faults().add(rule);
    let output = bed.types(&format!("{ENROLL} --no-agent --wait 8s"), 1).await;
    assert!(
        output.contains("the management cluster did not reach eu-2 within 8 s: Unreachable: the API server of eu-2 does not answer")
            && output.contains("--server https://HOST:PORT")
            && output.contains("Undo: muster unenroll eu-2"),
        "{output}"
    );
    bed.downstream.faults().remove(rule);
    let output = bed.types(&format!("{ENROLL} --no-agent"), 0).await;
    assert!(
        output.contains("✔ the controller reached https://127.0.0.1:2222"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn without_a_controller_that_is_said() {
    let bed = Bed::new().await;
    let output = bed.types(&format!("{ENROLL} --wait 2s"), 1).await;
    assert!(
        output.contains("no controller runs for namespace default"),
        "{output}"
    );
    let output = bed.types(&format!("{ENROLL} --no-wait"), 0).await;
    assert!(
        output.contains("did not wait for the controller to reach the cluster"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_wrong_is_said_before_anything_is_written() {
    let bed = Bed::new().await;
    let before = everything(&bed).await;
    let check = async |words: &str, code: i32, says: &str| {
        let output = bed.types(words, code).await;
        assert!(output.contains(says), "{words}: {output}");
        assert_eq!(everything(&bed).await, before, "{words} wrote something");
    };
    check("enroll", 2, "<NEW_CONTEXT>").await;
    check("enroll nowhere", 2, "it has: management").await;
    check(
        "enroll --downstream-kubeconfig none --name x",
        2,
        "kubeconfig none cannot be used",
    )
    .await;
    std::fs::write(bed.path("broken"), "{").unwrap();
    check(
        "enroll --downstream-kubeconfig broken --name x",
        2,
        "kubeconfig broken cannot be used",
    )
    .await;
    check("enroll --downstream-kubeconfig new --name EU_2", 2, "--name").await;
    check(
        "enroll --downstream-kubeconfig new -l env",
        2,
        "labels are written as env=prod,region=eu",
    )
    .await;
    check(
        "enroll --downstream-kubeconfig new --name x -n nowhere",
        1,
        "kubectl create namespace nowhere",
    )
    .await;
    check(
        "enroll --downstream-kubeconfig new --name x --server http://eu",
        2,
        "supports only https",
    )
    .await;
    check(
        "enroll --downstream-kubeconfig new --name x --with-secret",
        2,
        "--export",
    )
    .await;
    // Nothing listens there.
    let closed = std::fs::read_to_string(bed.path("new"))
        .unwrap()
        .replace(&bed.address(), "https://127.0.0.1:9");
    std::fs::write(bed.path("closed"), closed).unwrap();
    check(
        "enroll --downstream-kubeconfig closed --name x",
        2,
        "context new does not answer",
    )
    .await;
    check(
        "enroll --downstream-kubeconfig new --name x --kubeconfig closed",
        2,
        "the management cluster does not answer",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn missing_permissions_are_reported_before_anything_is_written() {
    let bed = Bed::new().await;
    let before = everything(&bed).await;
    let check = async |words: &str, code: i32, says: &str| {
        let output = bed.types(words, code).await;
        assert!(output.contains(says), "{words}: {output}");
        assert_eq!(everything(&bed).await, before, "{words} wrote something");
    };
    // An unknown credential.
    let stranger = std::fs::read_to_string(bed.path("new")).unwrap();
    let stranger: Vec<&str> = stranger
        .lines()
        .filter(|line| !line.contains("client-key-data"))
        .collect();
    let stranger: Vec<String> = stranger
        .iter()
        .map(|line| {
            if line.contains("client-certificate-data") {
                "    token: stranger".to_owned()
            } else {
                (*line).to_owned()
            }
        })
        .collect();
    std::fs::write(bed.path("stranger"), stranger.join("\n")).unwrap();
    check(
        "enroll --downstream-kubeconfig stranger --name x",
        2,
        "does not accept your credential",
    )
    .await;
    // Missing rights show in the server-side dry run.
    let roles = Match {
        path: Some("/clusterroles/".to_owned()),
        ..Match::default()
    };
    let rule = bed
        .downstream
        .faults()
        .add(Rule::always(roles, Fault::Status(Failure::Forbidden)));
    check(
        "enroll --downstream-kubeconfig new --name x",
        1,
        "you are not allowed to do that in context new",
    )
    .await;
    bed.downstream.faults().remove(rule);
    check(
        "enroll --downstream-kubeconfig new --name eu-2 --dry-run",
        0,
        "would apply ServiceAccount muster-system/muster-management in eu-2",
    )
    .await;
    check(
        "enroll --downstream-kubeconfig new --name eu-2 --dry-run=server",
        0,
        "eu-2 would get ServiceAccount muster-system/muster-management",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_something_else_manages_is_left_alone() {
    let bed = Bed::new().await;
    create(
        &bed.management.client(),
        json!({"apiVersion": CLUSTER, "kind": "Cluster", "metadata": {"name": "eu-2", "namespace": "default"}, "spec": {}}),
    )
    .await;
    let output = bed.types(ENROLL, 1).await;
    assert!(
        output.contains("Cluster default/eu-2 was not enrolled: something else manages it"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn for_git_the_cluster_is_printed_and_the_token_only_on_demand() {
    let bed = Bed::new().await;
    let output = bed.muster(&format!("{ENROLL} --export")).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    insta::assert_snapshot!("exported", output.out);
    shows_no_token(&bed, &(output.out + &output.err)).await;
    assert!(
        objects(&bed.management.client(), CLUSTER, "Cluster")
            .await
            .is_empty()
    );
    let output = bed.muster(&format!("{ENROLL} --export --with-secret")).await;
    assert!(
        output.out.contains("name: eu-2-kubeconfig") && !output.out.contains('#'),
        "{output:?}"
    );
    bed.types(&format!("{ENROLL} --no-wait"), 0).await;
    let output = bed
        .muster("enroll --downstream-kubeconfig new --name eu-2 -l region=us --export")
        .await;
    assert!(
        output.out.contains("    env: prod\n    region: us\n"),
        "labels that are there are printed as well: {output:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_script_and_the_command_write_the_same() {
    let bed = Bed::new().await;
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/enrol/enrol.sh");
    let mut script = std::process::Command::new(script);
    script
        .args([
            "eu-2",
            "--downstream-kubeconfig",
            "new",
            "--labels",
            "env=prod,region=eu",
        ])
        .current_dir(bed.path(""))
        .env("KUBECONFIG", bed.path("management"));
    let output = tokio::task::spawn_blocking(move || script.output().unwrap())
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let before = everything(&bed).await;
    let printed = bed.types(&format!("{ENROLL} --no-agent --no-wait"), 0).await;
    assert_eq!(everything(&bed).await, before, "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_script_keeps_labels_that_it_does_not_name() {
    let bed = Bed::new().await;
    let types = async |labels: &str| {
        let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/enrol/enrol.sh");
        let mut script = std::process::Command::new(script);
        script
            .args(["eu-2", "--downstream-kubeconfig", "new"])
            .args(["--labels", labels].iter().filter(|_| !labels.is_empty()))
            .current_dir(bed.path(""))
            .env("KUBECONFIG", bed.path("management"));
        let output = tokio::task::spawn_blocking(move || script.output().unwrap())
            .await
            .unwrap();
        assert!(output.status.success(), "{labels}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let client = bed.management.client();
    let has = async || {
        let cluster = objects(&client, CLUSTER, "Cluster").await.remove(0);
        let labels = cluster.metadata.labels.unwrap_or_default();
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        labels.join(",")
    };
    types("env=prod,region=eu").await;
    let labelled = std::process::Command::new("kubectl")
        .args([
            "label",
            "clusters.cluster.x-k8s.io",
            "eu-2",
            "team.example.com/name=blue",
        ])
        .env("KUBECONFIG", bed.path("management"))
        .output()
        .unwrap();
    assert!(labelled.status.success(), "{labelled:?}");
    let before = versions(&client, MANAGEMENT).await;

    let output = types("env=prod").await;
    assert_eq!(has().await, "env=prod,region=eu,team.example.com/name=blue");
    assert!(
        output.contains("kept, although not listed in --labels: region=eu team.example.com/name=blue (to remove a label: --labels region-)"),
        "{output}"
    );
    types("").await;
    assert_eq!(versions(&client, MANAGEMENT).await, before, "nothing is written");

    let output = types("env=dev").await;
    assert_eq!(has().await, "env=dev,region=eu,team.example.com/name=blue");
    assert!(
        output.contains("labelled env=dev (was prod) region=eu"),
        "{output}"
    );

    let output = types("region-,team.example.com/name-,zone=a").await;
    assert_eq!(has().await, "env=dev,zone=a");
    assert!(
        output.contains("removed: region=eu; modules that select by it withdraw from eu-2")
            && output.contains("removed: team.example.com/name=blue;")
            && output.contains("kept, although not listed in --labels: env=dev"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_that_is_silent_is_not_waited_for_for_ever() {
    let bed = Bed::new().await;
    // The kernel accepts connections, and no process answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", silent.local_addr().unwrap());
    let kubeconfig = std::fs::read_to_string(bed.path("new"))
        .unwrap()
        .replace(&bed.address(), &address);
    std::fs::write(bed.path("silent"), kubeconfig).unwrap();
    let began = std::time::Instant::now();
    let output = bed
        .types("enroll --downstream-kubeconfig silent --name x", 2)
        .await;
    assert!(
        output.contains("context new does not answer") && began.elapsed() < SOON,
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn interrupted_it_says_how_to_go_on() {
    let bed = Bed::new().await;
    let mut command = bed.command(&format!("{ENROLL} --no-agent --wait 1m"));
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let client = bed.management.client();
    bed.until("the Cluster is there", async || {
        !objects(&client, CLUSTER, "Cluster").await.is_empty()
    })
    .await;
    let killed = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap())
        .await
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stdout}");
    assert!(
        stdout.contains("run the same command again to continue"),
        "{stdout}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn another_way_in_is_not_proven_by_the_record_of_the_first() {
    let bed = Bed::new().await;
    bed.start_controller();
    let few = format!("{ENROLL} --no-agent");
    bed.types(&few, 0).await;
    // No module selects the cluster, so nothing has used the new address, and the command does not claim that it works.
    let output = bed
        .types(&format!("{few} --server https://127.0.0.1:9 --wait 3s"), 0)
        .await;
    assert!(
        output.contains("► the controller reached the cluster before")
            && !output.contains("✔ the controller reached"),
        "{output}"
    );
}

/// A started change is completed even if its reader closes the pipe.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_reader_that_goes_away_does_not_leave_half_a_cluster() {
    let bed = Bed::new().await;
    bed.start_controller();
    let mut child = bed
        .command(ENROLL)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await;
    assert_eq!(status.unwrap().code(), Some(0));
    let clusters = objects(&bed.management.client(), CLUSTER, "Cluster").await;
    assert_eq!(clusters.len(), 1);
}
