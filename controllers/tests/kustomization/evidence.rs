//! Ready=True means healthy after muster's apply: what a controller reported about a custom resource before it confirms
//! nothing.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    Bed, condition, config, config_yaml, deployment, deployment_yaml, done, kustomization, message, read,
    ready,
};

pub(crate) const WIDGET: &str = "/apis/example.test/v1/namespaces/default/widgets/w";
/// The default settle time.
pub(crate) const SETTLE: u64 = 30;
/// How late a check may be.
const LATE: u64 = 3;

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.test"},
        "spec": {
            "group": "example.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

pub(crate) fn widget(size: u8, labels: &str) -> String {
    format!(
        "apiVersion: example.test/v1\nkind: Widget\nmetadata: {{name: w, namespace: default, labels: {{{labels}}}}}\nspec: {{size: \
         {size}}}\n"
    )
}

fn ready_status(status: &str, reason: &str, message: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": message}]})
}

fn well() -> Value {
    ready_status("True", "Reconciled", "")
}

/// A cluster in which version 1 of a widget is confirmed, and whose Kustomization has these fields besides the usual
/// ones.
pub(crate) struct Cluster {
    pub(crate) bed: Bed,
}

/// A version that was applied.
pub(crate) struct Version {
    commit: String,
    applied: Instant,
}

impl Cluster {
    pub(crate) fn empty() -> Self {
        let bed = Bed::new();
        bed.api.add([definition()]).unwrap();
        Self { bed }
    }

    async fn new() -> Self {
        let cluster = Self::empty();
        let first = cluster.bed.commit(&[("app/w.yaml", &widget(1, ""))]);
        cluster.bed.deploy(json!({})).await;
        cluster.bed.until(WIDGET, |_| true).await;
        cluster.answers(well()).await;
        cluster.bed.until_at("app", &first).await;
        cluster
    }

    /// Commits these files; returns once the widget is as `wanted`.
    pub(crate) async fn release(&self, files: &[(&str, &str)], wanted: impl Fn(&Value) -> bool) -> Version {
        let commit = self.bed.commit(files);
        self.bed.fetch(&commit).await;
        let mut applied = Instant::now();
        // As precise as the checks themselves.
        while !read(&self.bed.api, WIDGET)
            .await
            .is_some_and(|widget| wanted(&widget))
        {
            self.bed.pass(Duration::from_millis(10)).await;
            applied = Instant::now();
        }
        Version { commit, applied }
    }

    /// Version 2, with a changed spec.
    pub(crate) async fn second(&self) -> Version {
        self.release(&[("app/w.yaml", &widget(2, ""))], |widget| {
            widget["metadata"]["generation"] == 2
        })
        .await
    }

    /// The operator writes the status of the widget.
    pub(crate) async fn answers(&self, status: Value) {
        self.bed
            .edit(&format!("{WIDGET}/status"), json!({ "status": status }))
            .await;
    }

    /// The operator writes a status this many seconds after a version was applied.
    pub(crate) async fn answers_at(&self, version: &Version, seconds: u64, status: Value) {
        tokio::time::sleep_until(version.applied + Duration::from_secs(seconds)).await;
        self.answers(status).await;
    }

    /// Whether a version was ever confirmed.
    pub(crate) fn was_confirmed(&self, version: &Version) -> bool {
        let revision = format!("main@sha1:{}", version.commit);
        self.bed.api.recorder().events().iter().any(|event| {
            let object = event.object();
            object["kind"] == "Kustomization"
                && ready(object) == "True ReconciliationSucceeded"
                && object["status"]["lastAppliedRevision"] == revision
        })
    }

    /// The version is confirmed this many seconds after it was applied; returns its Kustomization.
    #[track_caller]
    pub(crate) fn until_confirmed<'a>(
        &'a self,
        version: &'a Version,
        seconds: u64,
    ) -> impl Future<Output = Value> + use<'a> {
        let caller = std::panic::Location::caller();
        async move {
            let at = Duration::from_secs(seconds);
            if at > Duration::ZERO {
                tokio::time::sleep_until(version.applied + at - Duration::from_millis(500)).await;
                assert!(!self.was_confirmed(version), "{caller}: too soon");
            }
            let object = self.bed.until_at("app", &version.commit).await;
            let took = version.applied.elapsed();
            assert!(took <= at + Duration::from_secs(LATE), "{caller}: {took:?}");
            object
        }
    }

    /// The version fails, and was never confirmed.
    pub(crate) async fn until_failed(&self, version: &Version) {
        self.bed
            .until(&kustomization("app"), |object| {
                ready(object) == "False HealthCheckFailed"
                    && object["status"]["lastAttemptedRevision"] == format!("main@sha1:{}", version.commit)
            })
            .await;
        assert!(!self.was_confirmed(version), "{:#?}", self.bed.history("app"));
    }
}

pub(crate) fn healthy(object: &Value) -> String {
    let healthy = condition(object, "Healthy").unwrap();
    format!(
        "{} {}: {}",
        healthy["status"],
        healthy["reason"],
        message(object, "Healthy")
    )
    .replace('"', "")
}

const FROM_BEFORE: &str = "True Assumed: 1 object without evidence from its controller within 30s: Widget/default/w (Ready=True is from before)";

#[tokio::test(start_paused = true)]
async fn a_failure_after_a_while_is_not_confirmed_by_what_was_said_before() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster
        .answers_at(&second, 20, ready_status("False", "Broken", "it does not start"))
        .await;
    cluster.until_failed(&second).await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_no_evidence() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    for beat in 1..SETTLE - 1 {
        cluster
            .answers_at(
                &second,
                beat,
                ready_status("True", &format!("Beat{beat}"), "alive"),
            )
            .await;
    }
    let object = cluster.until_confirmed(&second, SETTLE).await;
    assert_eq!(healthy(&object), FROM_BEFORE);
}

#[tokio::test(start_paused = true)]
async fn progress_that_ends_in_a_failure_is_not_confirmed() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster
        .answers_at(&second, 1, ready_status("Unknown", "Progressing", ""))
        .await;
    cluster.answers_at(&second, 3, well()).await;
    cluster
        .answers_at(&second, 20, ready_status("False", "Broken", ""))
        .await;
    cluster.until_failed(&second).await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_finds_it_unwell_starts_settling_again() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster
        .answers_at(&second, 10, ready_status("False", "Restarting", ""))
        .await;
    cluster.answers_at(&second, 20, well()).await;
    cluster.until_confirmed(&second, 20 + SETTLE).await;
}

#[tokio::test(start_paused = true)]
async fn a_phase_alone_is_no_evidence() {
    let cluster = Cluster::empty();
    cluster.bed.deploy(json!({})).await;
    let first = cluster.release(&[("app/w.yaml", &widget(1, ""))], |_| true).await;
    cluster
        .answers_at(&first, 1, json!({"phase": "Creating", "observedGeneration": 1}))
        .await;
    let object = cluster.until_confirmed(&first, SETTLE).await;
    let assumed = "True Assumed: 1 object without evidence from its controller within 30s: Widget/default/w (it has no Ready condition)";
    assert_eq!(healthy(&object), assumed);
}

#[tokio::test(start_paused = true)]
async fn what_was_created_is_confirmed_by_its_first_answer() {
    let cluster = Cluster::empty();
    cluster.bed.deploy(json!({})).await;
    let first = cluster.release(&[("app/w.yaml", &widget(1, ""))], |_| true).await;
    cluster.answers_at(&first, 1, json!({"phase": "Creating"})).await;
    cluster.answers_at(&first, 12, well()).await;
    let object = cluster.until_confirmed(&first, 12).await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_the_spec_before_is_not_about_this_one() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    let about = |generation: u64| {
        json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": format!("Of{generation}"), "observedGeneration": generation}]})
    };
    cluster.answers_at(&second, 5, about(1)).await;
    // Longer than anything settles.
    cluster.answers_at(&second, 60, about(2)).await;
    let object = cluster.until_confirmed(&second, 60).await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_the_spec_before_is_no_evidence() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster
        .answers_at(&second, 5, ready_status("True", "ReconciledOldSpec", ""))
        .await;
    cluster
        .answers_at(&second, 20, ready_status("False", "Broken", ""))
        .await;
    cluster.until_failed(&second).await;
}

#[tokio::test(start_paused = true)]
async fn labels_alone_are_waited_for_by_nothing() {
    let cluster = Cluster::new().await;
    let relabelled = cluster
        .release(&[("app/w.yaml", &widget(1, "team: a"))], |widget| {
            widget["metadata"]["labels"]["team"] == "a"
        })
        .await;
    let object = cluster.until_confirmed(&relabelled, 0).await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

#[tokio::test(start_paused = true)]
async fn what_fails_after_it_was_assumed_was_said_to_be_assumed() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    let object = cluster.until_confirmed(&second, SETTLE).await;
    assert_eq!(healthy(&object), FROM_BEFORE);
    cluster
        .answers_at(&second, SETTLE + 5, ready_status("False", "Broken", ""))
        .await;
    cluster.bed.until_ready("app", "False HealthCheckFailed").await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_restarts_the_settle_time() {
    let mut cluster = Cluster::new().await;
    let second = cluster.second().await;
    tokio::time::sleep_until(second.applied + Duration::from_secs(10)).await;
    cluster.bed.start();
    // Later than what settles after the apply, sooner than what settles after the restart.
    cluster
        .answers_at(&second, SETTLE + 5, ready_status("False", "Broken", ""))
        .await;
    cluster.until_failed(&second).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_what_was_confirmed_is_not_waited_for() {
    let mut cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster.until_confirmed(&second, SETTLE).await;
    cluster.bed.api.recorder().clear();
    cluster.bed.start();
    cluster.bed.pass(Duration::from_secs(1_300)).await;
    assert_eq!(cluster.bed.writes(), Vec::<String>::new());
    let object = cluster.bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(healthy(&object), FROM_BEFORE);
}

/// The next version does not change the widget, and the widget's controller has not reported the last one yet.
#[tokio::test(start_paused = true)]
async fn another_version_answers_nothing_of_the_last_one() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    tokio::time::sleep_until(second.applied + Duration::from_secs(10)).await;
    let files = [
        ("app/w.yaml", widget(2, "")),
        ("app/a.yaml", config_yaml("a", "x")),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let third = cluster.release(&files, |_| true).await;
    cluster
        .answers_at(&third, 20, ready_status("False", "Broken", ""))
        .await;
    cluster.until_failed(&third).await;
    assert!(!cluster.was_confirmed(&second));
}

/// A failure that was reported about the previous spec does not condemn this one.
#[tokio::test(start_paused = true)]
async fn what_stalled_before_is_given_the_time_to_say_otherwise() {
    let cluster = Cluster::new().await;
    let stalled = json!({"conditions": [{"type": "Stalled", "status": "True", "reason": "Bad"}]});
    cluster.answers(stalled.clone()).await;
    let second = cluster.second().await;
    let recovered = json!({"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True", "reason": "Good"}]});
    cluster.answers_at(&second, 10, recovered).await;
    cluster.until_confirmed(&second, 10).await;

    cluster
        .answers(json!({"observedGeneration": null, "conditions": stalled["conditions"]}))
        .await;
    let third = cluster
        .release(&[("app/w.yaml", &widget(3, ""))], |widget| {
            widget["metadata"]["generation"] == 3
        })
        .await;
    cluster.until_failed(&third).await;
    let took = third.applied.elapsed().as_secs();
    assert!((SETTLE..SETTLE + LATE).contains(&took), "{took}");
}

/// The case without any knowledge of the previous state, as after a retry.
#[tokio::test(start_paused = true)]
async fn a_retry_needs_evidence_of_what_was_applied_before_it() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster
        .answers_at(&second, 5, ready_status("False", "Broken", ""))
        .await;
    cluster.until_failed(&second).await;
    let failed = Version {
        commit: second.commit.clone(),
        applied: Instant::now(),
    };
    // The next try is more than a minute later.
    cluster.answers_at(&failed, 55, well()).await;
    cluster
        .answers_at(&failed, 80, ready_status("False", "Broken", ""))
        .await;
    cluster.bed.pass(Duration::from_secs(200)).await;
    assert!(!cluster.was_confirmed(&second));
    let object = cluster.bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(ready(&object), "False HealthCheckFailed");
}

#[tokio::test(start_paused = true)]
async fn how_long_it_settles_can_be_said() {
    let cluster = Cluster::new().await;
    for (size, settle) in [(2, 60), (3, 5), (4, 0)] {
        let annotations =
            json!({"metadata": {"annotations": {"fleet.muster.dev/settle": format!("{settle}s")}}});
        cluster.bed.edit(&kustomization("app"), annotations).await;
        let next = cluster
            .release(&[("app/w.yaml", &widget(size, ""))], |widget| {
                widget["spec"]["size"] == size
            })
            .await;
        let object = cluster.until_confirmed(&next, settle).await;
        let within = muster_api::Duration::from_secs(settle).to_string();
        assert_eq!(healthy(&object), FROM_BEFORE.replace("30s", &within));
    }
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_assumed_the_attempt_fails() {
    let cluster = Cluster::new().await;
    let never = json!({"metadata": {"annotations": {"fleet.muster.dev/assume": "Never"}}});
    cluster.bed.edit(&kustomization("app"), never).await;
    let second = cluster.second().await;
    cluster.until_failed(&second).await;
    let took = second.applied.elapsed().as_secs();
    assert!((SETTLE..SETTLE + LATE).contains(&took), "{took}");
    let object = cluster.bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(
        message(&object, "Ready"),
        "health check failed: 1 object without evidence from its controller within 30s: Widget/default/w (Ready=True is from before); \
         assume is Never"
    );
    let observed = json!({"observedGeneration": 2, "conditions": well()["conditions"]});
    cluster.answers(observed).await;
    let object = cluster.bed.until_at("app", &second.commit).await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

/// A confirmed assumption is not condemned by a later report.
#[tokio::test(start_paused = true)]
async fn what_was_assumed_before_stays_confirmed() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster.until_confirmed(&second, SETTLE).await;
    let never = json!({"metadata": {"annotations": {
        "fleet.muster.dev/assume": "Never", "reconcile.fluxcd.io/requestedAt": "muster-2"}}});
    cluster.bed.edit(&kustomization("app"), never).await;
    let object = cluster
        .bed
        .until(&kustomization("app"), |object| {
            object["status"]["lastHandledReconcileAt"] == "muster-2"
        })
        .await;
    assert_eq!(
        (ready(&object), healthy(&object)),
        ("True ReconciliationSucceeded".to_owned(), FROM_BEFORE.to_owned())
    );
}

/// While one object is waited for, the others are not read; all of them are read again before the version is confirmed.
#[tokio::test(start_paused = true)]
async fn what_is_well_is_read_again_at_the_end() {
    let cluster = Cluster::new().await;
    let files = [
        ("app/w.yaml", widget(2, "")),
        ("app/d.yaml", deployment_yaml("d", "nginx")),
        ("app/a.yaml", config_yaml("a", "x")),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let status = format!("{}/status", deployment("d"));
    let second = cluster
        .release(&files, |widget| widget["metadata"]["generation"] == 2)
        .await;
    cluster.bed.until(&deployment("d"), |_| true).await;
    cluster.bed.edit(&status, done(1)).await;
    tokio::time::sleep_until(second.applied + Duration::from_secs(5)).await;
    cluster.bed.api.recorder().clear();
    let crashing = json!({"status": {"readyReplicas": 0, "availableReplicas": 0}});
    tokio::time::sleep_until(second.applied + Duration::from_secs(20)).await;
    let read = |path: &str| {
        let requests = cluster.bed.api.recorder().requests();
        let ours = requests.iter().filter(|request| request.client == "muster");
        ours.filter(|request| request.path == path).count()
    };
    assert_eq!((read(&deployment("d")), read(&config("a"))), (0, 0));
    assert!(read(WIDGET) >= 5, "{}", read(WIDGET));
    cluster.bed.edit(&status, crashing).await;
    cluster.bed.pass(Duration::from_secs(30)).await;
    assert!(!cluster.was_confirmed(&second));
    cluster.bed.edit(&status, done(1)).await;
    cluster.until_confirmed(&second, 50).await;
}

/// The status that an operator writes while it updates something step by step.
fn steps(done: u32, waiting: &str) -> Value {
    let mut status = ready_status("False", "Rolling", "");
    status["observedGeneration"] = json!(2);
    status["progress"] = json!({"done": done, "total": 100, "waiting": waiting});
    status
}

fn is_failed(cluster: &Cluster) -> bool {
    let history = cluster.bed.history("app");
    history.iter().any(|ready| ready.contains("HealthCheckFailed"))
}

#[tokio::test(start_paused = true)]
async fn a_hundred_steps_are_confirmed_within_a_timeout_of_ten() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    for done in 1..=100_u32 {
        cluster
            .answers_at(&second, 30 * u64::from(done), steps(done, ""))
            .await;
    }
    cluster.bed.pass(Duration::from_secs(6)).await;
    let object = cluster.bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(healthy(&object), "Unknown Progressing: 100 of 100 done");
    let mut done = steps(100, "");
    done["conditions"] = well()["conditions"].clone();
    cluster.answers(done).await;
    cluster.bed.until_at("app", &second.commit).await;
    assert!(!is_failed(&cluster), "{:#?}", cluster.bed.history("app"));
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_waiting_for_an_approval_fails_nothing() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster.answers_at(&second, 1, steps(1, "approval")).await;
    cluster.bed.pass(Duration::from_secs(10)).await;
    cluster.bed.api.recorder().clear();
    cluster.bed.pass(Duration::from_hours(1)).await;
    assert_eq!(
        cluster.bed.writes(),
        Vec::<String>::new(),
        "nothing is written meanwhile"
    );
    let object = cluster.bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(
        healthy(&object),
        "Unknown Progressing: 1 of 100 done, waiting: approval"
    );
    let mut done = steps(100, "");
    done["conditions"] = well()["conditions"].clone();
    cluster.answers(done).await;
    cluster.bed.until_at("app", &second.commit).await;
    assert!(!is_failed(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_does_not_end_fails_at_its_own_timeout() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster.answers_at(&second, 1, steps(0, "")).await;
    cluster.answers_at(&second, 200, steps(1, "")).await;
    cluster.answers_at(&second, 400, steps(2, "")).await;
    tokio::time::sleep_until(second.applied + Duration::from_secs(695)).await;
    assert!(!is_failed(&cluster));
    cluster.until_failed(&second).await;
    let took = second.applied.elapsed();
    assert!(took < Duration::from_secs(715), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stalled_is_not_waited_for() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster.answers_at(&second, 1, steps(0, "")).await;
    let mut stalled = steps(3, "");
    stalled["conditions"] =
        json!([{"type": "Stalled", "status": "True", "reason": "NodeLost", "message": "n3 is gone"}]);
    cluster.answers_at(&second, 30, stalled).await;
    cluster.until_failed(&second).await;
    let took = second.applied.elapsed();
    assert!(took < Duration::from_secs(40), "{took:?}");
}

/// Steps of the last version do not count for this one.
#[tokio::test(start_paused = true)]
async fn steps_of_before_are_no_progress() {
    let cluster = Cluster::new().await;
    cluster.answers(steps(100, "approval")).await;
    let second = cluster
        .release(&[("app/w.yaml", &widget(3, ""))], |widget| {
            widget["spec"]["size"] == 3
        })
        .await;
    let mut old = steps(100, "approval");
    old["observedGeneration"] = json!(1);
    cluster.answers_at(&second, 1, old).await;
    tokio::time::sleep_until(second.applied + Duration::from_secs(305)).await;
    assert!(is_failed(&cluster), "{:#?}", cluster.bed.history("app"));
}

/// The next version does not change a widget that was assumed healthy: it is not waited for, and is still assumed.
#[tokio::test(start_paused = true)]
async fn what_was_assumed_is_assumed_in_the_next_version() {
    let cluster = Cluster::new().await;
    let second = cluster.second().await;
    cluster.until_confirmed(&second, SETTLE).await;
    let files = [
        ("app/w.yaml", widget(2, "")),
        ("app/a.yaml", config_yaml("a", "x")),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let third = cluster.release(&files, |_| true).await;
    cluster.bed.until(&config("a"), |_| true).await;
    let object = cluster.until_confirmed(&third, 0).await;
    assert_eq!(healthy(&object), FROM_BEFORE);
    // Its controller reports, although nothing was changed.
    cluster
        .answers(json!({"observedGeneration": 2, "conditions": well()["conditions"]}))
        .await;
    cluster.bed.request("app", "now").await;
    let object = cluster
        .bed
        .until(&kustomization("app"), |object| {
            object["status"]["lastHandledReconcileAt"] == "now"
        })
        .await;
    assert_eq!(healthy(&object), "True Succeeded: Health check passed");
}

/// Unchanged objects are judged as before: an agent of this release keeps what another one confirmed.
#[tokio::test(start_paused = true)]
async fn at_rest_a_condition_of_an_older_generation_still_counts() {
    let mut cluster = Cluster::new().await;
    let second = cluster.second().await;
    let observed = |generation: u64| {
        json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": "Good", "observedGeneration": generation}]})
    };
    cluster.answers_at(&second, 1, observed(2)).await;
    cluster.until_confirmed(&second, 1).await;
    cluster.answers(observed(1)).await;
    cluster.bed.start();
    cluster.bed.api.recorder().clear();
    cluster.bed.pass(Duration::from_secs(1_300)).await;
    assert_eq!(cluster.bed.writes(), Vec::<String>::new());
}

/// A Kustomization that was deleted and re-created knows nothing about what was applied before.
#[tokio::test(start_paused = true)]
async fn another_kustomization_of_the_name_needs_evidence_of_what_is_there() {
    let cluster = Cluster::new().await;
    let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
    cluster.bed.edit(&kustomization("app"), orphan).await;
    cluster
        .bed
        .until_ready("app", "True ReconciliationSucceeded")
        .await;
    let second = cluster.second().await;
    tokio::time::sleep_until(second.applied + Duration::from_secs(10)).await;
    cluster.bed.delete(&kustomization("app")).await;
    cluster.bed.until_gone(&kustomization("app")).await;
    cluster.bed.kustomization("app", json!({})).await;
    cluster
        .answers_at(&second, SETTLE + 5, ready_status("False", "Broken", ""))
        .await;
    cluster.until_failed(&second).await;
}
