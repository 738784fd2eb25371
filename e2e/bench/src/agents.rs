//! The clusters, as the management cluster sees them: each row is answered after a while, by one write of status. Whoever waits for all of them
//! is told.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::TryStreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use muster_api::ProxyAssemblage;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

/// Answers at once. Each waits for the API server; the time that a cluster takes is spent before.
const AT_ONCE: usize = 8;
/// How long anything may take.
const LIMIT: Duration = Duration::from_mins(10);

/// All clusters of a namespace.
pub struct Agents {
    state: Arc<State>,
    _watch: AbortOnDropHandle<anyhow::Result<()>>,
}

struct State {
    client: Client,
    namespace: String,
    takes: Mutex<Duration>,
    writers: Semaphore,
    rows: Mutex<BTreeMap<String, Row>>,
    changed: watch::Sender<u64>,
}

/// What one cluster is told to have, and has.
#[derive(Clone, Debug, Default)]
struct Row {
    asked: Option<String>,
    /// The commit that it said it has, and when that was seen.
    has: Option<(String, Instant)>,
    /// When the row was last seen to change.
    written: Option<Instant>,
    /// Told to be this, and not answered yet.
    open: bool,
}

/// What was seen of a rollout.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When the last cluster was seen to be done.
    pub last: Instant,
    /// The most clusters that were on their way at once.
    pub most: usize,
}

impl Agents {
    /// Answers for a namespace from now on.
    pub fn start(client: Client, namespace: &str) -> Self {
        let state = Arc::new(State {
            client,
            namespace: namespace.to_owned(),
            takes: Mutex::default(),
            writers: Semaphore::new(AT_ONCE),
            rows: Mutex::default(),
            changed: watch::Sender::default(),
        });
        let watching = tokio::spawn(listen(Arc::clone(&state)));
        Self {
            state,
            _watch: AbortOnDropHandle::new(watching),
        }
    }

    /// How long a cluster takes from now on.
    pub fn take(&self, time: Duration) {
        *self.state.takes.lock() = time;
    }

    /// Waits until so many clusters have a commit.
    pub async fn until(&self, clusters: usize, commit: &str) -> anyhow::Result<Seen> {
        let mut changed = self.state.changed.subscribe();
        let mut most = 0;
        let all = async {
            loop {
                {
                    let rows = self.state.rows.lock();
                    most = most.max(rows.values().filter(|row| row.open).count());
                    let done: Vec<Instant> = rows
                        .values()
                        .filter_map(|row| row.has.as_ref())
                        .filter(|(has, _)| has == commit)
                        .map(|(_, at)| *at)
                        .collect();
                    if done.len() >= clusters {
                        let last = done.into_iter().max().unwrap_or_else(Instant::now);
                        return anyhow::Ok(Seen { last, most });
                    }
                }
                changed.changed().await?;
            }
        };
        timeout(LIMIT, all)
            .await
            .map_err(|_| anyhow::anyhow!("not all of {clusters} clusters have {commit} within {LIMIT:?}"))?
    }

    /// One cluster says that what it has is broken, or well again.
    pub async fn flip(&self, cluster: &str, well: bool) -> anyhow::Result<()> {
        let assemblages: Api<ProxyAssemblage> =
            Api::namespaced(self.state.client.clone(), &self.state.namespace);
        let object = assemblages.get(cluster).await?;
        let rows: Vec<Value> = object
            .spec
            .syncs
            .iter()
            .map(|row| answer(&serde_json::to_value(row).unwrap_or_default(), well))
            .collect();
        write(&assemblages, cluster, object.metadata.generation, rows).await
    }
}

async fn listen(state: Arc<State>) -> anyhow::Result<()> {
    let assemblages: Api<ProxyAssemblage> = Api::namespaced(state.client.clone(), &state.namespace);
    let mut events = std::pin::pin!(
        watcher(assemblages, watcher::Config::default())
            .default_backoff()
            .applied_objects()
    );
    while let Some(object) = events.try_next().await? {
        hear(&state, &object);
    }
    Ok(())
}

fn hear(state: &Arc<State>, object: &ProxyAssemblage) {
    let name = object.name_any();
    let Some(row) = object.spec.syncs.first() else {
        return;
    };
    let asked = format!("{:?} {:?}", row.digest, row.token);
    let said = object.status.as_ref().and_then(|status| status.syncs.first());
    let said = said.filter(|said| said.digest == row.digest && said.token == row.token);
    let now = Instant::now();
    let mut rows = state.rows.lock();
    let known = rows.entry(name.clone()).or_default();
    if said.is_some() {
        if known.has.as_ref().map(|(has, _)| has) != row.commit.as_ref() {
            known.has = row.commit.clone().map(|commit| (commit, now));
        }
        known.open = false;
    }
    if known.asked.as_ref() != Some(&asked) {
        known.asked = Some(asked);
        known.written = Some(now);
        if said.is_none() {
            known.open = true;
            let (state, row, generation) = (Arc::clone(state), row.clone(), object.metadata.generation);
            tokio::spawn(async move { state.answer(name, serde_json::to_value(row)?, generation).await });
        }
    }
    state.changed.send_modify(|count| *count += 1);
}

impl State {
    async fn answer(&self, name: String, row: Value, generation: Option<i64>) -> anyhow::Result<()> {
        let takes = *self.takes.lock();
        sleep(takes).await;
        let _writer = self.writers.acquire().await?;
        let assemblages: Api<ProxyAssemblage> = Api::namespaced(self.client.clone(), &self.namespace);
        write(&assemblages, &name, generation, vec![answer(&row, true)]).await
    }
}

fn answer(row: &Value, well: bool) -> Value {
    let (state, class) = if well {
        ("succeeded", Value::Null)
    } else {
        ("failed", json!("Revision"))
    };
    json!({
        "name": row["name"], "digest": row["digest"], "token": row["token"], "commit": row["commit"], "state": state, "class": class,
        "reason": if well { "UpToDate" } else { "Failed" },
    })
}

async fn write(
    assemblages: &Api<ProxyAssemblage>,
    name: &str,
    generation: Option<i64>,
    syncs: Vec<Value>,
) -> anyhow::Result<()> {
    let status = json!({"status": {"observedGeneration": generation, "syncs": syncs}});
    assemblages
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}
