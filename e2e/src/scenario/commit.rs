//! Promise: a commit is all it takes. The management plane syncs the directory `modules/` of the repository itself, as
//! in the demo.

use std::time::Duration;

use serde_json::json;

use crate::{
    bed::{Bed, Ground, Workload, kinds},
    fleet::{is_ready, status_text},
};

/// The clusters of the example fleet.
const FIVE: [(&str, [(&str, &str); 2]); 5] = [
    ("dev-1", [("env", "dev"), ("region", "eu")]),
    ("eu-1", [("env", "prod"), ("region", "eu")]),
    ("eu-2", [("env", "prod"), ("region", "eu")]),
    ("us-1", [("env", "prod"), ("region", "us")]),
    ("us-2", [("env", "prod"), ("region", "us")]),
];
/// Three modules over five clusters; one depends on what another installs and is retried every 10 s.
const ALL_READY: Duration = Duration::from_mins(2);

/// The example fleet arrives, and its next version by `git commit` and `git tag`.
pub async fn is_all_it_takes(ground: Ground) {
    let mut bed = Bed::new(ground).await;
    bed.prepare(&FIVE.map(|(name, _)| name)).await;
    for (name, labels) in FIVE {
        bed.join(name, &labels, &[]).await;
    }
    bed.let_bootstrap().await;
    bed.commit_example_fleet();
    sync_modules(&bed).await;
    until_all_ready(&bed, "v1.0.0").await;
    for (cluster, [(_, env), (_, region)]) in FIVE {
        let config = bed
            .inside(cluster, "web")
            .get(kinds::CONFIG_MAP, "podinfo")
            .await
            .unwrap();
        assert_eq!(
            config["data"]["greeting"],
            format!("Hello from {cluster} in {region}")
        );
        let schedule = bed
            .inside(cluster, "backup")
            .get(kinds::SCHEDULE, "nightly")
            .await;
        let bucket = schedule.map(|schedule| schedule["spec"]["bucket"].clone());
        assert_eq!(
            bucket,
            (env == "prod").then(|| json!(format!("backups-{cluster}"))),
            "{cluster}"
        );
    }

    commit_next(&bed);
    let took = bed
        .until_ready_within(kinds::MODULE, "podinfo", "v1.1.0", ALL_READY)
        .await;
    println!("from commit to ready on five clusters: {took:?}");
    let podinfo = Workload::new("web", "podinfo");
    assert_eq!(bed.order(&podinfo, "6.1.0"), FIVE.map(|(name, _)| name));
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "podinfo"), 1);
    let backup = bed.module("backup").await;
    assert_eq!(
        backup["status"]["source"]["tag"],
        "v1.0.0",
        "{}",
        status_text(&backup)
    );
}

fn commit_next(bed: &Bed) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/fleet/");
    let edited = |path: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(format!("{root}{path}")).unwrap();
        assert!(text.contains(from), "{path} has no {from}");
        text.replace(from, to)
    };
    let deployment = edited("apps/podinfo/deployment.yaml", "podinfo:6.0.0", "podinfo:6.1.0");
    let module = edited("modules/podinfo.yaml", "tag: v1.0.0", "tag: v1.1.0");
    bed.git.commit(&[
        ("apps/podinfo/deployment.yaml", &deployment),
        ("modules/podinfo.yaml", &module),
    ]);
    bed.git.tag("v1.1.0");
}

/// What users apply once to install a fleet, after the edits that the file asks for; here with shorter intervals.
async fn sync_modules(bed: &Bed) {
    let file = "examples/fleet/management.yaml";
    let edited = [
        ("https://git.example.com/fleet.git # your copy", bed.git.url()),
        ("  interval: 1m", "  interval: 3s"),
        ("retryInterval: 1m", "retryInterval: 3s"),
    ];
    let text = include_str!("../../../examples/fleet/management.yaml");
    let text = edited.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{file} has no {from}");
        text.replace(from, to)
    });
    let kinds = [
        kinds::GIT_REPOSITORY,
        kinds::KUSTOMIZATION,
        kinds::ROLE,
        kinds::ROLE_BINDING,
    ];
    let documents = muster_sync::yaml::documents(file, text.as_bytes()).unwrap();
    assert_eq!(documents.len(), kinds.len());
    for (kind, document) in kinds.into_iter().zip(documents) {
        bed.fleet().apply(kind, document.value().unwrap()).await;
    }
}

async fn until_all_ready(bed: &Bed, tag: &str) {
    let check = async || {
        let modules = [
            bed.fleet().list(kinds::MODULE).await,
            bed.fleet().list(kinds::BOOTSTRAP_MODULE).await,
        ]
        .concat();
        let ready = modules
            .iter()
            .filter(|module| is_ready(module) && module["status"]["source"]["tag"] == tag)
            .count();
        if ready == 3 {
            Ok(())
        } else {
            Err(modules.iter().map(status_text).collect())
        }
    };
    let (took, ()) = bed.wait_until("all modules are ready", ALL_READY, check).await;
    println!("the example fleet is ready after {took:?}");
}
