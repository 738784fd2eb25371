//! Promise: whichever write a process ends at, and whichever response is lost, the final state is the same.
//!
//! A story first runs without a fault, and every request of the controller and of the agents other than reads is
//! numbered. Then it is repeated for each number, with a crash before the request, with one after it, and with the
//! response lost. The final state is compared object by object over all clusters, as is the number of times each object
//! was created and deleted on the way.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    bed::{Bed, Blow, Changes, Ground::Virtual, Kind, Observer, Obstacle, World, differences, kinds, unlike},
    fleet::{APPS, Quality, is_ready, status_text},
};

/// Enough time for a story with an ended process.
const REPORTED: Duration = Duration::from_mins(20);
/// Until events, and the final record of a revision, are written.
const TOLD_OF: Duration = Duration::from_secs(10);
/// Twice as long as a source is kept after its last use: a process that ends when that time is over starts to count
/// again.
const SETTLED: Duration = Duration::from_mins(24);

/// The stories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// A new version over five clusters.
    Rollout,
    /// A value that a binding reads changes, on two clusters.
    Values,
    /// One of two clusters is no longer selected.
    Deselection,
    /// A module on two clusters is deleted.
    Deletion,
    /// A BootstrapModule is rolled out to two clusters without an agent.
    Bootstrap,
}

impl Story {
    /// All stories.
    pub const ALL: [Self; 5] = [
        Self::Rollout,
        Self::Values,
        Self::Deselection,
        Self::Deletion,
        Self::Bootstrap,
    ];

    const fn clusters(self) -> &'static [&'static str] {
        match self {
            Self::Rollout => &["a", "b", "c", "d", "e"],
            _ => &["a", "b"],
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Bootstrap => kinds::REMOTE_ASSEMBLAGE,
            _ => kinds::PROXY_ASSEMBLAGE,
        }
    }
}

/// The result of a story.
pub struct Ending {
    /// All objects at the end.
    pub world: World,
    /// The objects that were created and deleted.
    pub changes: Changes,
    /// How many requests were numbered.
    pub numbered: usize,
    /// How many requests of muster other than reads the API servers recorded meanwhile.
    pub noted: usize,
    /// The request that was hit.
    pub struck: Option<String>,
    /// What the observer of the limit found.
    pub breaches: Vec<String>,
}

/// Runs a story, with a fault in one request.
pub async fn run_story(story: Story, strike: Option<(usize, Blow)>) -> Ending {
    let bed = prepared(story).await;
    let before = bed.requests_to_change();
    bed.number_requests(strike);
    happen(&bed, story).await;
    bed.pass(SETTLED).await;
    let (numbered, struck) = bed.numbered_requests();
    let mut observer = Observer::new(story.kind(), "web", 1);
    bed.show(&mut observer);
    Ending {
        world: bed.world(),
        changes: bed.changes(),
        numbered,
        noted: bed.requests_to_change() - before,
        struck,
        breaches: observer.breaches().to_vec(),
    }
}

/// The differences to the clean run.
pub fn judge(clean: &Ending, struck: &Ending) -> Vec<String> {
    let mut faults = differences(&clean.world, &struck.world);
    faults.extend(unlike(&clean.changes, &struck.changes));
    faults.extend(struck.breaches.iter().cloned());
    faults
}

async fn prepared(story: Story) -> Bed {
    let mut bed = Bed::new(Virtual).await;
    let obstacles: &[Obstacle] = match story {
        Story::Bootstrap => &[Obstacle::Kind],
        _ => &[],
    };
    for name in story.clusters() {
        bed.join(name, &[("env", "prod")], obstacles).await;
    }
    if story != Story::Bootstrap {
        let version = bed.release("web", 1, Quality::Good);
        set_fact(&bed, "one").await;
        create(&bed, story, kinds::MODULE, &version).await;
        bed.until_ready("web", &version).await;
        // Status writes that follow belong to the setup, not to the story.
        bed.pass(TOLD_OF).await;
    }
    bed
}

async fn happen(bed: &Bed, story: Story) {
    match story {
        Story::Rollout => {
            let version = bed.roll("web", 2, Quality::Good).await;
            bed.until_ready_within(kinds::MODULE, "web", &version, REPORTED)
                .await;
        }
        Story::Values => {
            set_fact(bed, "two").await;
            for cluster in story.clusters() {
                until_fact(bed, cluster, "two").await;
            }
            bed.until_ready_within(kinds::MODULE, "web", "web-v1", REPORTED)
                .await;
        }
        Story::Deselection => {
            bed.label_cluster("b", json!({"env": "dev"})).await;
            until_gone(bed, "b").await;
        }
        Story::Deletion => {
            bed.fleet().delete(kinds::MODULE, "web").await;
            for cluster in story.clusters() {
                until_gone(bed, cluster).await;
            }
            until_no_module(bed).await;
        }
        Story::Bootstrap => {
            let version = bed.release("web", 1, Quality::Good);
            create(bed, story, kinds::BOOTSTRAP_MODULE, &version).await;
            bed.until_ready_within(kinds::BOOTSTRAP_MODULE, "web", &version, REPORTED)
                .await;
        }
    }
}

async fn create(bed: &Bed, story: Story, kind: Kind, version: &str) {
    let mut spec = bed.spec("web", version);
    // No periodic check falls into a story.
    spec["sync"]["package"]["interval"] = json!("1h");
    if story == Story::Values {
        spec["sync"]["package"]["substitute"] = json!({"CLUSTER": "$(CLUSTER_NAME)-$(FACT)"});
        let reference =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "facts", "fieldPath": "/data/fact"});
        spec["controlPlaneBindings"] = json!([{"name": "FACT", "objectFieldRef": reference}]);
    }
    bed.fleet()
        .create(kind, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
}

async fn set_fact(bed: &Bed, fact: &str) {
    let facts = json!({"metadata": {"name": "facts"}, "data": {"fact": fact}});
    bed.fleet().apply(kinds::CONFIG_MAP, facts).await;
}

async fn until_fact(bed: &Bed, cluster: &str, fact: &str) {
    let poll = async || {
        let config: Option<Value> = bed.inside(cluster, APPS).get(kinds::CONFIG_MAP, "web").await;
        let found = config.map(|config| config["data"]["cluster"].clone());
        if found == Some(json!(format!("{cluster}-{fact}"))) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    };
    bed.wait_until(&format!("{cluster} has {fact}"), REPORTED, poll)
        .await;
}

async fn until_gone(bed: &Bed, cluster: &str) {
    let poll = async || {
        let inside = bed.inside(cluster, APPS);
        let config = inside.get(kinds::CONFIG_MAP, "web").await;
        let deployment = inside.get(kinds::DEPLOYMENT, "web").await;
        if config.is_none() && deployment.is_none() {
            Ok(())
        } else {
            Err("objects are there".to_owned())
        }
    };
    bed.wait_until(&format!("web is gone from {cluster}"), REPORTED, poll)
        .await;
}

async fn until_no_module(bed: &Bed) {
    let poll = async || match bed.fleet().get(kinds::MODULE, "web").await {
        None => Ok(()),
        Some(module) => Err(format!("ready: {}, {}", is_ready(&module), status_text(&module))),
    };
    bed.wait_until("the module is gone", REPORTED, poll).await;
}
