//! Promise: an assemblage that is deleted manually, upstream or downstream, also during a rollout, is re-created and
//! adopts what exists; and everything downstream continues while controller and agents are down.

use std::time::Duration;

use kube::{Api, ResourceExt, api::DeleteParams};
use muster_api::{Assemblage, ProxyAssemblage};
use serde_json::json;

use crate::bed::*;

async fn deployed() -> Bed {
    let bed = Bed::new(&CLUSTERS).await;
    for tag in ["one", "two"] {
        bed.release(tag, &["web", "other"], tag);
    }
    bed.deploy("other", "one", json!({})).await;
    bed.deploy("web", "one", json!({"rollout": {"minReadySeconds": 30}}))
        .await;
    pass(Duration::from_mins(1)).await;
    bed
}

fn downstream(bed: &Bed, cluster: &str) -> Api<Assemblage> {
    Api::namespaced(bed.clusters[cluster].client(), SYSTEM)
}

async fn delete_upstream(bed: &Bed, cluster: &str) {
    let before = bed.api::<ProxyAssemblage>().get(cluster).await.unwrap().uid();
    bed.api::<ProxyAssemblage>()
        .delete(cluster, &DeleteParams::default())
        .await
        .unwrap();
    bed.until("it is made again", || async {
        let again = bed.api::<ProxyAssemblage>().get_opt(cluster).await.unwrap()?;
        (again.uid() != before && again.spec.syncs.len() == 2).then_some(())
    })
    .await;
}

async fn delete_downstream(bed: &Bed, cluster: &str) {
    let before = downstream(bed, cluster).get(cluster).await.unwrap().uid();
    downstream(bed, cluster)
        .delete(cluster, &DeleteParams::default())
        .await
        .unwrap();
    bed.until("it is made again", || async {
        let again = downstream(bed, cluster).get_opt(cluster).await.unwrap()?;
        (again.uid() != before && again.spec.syncs.len() == 2).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn at_rest() {
    let bed = deployed().await;
    let before = (bed.marks("web").await, bed.marks("other").await);
    delete_upstream(&bed, "eu-2").await;
    bed.until_ready("web").await;
    delete_downstream(&bed, "eu-2").await;
    pass(Duration::from_mins(6)).await;
    bed.until_ready("web").await;
    assert_eq!((bed.marks("web").await, bed.marks("other").await), before);
    bed.settled().await;
}

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_a_rollout() {
    for upstream in [true, false] {
        let bed = deployed().await;
        let uids = bed.marks("web").await.into_iter().map(|mark| mark.0);
        let (uids, other) = (uids.collect::<Vec<_>>(), bed.marks("other").await);
        bed.patch("web", version("two")).await;
        bed.until("eu-2 is being changed", || async {
            (bed.text("eu-2", "web").await.as_deref() == Some("two")).then_some(())
        })
        .await;
        // The cluster that is in flight, and one that waits for its turn.
        for cluster in ["eu-2", "us-1"] {
            if upstream {
                delete_upstream(&bed, cluster).await;
            } else {
                delete_downstream(&bed, cluster).await;
            }
        }
        bed.until_ready("web").await;
        assert_eq!(bed.texts("web").await, ["two", "two", "two"]);
        let after = bed.marks("web").await.into_iter().map(|mark| mark.0);
        assert_eq!(after.collect::<Vec<_>>(), uids, "the same objects");
        assert_eq!(bed.marks("other").await, other);
        for cluster in CLUSTERS {
            let texts = bed
                .story(cluster, "web")
                .into_iter()
                .flatten()
                .collect::<Vec<_>>();
            assert_eq!(texts, ["one", "two"], "{cluster}: nothing in between");
        }
        bed.settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_of_all_processes_nothing_is_written_again() {
    let mut bed = deployed().await;
    let before = (bed.marks("web").await, bed.marks("other").await);
    bed.crash_controller();
    for cluster in CLUSTERS {
        bed.crash_agent(cluster);
    }
    pass(Duration::from_mins(30)).await;
    bed.start_controller();
    for cluster in CLUSTERS {
        bed.start_agent(cluster);
    }
    pass(Duration::from_mins(6)).await;
    bed.until_ready("web").await;
    assert_eq!((bed.marks("web").await, bed.marks("other").await), before);
    bed.settled().await;
}
