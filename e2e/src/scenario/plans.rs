//! Promise: a migration that fails on the first cluster stops the rollout with the old version untouched; the fix rolls
//! out, going back runs no migration, and a cleanup runs before anything is removed, whenever the agent is killed.

use std::{collections::BTreeSet, fs, time::Duration};

use muster_real::Cache;
use serde_json::{Value, json};

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{APPS, ROLLED, condition},
};

const PLAN: &str = "apiVersion: fleet.muster.dev/v1alpha1
kind: Plan
spec:
  plans:
    deploy:
      phases:
      - {name: schema, steps: [{name: migrate, apply: [jobs/migrate.yaml]}]}
      - {name: app, steps: [{name: rest, apply: ['*']}]}
      - {name: verify, steps: [{name: smoke, apply: [jobs/smoke.yaml]}]}
    cleanup:
      phases:
      - {name: before, steps: [{name: dump, apply: [jobs/dump.yaml]}]}
    backup:
      phases:
      - {name: copy, steps: [{name: all, apply: [jobs/backup.yaml]}]}
";

/// A failing migration, the fix, going back, and the removal, with Flux's own CRDs, which have no field for a plan. On
/// real control planes only.
pub async fn with_the_definitions_of_flux(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    let files = Cache::open().and_then(|cache| cache.files("flux")).unwrap();
    let definitions: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let definitions = definitions.join("\n---\n");
    for cluster in CLUSTERS {
        bed.administer(cluster, &definitions).await;
    }
    run_scenario(bed).await;
}

/// The same with muster's CRDs.
pub async fn a_migration_fails_and_is_fixed(ground: Ground) {
    run_scenario(Bed::with_clusters(ground, &CLUSTERS).await).await;
}

async fn run_scenario(mut bed: Bed) {
    let first = release(&bed, 1, true);
    let mut spec = bed.spec("db", &first);
    spec["sync"]["package"]["plan"] = json!({"file": "plan.yaml"});
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": "db"}, "spec": spec}))
        .await;
    bed.until_ready("db", &first).await;
    assert_eq!(row(&bed, "us-1").await["plan"], "deploy 3/3 Complete");

    let bad = release(&bed, 2, false);
    bed.target("db", &bad).await;
    let module = bed.until_reason("db", "Failed", ROLLED).await;
    let why = condition(&module, "Ready").unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    println!("{why}");
    for word in ["eu-1", "schema/migrate", "Job/default/migrate-"] {
        assert!(why.contains(word), "{word} is not named: {why}");
    }
    for cluster in CLUSTERS {
        assert_eq!(
            version(&bed, cluster).await,
            "db-v1",
            "{cluster}: what comes after the migration is untouched"
        );
    }
    assert_eq!(images(&bed, "eu-2").await, ["migrate:1", "smoke:1"]);

    // A step is skipped manually: the cluster continues, this is recorded, and the version stays bad for all others.
    let run = row(&bed, "eu-1").await["planRun"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    by_hand(&bed, &format!("eu-1@skip/{run}/schema/migrate")).await;
    until_plan(&bed, "eu-1", "deploy 3/3 Complete, skipped: schema/migrate").await;
    let versions = [version(&bed, "eu-1").await, version(&bed, "eu-2").await];
    assert_eq!(versions, ["db-v2", "db-v1"]);

    // The agent of the first cluster is killed in each phase of the fix.
    let fixed = release(&bed, 3, true);
    bed.target("db", &fixed).await;
    for phase in ["schema/migrate InProgress", "verify/smoke InProgress"] {
        until_plan(&bed, "eu-1", phase).await;
        bed.crash_agent("eu-1").await;
        bed.start_agent("eu-1");
    }
    bed.until_ready("db", &fixed).await;
    for cluster in CLUSTERS {
        assert_eq!(version(&bed, cluster).await, "db-v3", "{cluster}");
        assert_eq!(images(&bed, cluster).await, ["migrate:3", "smoke:3"], "{cluster}");
        assert_eq!(
            jobs(&bed, cluster).await.len(),
            2,
            "{cluster}: one object for each step"
        );
    }

    by_hand(&bed, "eu-2@start/backup").await;
    until_plan(&bed, "eu-2", "backup 1/1 Complete").await;
    assert_eq!(images(&bed, "eu-2").await, ["backup:3", "migrate:3", "smoke:3"]);
    assert_eq!(images(&bed, "eu-1").await, ["migrate:3", "smoke:3"]);
    bed.until_ready("db", &fixed).await;

    bed.target("db", &first).await;
    bed.until_ready("db", &first).await;
    for cluster in CLUSTERS {
        assert_eq!(version(&bed, cluster).await, "db-v1", "{cluster}");
        assert_eq!(
            row(&bed, cluster).await["plan"],
            "rollback 1/1 Complete",
            "{cluster}"
        );
        assert!(
            !images(&bed, cluster).await.contains(&"migrate:1".to_owned()),
            "{cluster}: no migration"
        );
    }

    bed.fleet().delete(kinds::MODULE, "db").await;
    let dumped = async || match images(&bed, "eu-1").await {
        images if images.contains(&"dump:1".to_owned()) => Ok(()),
        images => Err(format!("{images:?}")),
    };
    bed.wait_until("the cleanup runs", ROLLED, dumped).await;
    let gone = async || match bed.fleet().get(kinds::MODULE, "db").await {
        None => Ok(()),
        Some(module) => Err(crate::fleet::status_text(&module)),
    };
    bed.wait_until("the module is gone", Duration::from_mins(2), gone)
        .await;
    for cluster in CLUSTERS {
        assert_eq!(jobs(&bed, cluster).await, Vec::<Value>::new(), "{cluster}");
        assert_eq!(version(&bed, cluster).await, "", "{cluster}");
    }
}

/// Commits a version. Its migration succeeds or fails.
fn release(bed: &Bed, number: u32, good: bool) -> String {
    let tag = format!("db-v{number}");
    let job = |name: &str, fails: bool| {
        let annotations = if fails {
            "annotations: {player.muster-apiserver.dev/fail: crash}"
        } else {
            "annotations: {player.muster-apiserver.dev/finish-after: 2s}"
        };
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: {APPS}, {annotations}}}\nspec:\n  backoffLimit: 0\n  \
             template:\n    spec: {{restartPolicy: Never, containers: [{{name: main, image: '{name}:{number}{tail}'}}]}}\n",
            // Makes pods of real clusters fail: see e2e/real/stages.
            tail = if fails { "-fails" } else { "" },
        )
    };
    let settings = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: db, namespace: {APPS}}}\ndata: {{version: {tag}}}\n"
    );
    bed.git.commit(&[
        ("apps/db/plan.yaml", PLAN),
        ("apps/db/jobs/migrate.yaml", &job("migrate", !good)),
        ("apps/db/jobs/smoke.yaml", &job("smoke", false)),
        ("apps/db/jobs/dump.yaml", &job("dump", false)),
        ("apps/db/jobs/backup.yaml", &job("backup", false)),
        ("apps/db/settings.yaml", &settings),
    ]);
    bed.git.tag(&tag);
    tag
}

/// What the row of a cluster reports.
async fn row(bed: &Bed, cluster: &str) -> Value {
    let proxy = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, cluster).await.unwrap();
    let rows = proxy["status"]["syncs"].as_array().cloned().unwrap_or_default();
    rows.into_iter()
        .find(|row| row["name"] == "db")
        .unwrap_or_default()
}

/// What `muster plan-run` writes.
async fn by_hand(bed: &Bed, control: &str) {
    let annotations = json!({"fleet.muster.dev/plan-run": control});
    bed.fleet()
        .patch(
            kinds::MODULE,
            "db",
            json!({"metadata": {"annotations": annotations}}),
        )
        .await;
}

async fn until_plan(bed: &Bed, cluster: &str, step: &str) {
    let poll = async || {
        let plan = row(bed, cluster).await["plan"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if plan.contains(step) { Ok(()) } else { Err(plan) }
    };
    bed.wait_until(&format!("{cluster} is at {step}"), ROLLED, poll)
        .await;
}

async fn version(bed: &Bed, cluster: &str) -> String {
    let settings = bed.inside(cluster, APPS).get(kinds::CONFIG_MAP, "db").await;
    let version = settings.and_then(|settings| Some(settings["data"]["version"].as_str()?.to_owned()));
    version.unwrap_or_default()
}

async fn jobs(bed: &Bed, cluster: &str) -> Vec<Value> {
    bed.inside(cluster, APPS).list(kinds::JOB).await
}

/// The images of the Jobs that are there.
async fn images(bed: &Bed, cluster: &str) -> Vec<String> {
    let image = |job: &Value| {
        job["spec"]["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let images: BTreeSet<String> = jobs(bed, cluster).await.iter().map(image).collect();
    images.into_iter().collect()
}
