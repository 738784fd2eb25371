//! Promise: a bad version stops at the first cluster, and the status says what failed, where and why; a fixed one rolls
//! out without manual steps.

use std::time::Duration;

use super::CLUSTERS;
use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{Quality, condition, workload},
};

/// Enough time for anything else to go wrong; on real sockets, the fixed version has to show it.
const WATCHED: Duration = Duration::from_mins(5);

/// A bad version, then a fixed one.
pub async fn stops_and_is_fixed(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let before = others(&bed).await;
    bed.roll("web", 2, Quality::Bad).await;
    let module = bed.until_reason("web", "Failed", Duration::from_mins(1)).await;
    let ready = condition(&module, "Ready").unwrap();
    assert_eq!(ready["status"], "False");
    let message = ready["message"].as_str().unwrap();
    println!("{message}");
    // Flux does not inspect pods.
    let why = if bed.is_flux() {
        "status: 'Failed'"
    } else {
        "ImagePull"
    };
    for word in ["eu-1", "Deployment/default/web", why] {
        assert!(message.contains(word), "{word} is not named: {message}");
    }
    assert_eq!(condition(&module, "Stalled").unwrap()["status"], "True");
    let attention: Vec<String> = module["status"]["attention"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            format!(
                "{} {}",
                entry["cluster"].as_str().unwrap(),
                entry["reason"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(attention, ["eu-1 Failed", "eu-2 Halted", "us-1 Halted"]);
    assert_eq!(module["status"]["summary"]["failed"], 1);
    if bed.is_virtual() {
        bed.pass(WATCHED).await;
    }
    assert_eq!(bed.order(&workload("web"), "web-v2"), ["eu-1"]);
    assert_eq!(
        others(&bed).await,
        before,
        "the other clusters' objects were not written"
    );

    let version = bed.roll("web", 3, Quality::Good).await;
    let took = bed.until_ready("web", &version).await;
    println!("fixed over {} clusters: {took:?}", CLUSTERS.len());
    assert_eq!(bed.order(&workload("web"), &version), CLUSTERS);
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
    assert_eq!(bed.most_changing(&workload("web")), 1);
    assert!(
        bed.premature_claims("web").is_empty(),
        "{:#?}",
        bed.premature_claims("web")
    );
}

async fn others(bed: &Bed) -> Vec<Vec<String>> {
    let mut versions = Vec::new();
    for cluster in &CLUSTERS[1..] {
        versions.push(bed.resource_versions(cluster, "web").await);
    }
    versions
}
