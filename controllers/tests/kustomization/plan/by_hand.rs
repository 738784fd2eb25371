//! Promise: a manual control of a plan's run is handled once, names one run, and reports its result; a plan that is
//! started by hand never makes a version unhealthy.

use super::*;

const WITH_BACKUP: &str = "apiVersion: fleet.muster.dev/v1alpha1\nkind: Plan\nspec:\n  plans:\n    deploy:\n      phases:\n      \
     - {name: schema, steps: [{name: migrate, apply: [jobs/migrate.yaml]}]}\n      - {name: app, steps: [{name: rest, apply: ['*']}]}\n    \
     backup: {phases: [{name: dump, steps: [{name: all, apply: [jobs/backup.yaml]}]}]}\n";

fn with_backup(bed: &Bed, version: &str) -> String {
    let backup = job_yaml("tool:backup").replace("name: migrate", "name: backup");
    bed.commit(&[
        ("app/plan.yaml", WITH_BACKUP),
        ("app/jobs/migrate.yaml", &job_yaml(&format!("tool:{version}"))),
        ("app/jobs/backup.yaml", &backup),
        (
            "app/settings.yaml",
            &config_yaml("settings", &format!("v{version}")),
        ),
    ])
}

async fn backed_up() -> Bed {
    let bed = Bed::new();
    bed.api.add([PlanRun::crd()]).unwrap();
    with_backup(&bed, "1");
    put_run(&bed, &spec()).await;
    deploy(&bed, json!({})).await;
    bed
}

/// Writes a spec as the expander does: first the PlanRun, then the Kustomization's reference to it.
async fn write(bed: &Bed, spec: PlanRunSpec) {
    bed.edit(&format!("{RUNS}/app"), json!({"spec": spec})).await;
    let annotations = json!({
        "fleet.muster.dev/plan": spec.digest(),
        "reconcile.fluxcd.io/requestedAt": spec.digest(),
    });
    bed.edit(
        &kustomization("app"),
        json!({"metadata": {"annotations": annotations}}),
    )
    .await;
}

/// Sets a control and waits until it was handled or refused; returns why it was refused.
async fn control(bed: &Bed, words: &str) -> Option<String> {
    let control = PlanControl::parse(words, "", Some(" by ann (a test)".to_owned())).unwrap();
    let id = control.id.clone();
    let wanted = PlanRunSpec {
        control: Some(control),
        ..spec()
    };
    write(bed, wanted).await;
    let taken = |object: &Value| report(object).control.is_some_and(|taken| taken.id == id);
    let object = bed.until(&kustomization("app"), taken).await;
    report(&object).control.unwrap().refused
}

fn report(object: &Value) -> PlanReport {
    PlanReport::parse(message(object, "Plan"))
}

async fn uid(bed: &Bed) -> String {
    run(bed).await["run"]["uid"].as_str().unwrap().to_owned()
}

/// A cluster whose second version has failed in its migration.
async fn failed() -> Bed {
    let bed = planned(PLAN, "1").await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    commit(&bed, PLAN, "2");
    end(&bed, "2", "Failed").await;
    bed.until_ready("app", "False PlanFailed").await;
    bed
}

#[tokio::test(start_paused = true)]
async fn a_step_that_failed_is_retried_once() {
    let bed = failed().await;
    let retry = format!("retry/{}/schema/migrate", uid(&bed).await);
    assert_eq!(control(&bed, &retry).await, None);
    end(&bed, "2", "Failed").await;
    bed.until_ready("app", "False PlanFailed").await;
    assert_eq!(made(&bed).len(), 3);
    // The control is still set, and was handled.
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(made(&bed).len(), 3);
    assert_eq!(value(&bed, "settings").await, "v1");
    let again = format!("retry/{}/schema/migrate", uid(&bed).await);
    let retried = PlanControl::parse(&again, "later", None);
    write(
        &bed,
        PlanRunSpec {
            control: retried,
            ..spec()
        },
    )
    .await;
    end(&bed, "2", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_eq!(value(&bed, "settings").await, "v2");
    assert!(
        made(&bed).iter().all(|(_, objects)| *objects == 1),
        "{:?}",
        made(&bed)
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_skipped_is_named() {
    let bed = failed().await;
    let skip = format!("skip/{}/schema/migrate", uid(&bed).await);
    assert_eq!(control(&bed, &skip).await, None);
    let object = bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_eq!(
        report(&object).line,
        "deploy 2/2 Complete, skipped: schema/migrate"
    );
    assert_eq!(value(&bed, "settings").await, "v2");
    let step = &run(&bed).await["run"]["phases"][0]["steps"][0];
    assert_eq!(
        (&step["assumed"], &step["message"]),
        (&json!(true), &json!("skipped: by ann (a test)"))
    );
    assert_eq!(made(&bed).len(), 2);
}

/// R24: a run is ended by a command, with the user and the reason recorded.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_aborted_has_failed_and_its_job_is_gone() {
    let bed = planned(PLAN, "1").await;
    bed.until(JOBS, |list| open(list, "tool:1").is_some()).await;
    let abort = format!("abort/{}", uid(&bed).await);
    assert_eq!(control(&bed, &abort).await, None);
    let object = bed.until_ready("app", "False PlanFailed").await;
    assert!(
        message(&object, "Ready").ends_with("aborted: by ann (a test)"),
        "{object:#}"
    );
    assert_eq!(
        condition(&object, "Plan").unwrap()["reason"],
        "Unit",
        "no verdict on the version"
    );
    bed.until(JOBS, |list| list["items"] == json!([])).await;
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(
        (made(&bed).len(), value(&bed, "settings").await),
        (1, Value::Null)
    );
}

/// R23, R25: a control names its run and gets a result of its own.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let bed = failed().await;
    let (before, writes) = (run(&bed).await["run"].clone(), made(&bed));
    let uid = uid(&bed).await;
    for (words, why) in [
        ("abort/0123", "it is for run 0123".to_owned()),
        (
            &format!("abort/{uid}"),
            format!("run {uid} of plan deploy is FatalError already"),
        ),
        (
            &format!("retry/{uid}/app/rest"),
            "step app/rest is Pending: only a failed step can be retried".to_owned(),
        ),
        (
            &format!("skip/{uid}/schema/other"),
            "plan deploy has no step schema/other".to_owned(),
        ),
        (
            "start/deploy",
            "the plan file has these plans that can be started: none".to_owned(),
        ),
    ] {
        let refused = control(&bed, words).await.unwrap_or_default();
        assert!(refused.starts_with(&why), "{words}: {refused:?}");
        assert_eq!(
            (&run(&bed).await["run"], made(&bed)),
            (&before, writes.clone()),
            "{words}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_started_by_hand_runs_once_beside_a_healthy_version() {
    for ending in ["Complete", "Failed"] {
        let mut bed = backed_up().await;
        // It waits for the version.
        bed.until(JOBS, |list| open(list, "tool:1").is_some()).await;
        let start = PlanControl::parse("start/backup", "", None);
        write(
            &bed,
            PlanRunSpec {
                control: start,
                ..spec()
            },
        )
        .await;
        bed.pass(Duration::from_secs(30)).await;
        assert_eq!(made(&bed).len(), 1, "one run at a time");
        end(&bed, "1", "Complete").await;
        bed.until_ready("app", "True ReconciliationSucceeded").await;
        bed.until(JOBS, |list| open(list, "tool:backup").is_some()).await;
        let ready = bed.history("app");
        bed.crash();
        bed.start();
        end(&bed, "backup", ending).await;
        let state = if ending == "Complete" {
            "Complete"
        } else {
            "FatalError"
        };
        bed.until(&format!("{RUNS}/app"), |object| {
            object["status"]["byHand"]["status"] == state
        })
        .await;
        bed.pass(Duration::from_secs(3_600)).await;
        assert_eq!(bed.history("app"), ready, "the version is as healthy as it was");
        assert_eq!(made(&bed).len(), 2, "{:?}", made(&bed));
        let status = run(&bed).await;
        assert_eq!(
            (
                &status["run"]["status"],
                status["completed"].as_array().unwrap().len()
            ),
            (&json!("Complete"), 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_waits_for_the_job_of_a_plan_that_was_started_by_hand() {
    let bed = backed_up().await;
    end(&bed, "1", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_eq!(control(&bed, "start/backup").await, None);
    bed.until(JOBS, |list| open(list, "tool:backup").is_some()).await;
    let second = with_backup(&bed, "2");
    bed.until_ready("app", "False PlanRunning").await;
    bed.pass(Duration::from_secs(60)).await;
    assert_eq!(made(&bed).len(), 2);
    end(&bed, "backup", "Complete").await;
    end(&bed, "2", "Complete").await;
    bed.until_at("app", &second).await;
    let history = run(&bed).await["history"].clone();
    let plans: Vec<&Value> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["plan"])
        .collect();
    assert_eq!(plans, ["backup", "deploy"]);
}

/// What `muster rollout retry` does in a cluster.
#[tokio::test(start_paused = true)]
async fn a_greater_attempt_runs_the_same_content_again() {
    let bed = failed().await;
    let before = uid(&bed).await;
    let attempt = |attempt| PlanRunSpec {
        attempt: Some(attempt),
        ..spec()
    };
    write(&bed, attempt(7)).await;
    end(&bed, "2", "Complete").await;
    bed.until_ready("app", "True ReconciliationSucceeded").await;
    assert_ne!(uid(&bed).await, before);
    assert_eq!(
        (made(&bed).len(), value(&bed, "settings").await),
        (3, json!("v2"))
    );
    bed.request("app", "later").await;
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(made(&bed).len(), 3);
}

/// A cleanup that failed blocks a withdrawal: a step of it can be retried or skipped.
#[tokio::test(start_paused = true)]
async fn a_cleanup_that_failed_goes_on_by_hand() {
    let plan = format!(
        "{PLAN}    cleanup: {{phases: [{{name: before, steps: [{{name: dump, apply: [jobs/dump.yaml]}}]}}]}}\n"
    );
    let dump = job_yaml("tool:dump").replace("name: migrate", "name: dump");
    for (action, dumps) in [("retry", 2), ("skip", 1)] {
        let bed = Bed::new();
        bed.api.add([PlanRun::crd()]).unwrap();
        bed.commit(&[
            ("app/plan.yaml", &plan),
            ("app/jobs/migrate.yaml", &job_yaml("tool:1")),
            ("app/jobs/dump.yaml", &dump),
            ("app/settings.yaml", &config_yaml("settings", "v1")),
        ]);
        put_run(&bed, &spec()).await;
        deploy(&bed, json!({"deletionPolicy": "Delete"})).await;
        end(&bed, "1", "Complete").await;
        bed.until_ready("app", "True ReconciliationSucceeded").await;
        bed.delete(&kustomization("app")).await;
        end(&bed, "dump", "Failed").await;
        let failed = |object: &Value| message(object, "Ready").contains("step before/dump failed");
        let object = bed.until(&kustomization("app"), failed).await;
        assert_eq!(report(&object).line, "cleanup 1/1 before/dump FatalError");
        let words = format!("{action}/{}/before/dump", report(&object).run);
        let control = PlanControl::parse(&words, "", None);
        bed.edit(&format!("{RUNS}/app"), json!({"spec": {"control": control}}))
            .await;
        bed.request("app", "by hand").await;
        if action == "retry" {
            end(&bed, "dump", "Complete").await;
        }
        bed.until_gone(&kustomization("app")).await;
        assert_eq!(
            (made(&bed).len(), value(&bed, "settings").await),
            (1 + dumps, Value::Null)
        );
    }
}
