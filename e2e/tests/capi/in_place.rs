//! Promise: with Cluster API's own controllers, a change that the updaters cover together is applied to the existing
//! Machines, by one updater after the other, even if muster is killed during it. A change that no updater covers
//! replaces Machines, or waits with `Hold`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    OLD,
    bed::{APART, Bed, CONTROL_PLANE, WORKERS, of},
    objects::bootstrap_template,
    updater::{Call, Calls, Covers, Updater},
};

/// Each of the two covers half of a change.
const COMMANDS: Covers = Covers {
    machine: &["failureDomain"],
    bootstrap: &["preKubeadmCommands"],
    prepares: Some("Drain"),
};
const FILES: Covers = Covers {
    machine: &[],
    bootstrap: &["files"],
    prepares: None,
};
/// The annotation that Cluster API sets on a Machine while it is being updated.
const UPDATING: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

/// A Cluster without surge: only an update in place can change a Machine.
async fn cluster(workers: u32, control_plane: u32) -> Bed {
    let bed = Bed::new(&[APART], OLD).await;
    let rolling = |fields: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": fields}});
    change(&bed, "MachineDeployment", json!({"spec": {"replicas": workers, "rollout": rolling(json!({"maxSurge": 0, "maxUnavailable": 1}))}})).await;
    // Cluster API allows no scale-down of a smaller control plane.
    if control_plane >= 3 {
        let rollout = rolling(json!({"maxSurge": 0}));
        let spec = json!({"replicas": control_plane, "rollout": rollout});
        change(&bed, "KubeadmControlPlane", json!({"spec": spec})).await;
    }
    bed.until("all Machines are up to date", async || {
        let machines = [
            bed.machines(APART, WORKERS).await,
            bed.machines(APART, CONTROL_PLANE).await,
        ];
        let counts = machines.each_ref().map(Vec::len);
        let is_there = counts == [workers as usize, control_plane as usize];
        (is_there && machines.iter().flatten().all(is_ready)).then_some(())
    })
    .await;
    bed
}

async fn change(bed: &Bed, kind: &str, patch: Value) {
    let group = match kind {
        "KubeadmControlPlane" => "controlplane.cluster.x-k8s.io",
        _ => "cluster.x-k8s.io",
    };
    bed.merge(of(group, kind), APART, patch).await;
}

/// The new spec of workers: another failure domain, and additions to their bootstrap config.
async fn desire(bed: &Bed, template: &str, domain: &str, fields: &Value) {
    bed.create(bootstrap_template(template, fields)).await;
    let spec = json!({"failureDomain": domain, "bootstrap": {"configRef": {"name": template}}});
    change(
        bed,
        "MachineDeployment",
        json!({"spec": {"template": {"spec": spec}}}),
    )
    .await;
}

fn file(content: &str) -> Value {
    json!([{"path": "/etc/limits", "content": content}])
}

/// Whether a Machine is available, up to date, and not being updated.
fn is_ready(machine: &Value) -> bool {
    let is_updated = crate::bed::is(machine, "Available") && crate::bed::is(machine, "UpToDate");
    is_updated && machine["metadata"]["annotations"].get(UPDATING).is_none()
}

fn by_uid(machines: &[Value]) -> BTreeMap<String, String> {
    let text = |machine: &Value, key: &str| machine["metadata"][key].as_str().unwrap().to_owned();
    machines
        .iter()
        .map(|machine| (text(machine, "uid"), text(machine, "name")))
        .collect()
}

/// Asserts that each Machine was updated by `commands` until done, and then by `files`, for one digest.
fn assert_in_order(calls: &[Call], machines: &BTreeMap<String, String>) {
    for machine in machines.values() {
        let of: Vec<&Call> = calls.iter().filter(|call| call.machine == *machine).collect();
        let mut ends: Vec<&str> = of
            .iter()
            .filter(|call| call.is_done)
            .map(|call| call.updater)
            .collect();
        ends.dedup();
        assert_eq!(ends, ["commands", "files"], "{of:?}");
        let ended = of.iter().position(|call| call.is_done);
        let second = of.iter().position(|call| call.updater == "files");
        assert!(ended < second, "{of:?}");
        assert!(of.iter().all(|call| call.digest == of[0].digest), "{of:?}");
    }
}

async fn bootstrap_config(bed: &Bed, machine: &Value) -> Value {
    let name = machine["spec"]["bootstrap"]["configRef"]["name"]
        .as_str()
        .unwrap();
    let found = bed
        .get(of("bootstrap.cluster.x-k8s.io", "KubeadmConfig"), name)
        .await;
    found.unwrap()["spec"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "real: cargo xtask real run cluster-api"]
async fn workers_are_updated_where_they_are_though_muster_is_killed() {
    let mut bed = cluster(2, 1).await;
    let workers = by_uid(&bed.machines(APART, WORKERS).await);
    let calls = Calls::default();
    let commands = Updater::start("commands", COMMANDS, &calls).await;
    let files = Updater::start("files", FILES, &calls).await;
    bed.start_machines(&[&commands, &files]).await;
    desire(
        &bed,
        "limits",
        "zone-2",
        &json!({"files": file("1"), "preKubeadmCommands": ["true"]}),
    )
    .await;

    bed.until("the first updater is called", async || {
        (!calls.lock().is_empty()).then_some(())
    })
    .await;
    bed.restart_machines().await;
    commands.may_end(true);
    bed.until("the second updater is called", async || {
        calls
            .lock()
            .iter()
            .any(|call| call.updater == "files")
            .then_some(())
    })
    .await;
    let at_work = calls.lock().last().unwrap().machine.clone();
    assert!(bed.is_cordoned(APART, &at_work).await, "{at_work}");
    bed.restart_machines().await;
    files.may_end(true);
    let updated = bed
        .until("the workers are updated", async || {
            let machines = bed.machines(APART, WORKERS).await;
            let is_updated =
                |machine: &Value| is_ready(machine) && machine["spec"]["failureDomain"] == "zone-2";
            (machines.len() == 2 && machines.iter().all(is_updated)).then_some(machines)
        })
        .await;
    assert_eq!(by_uid(&updated), workers);
    for machine in &updated {
        let name = machine["metadata"]["name"].as_str().unwrap();
        assert!(!bed.is_cordoned(APART, name).await, "{name}");
        let config = bootstrap_config(&bed, machine).await;
        assert_eq!(
            (&config["files"], &config["preKubeadmCommands"]),
            (&file("1"), &json!(["true"]))
        );
    }
    assert_in_order(&calls.lock(), &workers);
    bed.keep_uses("workers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "real: cargo xtask real run cluster-api"]
async fn a_control_plane_is_updated_and_what_is_desired_in_the_middle_comes_after_it() {
    let mut bed = cluster(1, 3).await;
    let before = by_uid(&bed.machines(APART, CONTROL_PLANE).await);
    let calls = Calls::default();
    // The control plane pods of this provider are not marked as mirror pods: a drain would evict what makes a Machine
    // healthy.
    let covers = Covers {
        prepares: None,
        ..COMMANDS
    };
    let commands = Updater::start("commands", covers, &calls).await;
    let files = Updater::start("files", FILES, &calls).await;
    bed.start_machines(&[&commands, &files]).await;
    let config = |content: &str| json!({"files": file(content), "preKubeadmCommands": [content]});
    change(
        &bed,
        "KubeadmControlPlane",
        json!({"spec": {"kubeadmConfigSpec": config("1")}}),
    )
    .await;
    bed.until("the first updater is called", async || {
        (!calls.lock().is_empty()).then_some(())
    })
    .await;
    let first = calls.lock()[0].clone();
    change(
        &bed,
        "KubeadmControlPlane",
        json!({"spec": {"kubeadmConfigSpec": config("2")}}),
    )
    .await;
    bed.restart_machines().await;
    commands.may_end(true);
    files.may_end(true);
    let updated = bed
        .until("the control plane is updated", async || {
            let machines = bed.machines(APART, CONTROL_PLANE).await;
            for machine in &machines {
                let is_there = bootstrap_config(&bed, machine).await["files"] == file("2");
                if !is_there || !is_ready(machine) {
                    return None;
                }
            }
            Some(machines)
        })
        .await;
    assert_eq!(by_uid(&updated), before);
    // Asserts that both updaters finished each update before another one began on that Machine.
    let calls = calls.lock().clone();
    let of_first: Vec<&Call> = calls
        .iter()
        .filter(|call| call.machine == first.machine)
        .collect();
    let (begun, rest): (Vec<&Call>, Vec<&Call>) =
        of_first.iter().partition(|call| call.digest == first.digest);
    assert_eq!(of_first[..begun.len()], begun, "{of_first:?}");
    assert_eq!(
        begun.last().map(|call| (call.updater, call.is_done)),
        Some(("files", true)),
        "{begun:?}"
    );
    assert_eq!(
        rest.last().map(|call| (call.updater, call.is_done)),
        Some(("files", true)),
        "{rest:?}"
    );
    bed.keep_uses("control-plane");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "real: cargo xtask real run cluster-api"]
async fn what_no_updater_covers_waits_with_hold_and_replaces_machines_without() {
    let mut bed = cluster(2, 1).await;
    let workers = by_uid(&bed.machines(APART, WORKERS).await);
    let calls = Calls::default();
    let files = Updater::start("files", FILES, &calls).await;
    bed.start_machines(&[&files]).await;
    let fallback =
        |value: &str| json!({"metadata": {"annotations": {"fleet.muster.dev/update-fallback": value}}});
    change(&bed, "MachineDeployment", fallback("Hold")).await;
    desire(
        &bed,
        "commands",
        "zone-2",
        &json!({"files": file("1"), "preKubeadmCommands": ["true"]}),
    )
    .await;
    let note = bed.until_event("MachineDeployment", "UpdateHeld").await;
    assert!(note.contains("/failureDomain"), "{note}");
    // Cluster API does not repeat a call after a response that is not an error.
    let requests = files.coverage_request_count();
    bed.until("Cluster API asks again", async || {
        (files.coverage_request_count() > requests + 1).then_some(())
    })
    .await;
    assert_eq!(by_uid(&bed.machines(APART, WORKERS).await), workers);

    change(&bed, "MachineDeployment", fallback("Replace")).await;
    let replaced = bed
        .until("the workers are replaced", async || {
            let machines = bed.machines(APART, WORKERS).await;
            let is_new = |machine: &Value| is_ready(machine) && machine["spec"]["failureDomain"] == "zone-2";
            (machines.len() == 2 && machines.iter().all(is_new)).then_some(machines)
        })
        .await;
    assert!(
        by_uid(&replaced).keys().all(|uid| !workers.contains_key(uid)),
        "{workers:?}"
    );
    assert_eq!(calls.lock()[..], []);
    bed.keep_uses("hold");
}
