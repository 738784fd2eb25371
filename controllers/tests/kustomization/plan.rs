//! Promise: a directory with a plan is applied in its order, each Job once for each try; a failure stops it with the
//! rest untouched, and the state of a run survives its process.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use kube::CustomResourceExt;
use muster_api::plan::{PlanControl, PlanReport, PlanRun, PlanRunSpec};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::crashes::{Blow, Fate, every};
use crate::support::{Bed, condition, config, config_yaml, ids, kustomization, message};

mod by_hand;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const RUNS: &str = "/apis/fleet.muster.dev/v1alpha1/namespaces/fleet/planruns";

const PLAN: &str = "apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec:\n  plans:\n    deploy:\n      phases:\n      - name: schema\n        \
                    steps:\n        - {name: migrate, apply: [jobs/migrate.yaml]}\n      - {name: app, steps: [{name: rest, apply: ['*']}]}\n";

fn job_yaml(image: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: migrate, namespace: default}}\nspec:\n  ttlSecondsAfterFinished: 4\n  \
         template:\n    spec: {{restartPolicy: Never, containers: [{{name: main, image: '{image}'}}]}}\n"
    )
}

/// A cluster whose Kustomization `app` has a plan.
async fn planned(plan: &str, version: &str) -> Bed {
    let bed = Bed::new();
    bed.api.add([PlanRun::crd()]).unwrap();
    commit(&bed, plan, version);
    put_run(&bed, &spec()).await;
    deploy(&bed, json!({})).await;
    bed
}

fn spec() -> PlanRunSpec {
    PlanRunSpec {
        file: "plan.yaml".to_owned(),
        ..PlanRunSpec::default()
    }
}

async fn put_run(bed: &Bed, spec: &PlanRunSpec) {
    let run = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "PlanRun", "metadata": {"name": "app"}, "spec": spec});
    bed.create(RUNS, run).await;
}

async fn deploy(bed: &Bed, extra: Value) {
    bed.repository("src", json!({})).await;
    let mut spec = json!({
        "sourceRef": {"kind": "GitRepository", "name": "src"}, "path": "app", "prune": true, "wait": true,
        "interval": "10m", "retryInterval": "1m", "timeout": "5m",
    });
    json_patch::merge(&mut spec, &extra);
    let object = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app", "annotations": {"fleet.muster.dev/plan": self::spec().digest()}}, "spec": spec,
    });
    bed.create(kustomization("").trim_end_matches('/'), object).await;
}

/// A version: its migration and its settings.
fn commit(bed: &Bed, plan: &str, version: &str) -> String {
    bed.commit(&[
        ("app/plan.yaml", plan),
        ("app/jobs/migrate.yaml", &job_yaml(&format!("tool:{version}"))),
        (
            "app/settings.yaml",
            &config_yaml("settings", &format!("v{version}")),
        ),
    ])
}

/// The existing Jobs.
async fn jobs(bed: &Bed) -> Vec<Value> {
    bed.read(JOBS).await.unwrap()["items"].as_array().unwrap().clone()
}

/// The number of Jobs that were ever created, by name.
fn made(bed: &Bed) -> Vec<(String, usize)> {
    let events = bed.api.recorder().events();
    let jobs = events.iter().map(muster_apiserver::record::EventRecord::object);
    let jobs = jobs.filter(|object| object["kind"] == "Job");
    let uids: BTreeSet<(String, String)> = jobs
        .map(|job| {
            (
                job["metadata"]["name"].as_str().unwrap().to_owned(),
                job["metadata"]["uid"].to_string(),
            )
        })
        .collect();
    let names: BTreeSet<&String> = uids.iter().map(|(name, _)| name).collect();
    names
        .into_iter()
        .map(|name| (name.clone(), uids.iter().filter(|(one, _)| one == name).count()))
        .collect()
}

/// Waits for a Job with this image that has not ended, and ends it like this.
async fn end(bed: &Bed, version: &str, condition: &str) -> String {
    let image = format!("tool:{version}");
    let list = bed.until(JOBS, |list| open(list, &image).is_some()).await;
    let name = open(&list, &image).unwrap();
    let ended = json!({"status": {"startTime": "2026-11-21T12:00:00Z", "conditions": [
        {"type": condition, "status": "True", "reason": "Test", "message": "as the test says", "lastTransitionTime": "2026-11-21T12:00:00Z"}]}});
    bed.edit(&format!("{JOBS}/{name}/status"), ended).await;
    name
}

fn open(list: &Value, image: &str) -> Option<String> {
    let jobs = list["items"].as_array()?;
    let job = jobs.iter().find(|job| {
        job["spec"]["template"]["spec"]["containers"][0]["image"] == image
            && job["status"]["conditions"].is_null()
    })?;
    Some(job["metadata"]["name"].as_str()?.to_owned())
}

async fn run(bed: &Bed) -> Value {
    bed.read(&format!("{RUNS}/app")).await.unwrap()["status"].clone()
}

/// The progress of the plan, from the condition.
fn line(object: &Value) -> String {
    PlanReport::parse(message(object, "Plan")).line
}

async fn value(bed: &Bed, name: &str) -> Value {
    bed.read(&config(name))
        .await
        .map_or(Value::Null, |object| object["data"]["key"].clone())
}

/// R22: a run is complete by evidence, and neither a restart nor a request starts another one.
#[tokio::test(start_paused = true)]
async fn the_first_version_is_deployed_step_by_step() {
    let mut bed = planned(PLAN, "1").await;
    bed.until(JOBS, |list| open(list, "tool:1").is_some()).await;
    bed.pass(Duration::from_secs(60)).await;
    let object = bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(
        value(&bed, "settings").await,
        Value::Null,
        "nothing of a later step"
    );
    assert_eq!(line(&object), "deploy 1/2 schema/migrate InProgress");
    assert_eq!(message(&object, "Healthy"), "0 of 2 done");
    let name = end(&bed, "1", "Complete").await;
    let object = bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_eq!(line(&object), "deploy 2/2 Complete");
    assert_eq!(value(&bed, "settings").await, "v1");
    let status = run(&bed).await;
    assert_eq!(status["run"]["status"], "Complete", "{status:#}");
    assert_eq!(
        status["completed"][0]["documentsDigest"],
        status["run"]["documentsDigest"]
    );
    let job = &jobs(&bed).await[0];
    assert_eq!(job["metadata"]["name"], name.as_str());
    assert_eq!(
        job["metadata"]["labels"]["fleet.muster.dev/plan-run"],
        status["run"]["uid"]
    );
    assert_eq!(
        job["spec"]["ttlSecondsAfterFinished"],
        Value::Null,
        "it stays when it has finished"
    );
    assert_eq!(
        ids(&object),
        [
            format!("default_{name}_batch_Job"),
            "default_settings__ConfigMap".to_owned()
        ]
    );
    // Neither a restart, nor a request, nor an hour runs it again.
    bed.start();
    bed.request("app", "now").await;
    bed.pass(Duration::from_secs(3_600)).await;
    bed.edit(&config("settings"), json!({"data": {"key": "drifted"}}))
        .await;
    bed.pass(Duration::from_secs(1_200)).await;
    assert_eq!(value(&bed, "settings").await, "v1", "drift is corrected");
    assert_eq!(made(&bed), [(name, 1)]);
    // It is deleted with its Kustomization.
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&format!("{RUNS}/app")).await;
    assert_eq!(jobs(&bed).await, Vec::<Value>::new());
}

/// R19: the desired state is what git declares, and is compared with what was applied here: nothing is missed while the
/// agent is down.
#[tokio::test(start_paused = true)]
async fn a_version_that_came_while_the_agent_was_down_is_carried_out() {
    let mut bed = planned(PLAN, "1").await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    bed.crash();
    commit(&bed, PLAN, "2");
    let third = commit(&bed, PLAN, "3");
    bed.pass(Duration::from_secs(3_600)).await;
    bed.start();
    end(&bed, "3", "Complete").await;
    bed.until_at("app", &third).await;
    assert_eq!(
        (made(&bed).len(), value(&bed, "settings").await),
        (2, json!("v3"))
    );
}

/// KX2: a failure stays until something else is requested.
#[tokio::test(start_paused = true)]
async fn a_migration_that_fails_leaves_the_rest_as_it_was_and_a_fix_goes_through() {
    let bed = planned(PLAN, "1").await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    commit(&bed, PLAN, "2");
    let failed = end(&bed, "2", "Failed").await;
    let object = bed.until_ready("app", "False PlanFailed").await;
    let why = message(&object, "Ready").to_owned();
    assert!(
        why.contains("step schema/migrate failed") && why.contains(&failed),
        "{why}"
    );
    assert_eq!(line(&object), "deploy 1/2 schema/migrate FatalError");
    assert_eq!(condition(&object, "Plan").unwrap()["reason"], "Revision");
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(value(&bed, "settings").await, "v1");
    assert_eq!(made(&bed).len(), 2, "it is not retried automatically");
    let fixed = commit(&bed, PLAN, "3");
    end(&bed, "3", "Complete").await;
    bed.until_at("app", &fixed).await;
    assert_eq!(value(&bed, "settings").await, "v3");
    let status = run(&bed).await;
    let history: Vec<&Value> = status["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["status"])
        .collect();
    assert_eq!(history, ["FatalError", "Complete"]);
    assert_eq!(jobs(&bed).await.len(), 1, "of the runs before nothing is kept");
}

/// kube-apiserver has no distinct reason or code for a field that a kind does not have: waiting does not help.
#[tokio::test(start_paused = true)]
async fn what_does_not_fit_its_kind_fails_at_once() {
    let bed = Bed::new();
    bed.api.add([PlanRun::crd()]).unwrap();
    let job = job_yaml("tool:1").replace("{name: main,", "{name: main, annotations: {a: b},");
    bed.commit(&[("app/plan.yaml", PLAN), ("app/jobs/migrate.yaml", &job)]);
    put_run(&bed, &spec()).await;
    deploy(&bed, json!({})).await;
    let began = tokio::time::Instant::now();
    let object = bed.until_ready("app", "False PlanFailed").await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(
        message(&object, "Ready").ends_with("field not declared in schema"),
        "{object:#}"
    );
    assert_eq!(condition(&object, "Plan").unwrap()["reason"], "Revision");
    assert_eq!(made(&bed), []);
}

/// A rejected Job is known not to have run: it needs no other name, and the inventory does not grow while it is
/// retried.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_refused_for_a_while_keeps_its_name() {
    let bed = Bed::new();
    bed.api.add([PlanRun::crd()]).unwrap();
    let creating = Match {
        verbs: vec![Verb::Patch],
        path: Some("/jobs/".into()),
        ..Match::default()
    };
    let quota = Rule::always(creating, Fault::Status(Failure::Forbidden));
    let rule = bed.api.faults().add(quota);
    commit(&bed, PLAN, "1");
    put_run(&bed, &spec()).await;
    deploy(&bed, json!({})).await;
    bed.pass(Duration::from_secs(120)).await;
    let step = run(&bed).await["run"]["phases"][0]["steps"][0].clone();
    assert_eq!(
        (&step["status"], &step["attempt"], &step["lost"]),
        (&json!("Error"), &json!(1), &Value::Null)
    );
    let object = bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(ids(&object).len(), 1, "{:?}", ids(&object));
    bed.api.faults().remove(rule);
    let name = end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_eq!(made(&bed), [(name, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_changes_no_document_runs_nothing() {
    let bed = planned(PLAN, "1").await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    let again = bed.commit(&[
        ("app/plan.yaml", PLAN),
        ("app/jobs/migrate.yaml", &job_yaml("tool:1")),
        (
            "app/settings.yaml",
            &format!("# Words.\n{}", config_yaml("settings", "v1")),
        ),
    ]);
    bed.until_at("app", &again).await;
    assert_eq!(made(&bed).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn going_back_runs_no_migration() {
    let bed = planned(PLAN, "1").await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    commit(&bed, PLAN, "2");
    end(&bed, "2", "Failed").await;
    bed.until_ready("app", "False PlanFailed").await;
    let back = commit(&bed, PLAN, "1");
    let object = bed.until_at("app", &back).await;
    assert_eq!(line(&object), "rollback 1/1 Complete");
    assert_eq!(value(&bed, "settings").await, "v1");
    assert_eq!(made(&bed).len(), 2);
}

/// R20, R23: one run at a time, and a waiting run names the run that it waits for.
#[tokio::test(start_paused = true)]
async fn a_new_content_waits_for_the_job_that_is_at_work() {
    let bed = planned(PLAN, "1").await;
    bed.until(JOBS, |list| open(list, "tool:1").is_some()).await;
    let second = commit(&bed, PLAN, "2");
    let object = bed.until_ready("app", "False PlanRunning").await;
    let uid = run(&bed).await["run"]["uid"].as_str().unwrap().to_owned();
    let waits = format!("of run {uid} (plan deploy) is still active");
    assert!(message(&object, "Ready").contains(&waits), "{object:#}");
    bed.pass(Duration::from_secs(120)).await;
    assert_eq!(made(&bed).len(), 1, "two migrations never run together");
    end(&bed, "1", "Complete").await;
    end(&bed, "2", "Complete").await;
    bed.until_at("app", &second).await;
    assert_eq!(value(&bed, "settings").await, "v2");
}

/// An image that cannot be pulled does not end a Job: the fix is applied without manual action, and never runs beside
/// it.
#[tokio::test(start_paused = true)]
async fn a_job_that_hangs_is_deleted_once_its_time_is_up_and_before_another_one_is_made() {
    for fails_first in [true, false] {
        let bed = planned(PLAN, "1").await;
        bed.until(JOBS, |list| open(list, "tool:1").is_some()).await;
        if fails_first {
            bed.until_ready("app", "False PlanFailed").await;
        }
        let second = commit(&bed, PLAN, "2");
        let list = bed.until(JOBS, |list| open(list, "tool:2").is_some()).await;
        assert_eq!(open(&list, "tool:1"), None, "two migrations never run together");
        end(&bed, "2", "Complete").await;
        bed.until_at("app", &second).await;
        assert_eq!(value(&bed, "settings").await, "v2");
        assert!(made(&bed).iter().all(|(_, objects)| *objects == 1));
    }
}

/// A namespace in the manifest of a cluster-scoped object is ignored: it is recorded without one.
#[tokio::test(start_paused = true)]
async fn what_a_run_applied_stays_whatever_namespace_is_written() {
    let bed = Bed::new();
    bed.api.add([PlanRun::crd()]).unwrap();
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader, namespace: default}\n";
    let put = |version: &str| {
        bed.commit(&[
            ("app/plan.yaml", PLAN),
            ("app/jobs/migrate.yaml", &job_yaml(&format!("tool:{version}"))),
            ("app/role.yaml", role),
        ])
    };
    put("1");
    put_run(&bed, &spec()).await;
    deploy(&bed, json!({})).await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader";
    let before = bed.read(path).await.expect("it is not pruned");
    let second = put("2");
    end(&bed, "2", "Complete").await;
    bed.until_at("app", &second).await;
    let after = bed.read(path).await.expect("it is not pruned");
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
}

/// R26: a Job's name contains run, phase, step and try, so that none is created twice.
#[tokio::test(start_paused = true)]
async fn a_job_lost_before_its_end_was_observed_is_recreated_under_another_name() {
    for restart in [false, true] {
        let mut bed = planned(PLAN, "1").await;
        bed.until(JOBS, |list| open(list, "tool:1").is_some()).await;
        bed.pass(Duration::from_secs(5)).await;
        if restart {
            bed.crash();
        }
        let name = jobs(&bed).await[0]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        bed.delete(&format!("{JOBS}/{name}")).await;
        if restart {
            bed.start();
        }
        end(&bed, "1", "Complete").await;
        bed.until_ready("app", "True ReconciliationSucceeded").await;
        let made = made(&bed);
        assert!(
            made.len() == 2 && made.iter().all(|(_, objects)| *objects == 1),
            "{made:?}"
        );
        let step = &run(&bed).await["run"]["phases"][0]["steps"][0];
        assert_eq!((&step["attempt"], &step["lost"]), (&json!(2), &json!(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_with_retries_is_tried_again_by_a_job_of_its_own() {
    let plan = PLAN.replace("migrate.yaml]}", "migrate.yaml], retries: 1}");
    let bed = planned(&plan, "1").await;
    let first = end(&bed, "1", "Failed").await;
    let second = end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_ne!(first, second);
    assert_eq!(made(&bed).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_deletes_what_is_in_the_inventory_and_nothing_else() {
    let plan = PLAN.replace(
        "- {name: app,",
        "- {name: away, steps: [{name: old, delete: [{apiVersion: v1, kind: ConfigMap, namespace: default, name: old}, \
         {apiVersion: v1, kind: ConfigMap, namespace: default, name: foreign}]}]}\n      - {name: app,",
    );
    let bed = planned(PLAN, "1").await;
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}});
    bed.create("/api/v1/namespaces/default/configmaps", foreign).await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    let files = |version: &str, plan: &str| {
        [
            ("app/plan.yaml", plan.to_owned()),
            ("app/jobs/migrate.yaml", job_yaml(&format!("tool:{version}"))),
        ]
    };
    let with: Vec<(&str, String)> = files("1", PLAN)
        .into_iter()
        .chain([("app/old.yaml", config_yaml("old", "x"))])
        .collect();
    let with: Vec<(&str, &str)> = with.iter().map(|(path, text)| (*path, text.as_str())).collect();
    bed.commit(&with);
    end(&bed, "1", "Complete").await;
    bed.until(&config("old"), |_| true).await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    let without = files("2", &plan);
    let without: Vec<(&str, &str)> = without
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    let commit = bed.commit(&without);
    end(&bed, "2", "Complete").await;
    bed.until_at("app", &commit).await;
    bed.until_gone(&config("old")).await;
    assert!(bed.read(&config("foreign")).await.is_some());
    assert_eq!(
        run(&bed).await["run"]["phases"][1]["steps"][0]["status"],
        "Complete"
    );
}

#[tokio::test(start_paused = true)]
async fn cleanup_runs_before_anything_is_removed_by_the_version_that_completed_last() {
    let plan = format!(
        "{PLAN}    cleanup: {{phases: [{{name: before, steps: [{{name: dump, apply: [jobs/dump.yaml]}}]}}]}}\n"
    );
    let dump = |version: &str| job_yaml(&format!("dump:{version}")).replace("name: migrate", "name: dump");
    let with = |bed: &Bed, version: &str| {
        bed.commit(&[
            ("app/plan.yaml", &plan),
            ("app/jobs/migrate.yaml", &job_yaml(&format!("tool:{version}"))),
            ("app/jobs/dump.yaml", &dump(version)),
            (
                "app/settings.yaml",
                &config_yaml("settings", &format!("v{version}")),
            ),
        ])
    };
    let dumping = |list: &Value, version: &str| open(list, &format!("dump:{version}"));
    for (fails, orphan) in [(false, false), (true, false), (false, true)] {
        let bed = Bed::new();
        bed.api.add([PlanRun::crd()]).unwrap();
        with(&bed, "1");
        put_run(&bed, &spec()).await;
        deploy(
            &bed,
            json!({"deletionPolicy": if orphan { "Orphan" } else { "Delete" }}),
        )
        .await;
        end(&bed, "1", "Complete").await;
        bed.until_ready("app", "True ReconciliationSucceeded").await;
        assert_eq!(
            dumping(&bed.read(JOBS).await.unwrap(), "1"),
            None,
            "no step of deploy"
        );
        with(&bed, "2");
        end(&bed, "2", "Failed").await;
        bed.until_ready("app", "False PlanFailed").await;
        bed.delete(&kustomization("app")).await;
        if orphan {
            bed.until_gone(&kustomization("app")).await;
            assert_eq!(dumping(&bed.read(JOBS).await.unwrap(), "1"), None);
            assert_eq!(value(&bed, "settings").await, "v1");
            continue;
        }
        let list = bed.until(JOBS, |list| dumping(list, "1").is_some()).await;
        bed.pass(Duration::from_secs(60)).await;
        assert_eq!(
            value(&bed, "settings").await,
            "v1",
            "nothing is removed before it is done"
        );
        let ended = if fails { "Failed" } else { "Complete" };
        let ended = json!({"status": {"conditions": [{"type": ended, "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"}]}});
        bed.edit(&format!("{JOBS}/{}/status", dumping(&list, "1").unwrap()), ended)
            .await;
        if fails {
            let names_annotation = |object: &Value| {
                message(object, "Ready").contains("annotate kustomization app fleet.muster.dev/plan-")
            };
            bed.until(&kustomization("app"), names_annotation).await;
            bed.pass(Duration::from_secs(600)).await;
            assert_eq!(value(&bed, "settings").await, "v1");
            bed.edit(
                &kustomization("app"),
                json!({"metadata": {"annotations": {"fleet.muster.dev/plan": null}}}),
            )
            .await;
        }
        bed.until_gone(&kustomization("app")).await;
        assert_eq!(
            (jobs(&bed).await.len(), value(&bed, "settings").await),
            (0, Value::Null)
        );
        assert!(made(&bed).iter().all(|(_, objects)| *objects == 1));
    }
}

/// A first version, one whose migration fails, the fix, and the withdrawal with its cleanup; returns the state after
/// each.
async fn story(bed: &Bed) -> Vec<String> {
    let plan = format!(
        "{PLAN}    cleanup: {{phases: [{{name: before, steps: [{{name: dump, apply: [jobs/dump.yaml]}}]}}]}}\n"
    );
    let put = |version: &str| {
        bed.commit(&[
            ("app/plan.yaml", &plan),
            ("app/jobs/migrate.yaml", &job_yaml(&format!("tool:{version}"))),
            (
                "app/jobs/dump.yaml",
                &job_yaml("dump").replace("name: migrate", "name: dump"),
            ),
            (
                "app/settings.yaml",
                &config_yaml("settings", &format!("v{version}")),
            ),
        ])
    };
    let mut worlds = Vec::new();
    put("1");
    put_run(bed, &spec()).await;
    deploy(bed, json!({"deletionPolicy": "WaitForTermination"})).await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    worlds.push(world(bed).await);
    put("2");
    bed.fetch("2").await;
    bed.until_ready("app", "False PlanFailed").await;
    worlds.push(world(bed).await);
    let fixed = put("3");
    bed.fetch("3").await;
    bed.until_at("app", &fixed).await;
    worlds.push(world(bed).await);
    bed.delete(&kustomization("app")).await;
    bed.until_gone(&kustomization("app")).await;
    bed.until_gone(&format!("{RUNS}/app")).await;
    worlds.push(world(bed).await);
    worlds
}

async fn world(bed: &Bed) -> String {
    let run = bed.read(&format!("{RUNS}/app")).await.unwrap_or_default();
    let run = &run["status"]["run"];
    let jobs = jobs(bed).await;
    let images: BTreeSet<String> = jobs.iter().map(|job| image(job).to_owned()).collect();
    format!(
        "settings {}, run {} {}, jobs {images:?}",
        value(bed, "settings").await,
        run["plan"],
        run["status"]
    )
}

fn image(job: &Value) -> &str {
    job["spec"]["template"]["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap()
}

/// Ends each Job: that of the second version fails.
async fn finish_jobs(bed: &Bed) {
    loop {
        for job in jobs(bed).await {
            if job["status"]["conditions"].is_null() {
                let kind = if image(&job) == "tool:2" {
                    "Failed"
                } else {
                    "Complete"
                };
                let ended = json!({"status": {"conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"}]}});
                let name = job["metadata"]["name"].as_str().unwrap();
                bed.edit(&format!("{JOBS}/{name}/status"), ended).await;
            }
        }
        bed.pass(Duration::from_millis(700)).await;
    }
}

/// Runs the scenario; returns its states, and the number of requests that may write. Each try has one Job object, and
/// each image ran.
async fn run_story(blow: Option<(usize, Blow)>) -> (Vec<String>, usize) {
    let bed = Bed::idle();
    bed.api.add([PlanRun::crd()]).unwrap();
    let fate = Fate::new(blow);
    let worlds = tokio::select! {
        worlds = fate.under(&bed, story(&bed)) => worlds,
        () = finish_jobs(&bed) => unreachable!("it does not end"),
    };
    let made = made(&bed);
    assert!(
        made.iter().all(|(_, objects)| *objects == 1),
        "{blow:?}: {made:?}"
    );
    // A try that was lost before its Job was created has none, so there is one for each step that ran.
    assert_eq!(made.len(), 4, "{blow:?}: {made:?}");
    let events = bed.api.recorder().events();
    let jobs = events
        .iter()
        .map(muster_apiserver::record::EventRecord::object)
        .filter(|object| object["kind"] == "Job");
    let images: BTreeSet<String> = jobs.map(|job| image(job).to_owned()).collect();
    assert_eq!(
        images,
        ["dump", "tool:1", "tool:2", "tool:3"].map(str::to_owned).into()
    );
    (worlds, fate.count.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn the_story_without_a_crash() {
    let (worlds, _) = run_story(None).await;
    insta::assert_snapshot!(worlds.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn killed_before_every_write() {
    every(Blow::Before, 50, run_story).await;
}

/// KX1, R21: a second write follows from the first, so that no crash between them leaves a run that nothing ends.
#[tokio::test(start_paused = true)]
async fn killed_after_every_write() {
    every(Blow::After, 50, run_story).await;
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_every_write_lost() {
    every(Blow::AnswerLost, 50, run_story).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_applied_before_the_plan_run_is_there_and_agrees() {
    let bed = Bed::new();
    bed.api.add([PlanRun::crd()]).unwrap();
    commit(&bed, PLAN, "1");
    deploy(&bed, json!({})).await;
    let object = bed.until_ready("app", "False PlanRunNotReady").await;
    assert!(message(&object, "Ready").contains("PlanRun fleet/app does not exist"));
    put_run(
        &bed,
        &PlanRunSpec {
            file: "other.yaml".to_owned(),
            ..PlanRunSpec::default()
        },
    )
    .await;
    bed.until(&kustomization("app"), |object| {
        message(object, "Ready").contains("has another spec")
    })
    .await;
    assert_eq!(
        (jobs(&bed).await.len(), value(&bed, "settings").await),
        (0, Value::Null)
    );
    bed.edit(&format!("{RUNS}/app"), json!({"spec": {"file": "plan.yaml"}}))
        .await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
}

#[tokio::test(start_paused = true)]
async fn plan_errors_appear_in_the_status_and_nothing_is_applied() {
    let cases = [
        (PLAN.replace("'*'", "nothing.yaml"), "no file \"nothing.yaml\""),
        (
            PLAN.replace("- name: schema", "- name: schema\n        strategy: rolling"),
            "unknown variant `rolling`",
        ),
        (
            PLAN.replace("kind: Plan", "kind: Job"),
            "a plan file is one document of kind Plan",
        ),
        (
            PLAN.replace("'*'", "jobs/migrate.yaml"),
            "a file is in one step of a plan",
        ),
    ];
    for (plan, expect) in cases {
        let bed = planned(&plan, "1").await;
        let object = bed.until_ready("app", "False BuildFailed").await;
        let why = message(&object, "Ready").to_owned();
        assert!(why.contains(expect) && why.contains("app/plan.yaml:"), "{why}");
        assert_eq!(
            (jobs(&bed).await.len(), value(&bed, "settings").await),
            (0, Value::Null)
        );
    }
    let bed = Bed::new();
    bed.api.add([PlanRun::crd()]).unwrap();
    bed.commit(&[("app/settings.yaml", &config_yaml("settings", "v1"))]);
    put_run(&bed, &spec()).await;
    deploy(&bed, json!({})).await;
    let object = bed.until_ready("app", "False BuildFailed").await;
    assert!(
        message(&object, "Ready").contains("there is no \"plan.yaml\" below \"app\""),
        "{object:#}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_nothing_names_is_refused() {
    let bed = Bed::new();
    commit(&bed, PLAN, "1");
    bed.deploy(json!({})).await;
    let object = bed.until_ready("app", "False BuildFailed").await;
    let why = message(&object, "Ready");
    assert!(
        why.contains("app/plan.yaml:2:7: kind is a plan that its Module does not reference"),
        "{why}"
    );
    assert_eq!(jobs(&bed).await.len(), 0);
}
