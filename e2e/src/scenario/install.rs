//! Promise: the output of `muster install --export` works: the pods of both Deployments are admitted under the rules of
//! their namespace, and become ready; with its permissions a fleet is rolled out, and `muster check` reports no
//! problem. On real control planes only; nodes and pods are simulated, admission and permissions are real.

use std::time::Duration;

use muster_api::labels::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use crate::{
    bed::{Bed, FLEET, Ground, Objects, kinds},
    fleet::{ROLLED, condition},
};

/// The lease duration of an installed controller.
const LEASE: Duration = Duration::from_secs(15);

/// The Deployments of the management cluster and of a downstream one.
pub async fn is_admitted(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    let inside = bed.inside("eu-1", SYSTEM_NAMESPACE);
    for (objects, name) in [(bed.system(), "muster-controller"), (inside, "muster-agent")] {
        until_available(&bed, &objects, name).await;
        only_as_it_is(&objects, name).await;
    }
}

async fn until_available(bed: &Bed, objects: &Objects, name: &str) {
    let poll = async || {
        let deployment = objects
            .get(kinds::DEPLOYMENT, name)
            .await
            .ok_or("no Deployment")?;
        match condition(&deployment, "Available") {
            Some(available) if available["status"] == "True" => Ok(()),
            _ => Err(deployment["status"].to_string()),
        }
    };
    bed.wait_until(&format!("{name} is available"), ROLLED, poll)
        .await;
}

/// A pod created from the template is admitted too; one that asks for more is rejected, so the rules of the namespace
/// are in force.
async fn only_as_it_is(objects: &Objects, name: &str) {
    let deployment = objects.get(kinds::DEPLOYMENT, name).await.unwrap();
    let spec = &deployment["spec"]["template"]["spec"];
    let pod = |spec: Value| json!({"metadata": {"name": format!("{name}-by-hand")}, "spec": spec});
    let asking_more = [
        ("/hostNetwork", json!(true)),
        ("/hostPID", json!(true)),
        ("/containers/0/securityContext/privileged", json!(true)),
        (
            "/containers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
        ),
        (
            "/containers/0/securityContext/capabilities",
            json!({"add": ["NET_ADMIN"]}),
        ),
        ("/securityContext/runAsUser", json!(0)),
        ("/securityContext/runAsNonRoot", json!(false)),
        ("/securityContext/seccompProfile", json!({"type": "Unconfined"})),
        ("/volumes/0", json!({"name": "data", "hostPath": {"path": "/"}})),
    ];
    for (what, value) in asking_more {
        let mut spec = spec.clone();
        let (parent, field) = what.rsplit_once('/').unwrap();
        match spec.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[field.parse::<usize>().unwrap()] = value,
            parent => parent[field] = value,
        }
        let refused = objects.try_create(kinds::POD, pod(spec)).await;
        let why = refused.expect_err(what);
        // A privileged container with `allowPrivilegeEscalation: false` is rejected by validation, before pod security
        // is checked.
        let is_refused =
            why.contains("violates PodSecurity \"restricted:latest\"") || why.starts_with("422 ");
        assert!(is_refused, "{name}, {what}: {why}");
    }
    objects.create(kinds::POD, pod(spec.clone())).await;
}

/// From outside, `muster check` finds the installation and each cluster healthy, and reports removed permissions.
pub async fn is_well(ground: Ground) {
    let mut bed = Bed::seeded(ground, 1, Some(LEASE)).await;
    bed.prepare(&["eu-1", "us-1"]).await;
    for name in ["eu-1", "us-1"] {
        bed.join(name, &[("env", "prod")], &[]).await;
    }
    bed.deploy(&["web"]).await;
    let everything: &[&str] = &[];
    for flags in [everything, &["--cluster", "eu-1"], &["--cluster", "us-1"]] {
        let poll = async || match bed.check(flags).await {
            (Some(0), report) if is_all_well(&report) => Ok(report),
            (code, report) => Err(format!("{code:?} {report:#}")),
        };
        let (_, report) = bed
            .wait_until(&format!("muster check {flags:?} is green"), ROLLED, poll)
            .await;
        println!(
            "muster check {flags:?}: {} findings, all well",
            findings(&report).len()
        );
        // These are checked only where something runs.
        let checked: &[&str] = if flags.is_empty() {
            &["MST1101", "MST1102", "MST1104", "MST1105", "MST1204", "MST1205"]
        } else {
            &["MST1401", "MST1402", "MST1403", "MST1404", "MST1405"]
        };
        for code in checked {
            assert!(finding(&report, code).is_some(), "{code}: {report:#}");
        }
    }

    bed.stop_controller().await;
    bed.excuse_denials();
    bed.fleet().delete(kinds::ROLE_BINDING, "muster-controller").await;
    let inside = bed.inside("eu-1", SYSTEM_NAMESPACE);
    inside.delete(kinds::ROLE_BINDING, "muster-management").await;
    for (flags, code, word) in [
        (everything, "MST1104", format!("in {FLEET}")),
        (
            &["--cluster", "eu-1"],
            "MST1404",
            "may not list, watch, create, update".to_owned(),
        ),
    ] {
        let poll = async || {
            let (exit, report) = bed.check(flags).await;
            let found = finding(&report, code).cloned().unwrap_or_default();
            if exit == Some(1) && found["level"] == "Problem" && found.to_string().contains(&word) {
                Ok(())
            } else {
                Err(format!("{exit:?} {report:#}"))
            }
        };
        bed.wait_until(&format!("muster check {flags:?} misses rights"), ROLLED, poll)
            .await;
    }
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().map_or(&[], Vec::as_slice)
}

fn finding<'a>(report: &'a Value, code: &str) -> Option<&'a Value> {
    findings(report).iter().find(|finding| finding["code"] == code)
}

fn is_all_well(report: &Value) -> bool {
    report["result"] == "Ok" && findings(report).iter().all(|finding| finding["level"] == "Ok")
}
