//! Promise: `muster check` prints no finding for what is healthy, and reports each problem by its code, with a remedy;
//! it writes nothing and shows no credential.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Secret, rbac::v1::Role},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use muster_apiserver::{
    fault::{Failure, Fault, Match, Rule},
    player::Speeds,
};
use muster_controllers::registry;
use serde_json::{Value, json};

use crate::bed::{Bed, create};

const CLUSTER: &str = "cluster.x-k8s.io/v1beta2";

/// A bed with the installation in it, as if its controller had just renewed its Lease.
async fn installed() -> Bed {
    let bed = Bed::new().await;
    bed.management.play_workloads(Speeds::default());
    bed.install("install --export --management").await;
    let client = bed.management.client();
    let now = jiff::Timestamp::now();
    create(
        &client,
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "muster-controller", "namespace": "default"},
            "spec": {"holderIdentity": "muster-controller-1_x", "leaseDurationSeconds": 15, "renewTime": format!("{now:.6}")}}),
    )
    .await;
    bed.until("the Deployment is available", async || {
        !codes(&bed).await.1.contains("MST1101")
    })
    .await;
    bed
}

/// The exit code, and the codes of all problems.
async fn codes(bed: &Bed) -> (Option<i32>, BTreeSet<String>) {
    bed.management.recorder().clear();
    let output = bed.muster("check -o json").await;
    for request in bed.management.recorder().requests() {
        assert!(
            request.method == "GET"
                || request.path.contains("accessreviews")
                || request.client != "kubernetes-admin",
            "{} {}",
            request.method,
            request.path
        );
    }
    let report: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(report["schema"], "check/v1");
    let findings = report["findings"].as_array().unwrap().iter();
    let unwell = findings.filter(|finding| finding["level"] != "Ok");
    (
        output.code,
        unwell
            .map(|finding| finding["code"].as_str().unwrap().to_owned())
            .collect(),
    )
}

async fn patch(bed: &Bed, api_version: &str, kind: &str, namespace: Option<&str>, name: &str, patch: Value) {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(bed.management.client(), namespace, &resource),
        None => Api::all_with(bed.management.client(), &resource),
    };
    if patch.get("status").is_some() {
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    } else {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_well_is_a_line_each() {
    let bed = installed().await;
    let output = bed.types("check", 0).await;
    insta::assert_snapshot!("well", output);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn without_a_controller_or_an_answer_that_is_said() {
    let bed = Bed::new().await;
    let output = bed.types("check", 1).await;
    insta::assert_snapshot!("no_controller", output);
    let closed = std::fs::read_to_string(bed.path("management")).unwrap();
    let address = format!("https://{}", bed.management.address().unwrap());
    std::fs::write(
        bed.path("closed"),
        closed.replace(&address, "https://127.0.0.1:9"),
    )
    .unwrap();
    let output = bed.types("check --kubeconfig closed", 2).await;
    assert!(
        output.contains("the management cluster gave an unexpected answer"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_cannot_be_read_is_reported_as_unknown_not_healthy() {
    let bed = installed().await;
    let secrets = Match {
        path: Some("/namespaces/default/secrets".to_owned()),
        ..Match::default()
    };
    bed.management
        .faults()
        .add(Rule::always(secrets, Fault::Status(Failure::Forbidden)));
    create(
        &bed.management.client(),
        json!({"apiVersion": CLUSTER, "kind": "Cluster", "metadata": {"name": "eu-1", "namespace": "default"}, "spec": {}}),
    )
    .await;
    let (code, unwell) = codes(&bed).await;
    assert_eq!((code, unwell.contains("MST1201")), (Some(2), true), "{unwell:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_wrong_with_the_installation_has_its_code() {
    let bed = installed().await;
    let client = bed.management.client();
    let before = codes(&bed).await.1;
    let only = async |code: &str| {
        let now = codes(&bed).await.1;
        let new: Vec<&String> = now.difference(&before).collect();
        assert_eq!(new, [code], "{now:?}");
    };
    let roles: Api<Role> = Api::namespaced(client.clone(), "default");
    let role = roles.get("muster-controller").await.unwrap();
    let fewer = json!({"rules": role.rules.as_ref().unwrap().iter().skip(1).collect::<Vec<_>>()});
    roles
        .patch("muster-controller", &PatchParams::default(), &Patch::Merge(fewer))
        .await
        .unwrap();
    only("MST1104").await;
    roles
        .patch(
            "muster-controller",
            &PatchParams::default(),
            &Patch::Merge(json!({"rules": role.rules})),
        )
        .await
        .unwrap();

    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let old = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
    leases
        .patch("muster-controller", &PatchParams::default(), &Patch::Merge(old))
        .await
        .unwrap();
    only("MST1102").await;
    let now = format!("{:.6}", jiff::Timestamp::now());
    let fresh = json!({"spec": {"renewTime": now}});
    leases
        .patch("muster-controller", &PatchParams::default(), &Patch::Merge(fresh))
        .await
        .unwrap();

    let definition = "modulerevisions.fleet.muster.dev";
    let conversion = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"}}}}});
    patch(
        &bed,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        None,
        definition,
        conversion,
    )
    .await;
    only("MST1006").await;
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    patch(
        &bed,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        None,
        definition,
        none,
    )
    .await;

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut other = definitions.get(definition).await.unwrap();
    other.spec.versions[0].additional_printer_columns = None;
    definitions
        .replace(definition, &PostParams::default(), &other)
        .await
        .unwrap();
    only("MST1003").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_is_wrong_with_a_cluster_has_its_code_and_no_credential_is_shown() {
    let bed = installed().await;
    let client = bed.management.client();
    let cluster = |name: &str| json!({"apiVersion": CLUSTER, "kind": "Cluster", "metadata": {"name": name, "namespace": "default", "annotations": {"fleet.muster.dev/enrolled": "true"}}, "spec": {}});
    let secret = |name: &str, user: &str| {
        let kubeconfig = format!(
            "{{\"current-context\": \"a\", \"contexts\": [{{\"name\": \"a\", \"context\": {{\"cluster\": \"a\", \"user\": \"a\"}}}}], \
             \"clusters\": [{{\"name\": \"a\", \"cluster\": {{\"server\": \"https://10.0.0.1\", \"certificate-authority-data\": \"YQ==\"}}}}], \
             \"users\": [{{\"name\": \"a\", \"user\": {user}}}]}}"
        );
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-kubeconfig"), "namespace": "default", "labels": {"fleet.muster.dev/kubeconfig": ""}},
            "stringData": {"value": kubeconfig}})
    };
    create(&client, cluster("absent")).await;
    create(&client, cluster("runs")).await;
    create(&client, secret("runs", "{\"exec\": {\"command\": \"canary\"}}")).await;
    create(&client, cluster("ended")).await;
    // {"exp": 60}
    create(
        &client,
        secret("ended", "{\"token\": \"e30.eyJleHAiOiA2MH0.canary\"}"),
    )
    .await;
    create(&client, secret("orphan", "{\"token\": \"canary\"}")).await;
    for (name, identity) in [("x", "same"), ("y", "same")] {
        create(&client, cluster(name)).await;
        create(&client, secret(name, "{\"token\": \"canary\"}")).await;
        let uid = crate::bed::objects(&client, CLUSTER, "Cluster")
            .await
            .iter()
            .find(|c| c.metadata.name.as_deref() == Some(name))
            .unwrap()
            .metadata
            .uid
            .clone()
            .unwrap();
        create(
            &client,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "labels": {"fleet.muster.dev/identity": ""}},
                "data": {"cluster": name, "clusterUid": uid, "kubeSystemUid": identity}}),
        )
        .await;
    }
    let (code, unwell) = codes(&bed).await;
    let expect = ["MST1201", "MST1202", "MST1203", "MST1205", "MST1208", "MST1209"];
    assert_eq!((code, unwell), (Some(1), expect.map(str::to_owned).into()));
    let output = bed.types("check", 1).await;
    assert!(
        !output.contains("canary")
            && output
                .contains("cluster/runs: the kubeconfig in Secret default/runs-kubeconfig is not accepted"),
        "{output}"
    );
}

/// What a module reports whose rollout stopped on a bad version.
fn halted() -> Value {
    json!([
        condition("Ready", "False", "Failed"),
        condition("Halted", "True", "Halted"),
        condition("Stalled", "True", "Failed")
    ])
}

/// A bed with a cluster and the module web.
async fn with_a_module() -> Bed {
    let bed = installed().await;
    let client = bed.management.client();
    create(&client, json!({"apiVersion": CLUSTER, "kind": "Cluster", "metadata": {"name": "eu-1", "namespace": "default", "annotations": {"fleet.muster.dev/enrolled": "true"}}, "spec": {}})).await;
    create(
        &client,
        json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"env": "prod"}}, "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}}}}),
    )
    .await;
    bed
}

/// Sets the status that the module reports.
async fn module_says(bed: &Bed, conditions: Value, annotations: Value, attention: Value) {
    patch(
        bed,
        "fleet.muster.dev/v1alpha1",
        "Module",
        Some("default"),
        "web",
        json!({"metadata": {"annotations": annotations}}),
    )
    .await;
    let status =
        json!({"status": {"observedGeneration": 1, "conditions": conditions, "attention": attention}});
    patch(
        bed,
        "fleet.muster.dev/v1alpha1",
        "Module",
        Some("default"),
        "web",
        status,
    )
    .await;
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn modules_waiting_for_manual_action_are_reported() {
    let bed = with_a_module().await;
    let check = async |reason: &str, attention: Value, says: &str| {
        let ready = json!([condition("Ready", "False", reason)]);
        module_says(&bed, ready, json!(null), attention).await;
        let output = bed.types("check", 1).await;
        assert!(
            output.contains(says) && !output.contains("no module waits for a change by a user"),
            "{reason}: {output}"
        );
    };
    check("WithdrawalHeld", json!(null), "[MST1307]").await;
    let held = json!([{"cluster": "eu-1", "reason": "WithdrawalHeld", "message": "until this is acknowledged: kubectl annotate x"}]);
    check("WithdrawalHeld", held, "muster rollout withdraw module/").await;
    check("WaitingApproval", json!(null), "WaitingApproval  [MST1306]").await;
    let waits = json!([{"cluster": "eu-1", "reason": "WaitingApproval", "message": "v2 waits; next: kubectl annotate x"}]);
    check("Updating", waits, "kubectl annotate x").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn what_modules_say_has_its_code() {
    let bed = with_a_module().await;
    let client = bed.management.client();
    let check = async |conditions: Value, annotations: Value, attention: Value, code: &str| {
        module_says(&bed, conditions, annotations, attention).await;
        let unwell = codes(&bed).await.1;
        assert!(unwell.contains(code), "{code}: {unwell:?}");
    };
    let ready = |reason: &str| json!([condition("Ready", "False", reason)]);
    let none = || json!(null);
    check(ready("NoClusters"), none(), none(), "MST1301").await;
    check(ready("SourceNotReady"), none(), none(), "MST1302").await;
    check(ready("VerificationFailed"), none(), none(), "MST1302").await;
    check(
        json!([
            condition("Ready", "False", "Paused"),
            condition("Paused", "True", "Paused")
        ]),
        none(),
        none(),
        "MST1303",
    )
    .await;
    check(
        ready("Held"),
        json!({"fleet.muster.dev/hold": "{\"for\": \"eu-1\", \"at\": \"2026-01-01T00:00:00Z\"}"}),
        none(),
        "MST1304",
    )
    .await;
    check(ready("KnownBad"), none(), none(), "MST1305").await;
    check(halted(), none(), none(), "MST1305").await;
    check(
        json!([
            condition("Ready", "False", "InvalidSpec"),
            condition("Stalled", "True", "InvalidSpec")
        ]),
        none(),
        none(),
        "MST1306",
    )
    .await;
    check(ready("WithdrawalHeld"), none(), none(), "MST1307").await;
    check(
        json!([
            condition("Ready", "True", "Succeeded"),
            condition("TagMoved", "True", "TagMoved")
        ]),
        none(),
        none(),
        "MST1309",
    )
    .await;
    let away = json!([{"cluster": "eu-1", "reason": "Unreachable", "message": "dial tcp: timeout"}]);
    create(
        &client,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "eu-1-kubeconfig", "namespace": "default"}}),
    )
    .await;
    check(ready("Unreachable"), none(), away, "MST1204").await;
    let status = json!({"status": {"observedGeneration": 0}});
    patch(
        &bed,
        "fleet.muster.dev/v1alpha1",
        "Module",
        Some("default"),
        "web",
        status,
    )
    .await;
    assert!(codes(&bed).await.1.contains("MST1308"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn check_can_inspect_one_cluster_directly() {
    let bed = Bed::new().await;
    bed.start_controller();
    bed.types("enroll --downstream-kubeconfig new --name eu-2", 0)
        .await;
    let output = bed.types("check --cluster eu-2", 0).await;
    insta::assert_snapshot!("deep", output);
    let output = bed.types("check --cluster nowhere", 2).await;
    assert!(
        output.contains("there is no cluster nowhere in namespace default"),
        "{output}"
    );
    assert!(!bed.types("check --cluster eu-2", 0).await.contains("MST1406"));
    bed.downstream.add(muster_api::crds::nodes()).unwrap();
    let output = bed.types("check --cluster eu-2", 0).await;
    assert!(
        output.contains("√ tokens of node agents name their node"),
        "{output}"
    );
    let nobody = Rule::always(Match::default(), Fault::Refuse);
    let nobody = bed.downstream.faults().add(nobody);
    let output = bed.types("check --cluster eu-2", 1).await;
    assert!(
        output.contains("× https://127.0.0.1:2222 does not answer from this machine  [MST1401]"),
        "{output}"
    );
    bed.downstream.faults().remove(nobody);
    bed.downstream
        .revoke("system:serviceaccount:muster-system:muster-management");
    let output = bed.types("check --cluster eu-2", 1).await;
    assert!(
        output.contains("refuses the credential in the Secret  [MST1401]"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_kubeconfig_that_cannot_be_sent_is_a_finding() {
    let bed = Bed::new().await;
    bed.start_controller();
    bed.types("enroll --downstream-kubeconfig new --name eu-2", 0)
        .await;
    let secrets: Api<Secret> = Api::namespaced(bed.management.client(), "default");
    let secret = secrets.get("eu-2-kubeconfig").await.unwrap();
    let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
    let access = registry::kubeconfig::parse_kubeconfig(text.as_bytes()).unwrap();
    let token = access.token.unwrap();
    let patch = json!({"stringData": {"value": text.replace(token.expose(), "\"hunter2\\u0007\"")}});
    secrets
        .patch("eu-2-kubeconfig", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let output = bed.types("check --cluster eu-2", 1).await;
    assert!(
        output.contains("the kubeconfig in Secret default/eu-2-kubeconfig is not accepted  [MST1401]"),
        "{output}"
    );
    assert!(
        output.contains("user.token: must be one line without control characters"),
        "{output}"
    );
    assert!(!output.contains("hunter2"), "{output}");
}

/// A kubeconfig of the user with another token.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_users_own_kubeconfig_ends_no_command_by_a_panic() {
    let bed = Bed::new().await;
    let config = |token: &str| {
        let server = "https://127.0.0.1:1";
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
            "users": [{"name": "u", "user": {"token": token}}],
        });
        std::fs::write(bed.path("own"), config.to_string()).unwrap();
    };
    config("hunter2\nhunter2");
    let output = bed.types("get modules --kubeconfig own", 2).await;
    assert!(
        output.contains("the kubeconfig cannot be used: token: must be one line without control characters"),
        "{output}"
    );
    assert!(
        !output.contains("hunter2") && !output.contains("panicked"),
        "{output}"
    );
    config("hunter2\n");
    let output = bed.types("get modules --kubeconfig own", 2).await;
    assert!(
        !output.contains("token"),
        "white space is trimmed, and nothing answers there: {output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn before_an_installation_the_server_is_asked_and_nothing_is_written() {
    let bed = Bed::new().await;
    let before = bed.downstream.revision();
    let said = bed.types("check --pre --kubeconfig new", 0).await;
    insta::assert_snapshot!("before", said);
    let roles = Match {
        path: Some("/clusterroles/".to_owned()),
        ..Match::default()
    };
    bed.downstream
        .faults()
        .add(Rule::always(roles, Fault::Status(Failure::Forbidden)));
    let output = bed.types("check --pre --kubeconfig new", 1).await;
    assert!(
        output.contains("ClusterRole muster-controller would not be accepted  [MST1501]"),
        "{output}"
    );
    assert_eq!(bed.downstream.revision(), before);
}

/// A kind of Cluster API, of any content.
fn capi_kind(group: &str, kind: &str, scope: &str) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope, "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .unwrap()
}

/// CX1: with Ignore, a transport error ends the update. CX9, R34: remediation does not know about an update.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn updates_in_place_that_may_end_early_have_their_codes() {
    let bed = installed().await;
    let (client, runtime) = (bed.management.client(), "runtime.cluster.x-k8s.io");
    let mut definitions = muster_api::crds::machines();
    definitions.extend([
        capi_kind(runtime, "ExtensionConfig", "Cluster"),
        capi_kind("cluster.x-k8s.io", "MachineHealthCheck", "Namespaced"),
        capi_kind("cluster.x-k8s.io", "Machine", "Namespaced"),
    ]);
    bed.management.add(definitions).unwrap();
    let of_machines = async || -> BTreeSet<String> {
        let unwell = codes(&bed).await.1;
        unwell
            .into_iter()
            .filter(|code| code.starts_with("MST17"))
            .collect()
    };
    let handler = |policy: &str| json!([{"name": "update.os", "requestHook": {"hook": "UpdateMachine"}, "failurePolicy": policy}]);
    let extension = json!({"apiVersion": format!("{runtime}/v1beta2"), "kind": "ExtensionConfig", "metadata": {"name": "os"}, "status": {"handlers": handler("Fail")}});
    create(&client, extension).await;
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c-1"});
    create(
        &client,
        json!({"apiVersion": CLUSTER, "kind": "Machine", "metadata": {"name": "m-1", "namespace": "default", "labels": labels}}),
    )
    .await;
    let timeout = |seconds: u32| json!({"clusterName": "c-1", "selector": {}, "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": seconds}]}});
    create(
        &client,
        json!({"apiVersion": CLUSTER, "kind": "MachineHealthCheck", "metadata": {"name": "all", "namespace": "default"}, "spec": timeout(300)}),
    )
    .await;
    // No update is in progress.
    assert_eq!(of_machines().await, BTreeSet::new());

    let machine = crate::bed::objects(&client, CLUSTER, "Machine").await.remove(0);
    let muster = "fleet.muster.dev/v1alpha1";
    let steps = json!([{"updater": "os", "acknowledgement": "Digest", "deadline": "30m"}]);
    create(
        &client,
        json!({"apiVersion": muster, "kind": "UpdatePlan", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"level": "Machine", "source": "m-1", "from": "a", "to": "b", "steps": steps, "current": "{}", "desired": "{}"}}),
    )
    .await;
    let state = |state: &str| json!({"status": {"machines": [{"name": "m-1", "uid": machine.metadata.uid, "state": state}]}});
    let default = Some("default");
    patch(&bed, muster, "UpdatePlan", default, "p", state("Updating")).await;
    assert_eq!(of_machines().await, ["MST1702".to_owned()].into());
    let output = bed.types("check", 0).await;
    assert!(
        output.contains(
            "machinehealthcheck/all: it remediates after 5m, and an update in place may take 30m  [MST1702]"
        ) && output.contains("√ no failed call of UpdateMachine counts as success"),
        "{output}"
    );

    // With enough time nothing is reported, and neither for an update that is over.
    let check = "MachineHealthCheck";
    patch(
        &bed,
        CLUSTER,
        check,
        default,
        "all",
        json!({"spec": timeout(1_800)}),
    )
    .await;
    assert_eq!(of_machines().await, BTreeSet::new());
    patch(
        &bed,
        CLUSTER,
        check,
        default,
        "all",
        json!({"spec": timeout(300)}),
    )
    .await;
    patch(&bed, muster, "UpdatePlan", default, "p", state("Updated")).await;
    assert_eq!(of_machines().await, BTreeSet::new());

    // A hook that ignores errors is reported; what may not be read is unknown.
    let other = json!({"apiVersion": format!("{runtime}/v1beta2"), "kind": "ExtensionConfig", "metadata": {"name": "other"}, "status": {"handlers": handler("Ignore")}});
    create(&client, other).await;
    assert_eq!(of_machines().await, ["MST1701".to_owned()].into());
    let of_extensions = Match {
        path: Some("/extensionconfigs".to_owned()),
        ..Match::default()
    };
    let forbidden = Rule::always(of_extensions, Fault::Status(Failure::Forbidden));
    bed.management.faults().add(forbidden);
    let output = bed.types("check", 2).await;
    assert!(
        output.contains("? extensions of Cluster API could not be checked  [MST1701]"),
        "{output}"
    );
}
