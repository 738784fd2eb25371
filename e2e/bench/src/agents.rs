//! Simulated clusters, as observed from the management cluster: each assignment is answered after a delay, with one
//! status write. The caller can wait for all of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::ProxyAssemblage;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::fleet;

/// Concurrent answers. Each waits for the API server only; the delay of the cluster comes before.
const AT_ONCE: usize = 8;
/// Timeout of every wait.
const LIMIT: Duration = Duration::from_mins(10);

/// All clusters of a namespace.
pub(crate) struct Agents {
    state: Arc<State>,
    _watch: AbortOnDropHandle<()>,
}

struct State {
    client: Client,
    namespace: String,
    takes: Mutex<Duration>,
    writers: Semaphore,
    rows: Mutex<Rows>,
    changed: watch::Sender<u64>,
}

/// State of all clusters, counted as events arrive, so that the benchmark spends no time on counting.
#[derive(Debug, Default)]
struct Rows {
    by_cluster: BTreeMap<String, Row>,
    /// Clusters that are changing now, and the maximum since it was last read.
    open: usize,
    most: usize,
    /// Clusters that reported a commit, and when the last of these reports was observed.
    have: BTreeMap<String, (usize, Instant)>,
}

/// The assigned and the reported state of one cluster.
#[derive(Clone, Debug, Default)]
struct Row {
    assigned: Option<String>,
    /// The commit that the cluster reported.
    has: Option<String>,
    /// The assignment that is not answered yet.
    open: bool,
}

impl Rows {
    fn open(&mut self, cluster: &str, open: bool) {
        let row = self.by_cluster.entry(cluster.to_owned()).or_default();
        if row.open != open {
            row.open = open;
            self.open = if open { self.open + 1 } else { self.open - 1 };
            self.most = self.most.max(self.open);
        }
    }

    fn has(&mut self, cluster: &str, commit: &str) {
        let row = self.by_cluster.entry(cluster.to_owned()).or_default();
        if row.has.as_deref() == Some(commit) {
            return;
        }
        if let Some((count, _)) = row.has.as_ref().and_then(|old| self.have.get_mut(old)) {
            *count -= 1;
        }
        row.has = Some(commit.to_owned());
        let (count, last) = self
            .have
            .entry(commit.to_owned())
            .or_insert_with(|| (0, Instant::now()));
        (*count, *last) = (*count + 1, Instant::now());
    }

    /// Whether this assignment differs from the previous one.
    fn is_asked(&mut self, cluster: &str, assigned: String) -> bool {
        let row = self.by_cluster.entry(cluster.to_owned()).or_default();
        row.assigned.replace(assigned.clone()) != Some(assigned)
    }
}

/// Measurements of one rollout.
#[derive(Clone, Debug)]
pub(crate) struct RolloutMetrics {
    /// When the last cluster was observed as done.
    pub last: Instant,
    /// Maximum of clusters that were changing at once.
    pub most: usize,
}

impl Agents {
    /// Starts to answer assignments in a namespace.
    pub(crate) fn start(client: Client, namespace: &str) -> Self {
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

    /// Sets how long a cluster takes to answer.
    pub(crate) fn take(&self, time: Duration) {
        *self.state.takes.lock() = time;
    }

    /// Waits until this number of clusters has a commit.
    pub(crate) async fn until(&self, clusters: usize, commit: &str) -> anyhow::Result<RolloutMetrics> {
        let mut changed = self.state.changed.subscribe();
        {
            let mut rows = self.state.rows.lock();
            rows.most = rows.open;
        }
        let all = async {
            loop {
                {
                    let rows = self.state.rows.lock();
                    let done = rows.have.get(commit).filter(|(count, _)| *count >= clusters);
                    if let Some((_, last)) = done {
                        let (last, most) = (*last, rows.most);
                        return anyhow::Ok(RolloutMetrics { last, most });
                    }
                }
                changed.changed().await?;
            }
        };
        timeout(LIMIT, all)
            .await
            .map_err(|_| anyhow::anyhow!("not all of {clusters} clusters have {commit} within {LIMIT:?}"))?
    }

    /// One cluster reports that its objects became unhealthy, or healthy again. Returns when the report was sent.
    pub(crate) async fn flip(&self, cluster: &str, well: bool) -> anyhow::Result<Instant> {
        let assemblages: Api<ProxyAssemblage> =
            Api::namespaced(self.state.client.clone(), &self.state.namespace);
        let object = assemblages.get(cluster).await?;
        let rows: Vec<Value> = object
            .spec
            .syncs
            .iter()
            .map(|row| answer(&serde_json::to_value(row).unwrap_or_default(), well))
            .collect();
        let began = Instant::now();
        write(&assemblages, cluster, object.metadata.generation, rows).await?;
        Ok(began)
    }
}

async fn listen(state: Arc<State>) {
    let mut rows = fleet::watch_objects::<ProxyAssemblage>(state.client.clone(), &state.namespace);
    while let Some(object) = rows.next().await {
        observe(&state, &object);
    }
}

fn observe(state: &Arc<State>, object: &ProxyAssemblage) {
    let name = object.name_any();
    let Some(row) = object.spec.syncs.first() else {
        return;
    };
    let assigned = format!("{:?} {:?}", row.digest, row.token);
    let reported = object.status.as_ref().and_then(|status| status.syncs.first());
    let reported = reported.filter(|reported| reported.digest == row.digest && reported.token == row.token);
    let mut rows = state.rows.lock();
    if reported.is_some() {
        if let Some(commit) = &row.commit {
            rows.has(&name, commit);
        }
        rows.open(&name, false);
    }
    if rows.is_asked(&name, assigned) && reported.is_none() {
        rows.open(&name, true);
        let (state, row, generation) = (Arc::clone(state), row.clone(), object.metadata.generation);
        tokio::spawn(async move {
            if let Err(error) = state.answer(&name, &json!(row), generation).await {
                eprintln!("{name} did not answer: {error}");
            }
        });
    }
    state.changed.send_modify(|count| *count += 1);
}

impl State {
    async fn answer(&self, name: &str, row: &Value, generation: Option<i64>) -> anyhow::Result<()> {
        let takes = *self.takes.lock();
        sleep(takes).await;
        let _writer = self.writers.acquire().await?;
        let assemblages: Api<ProxyAssemblage> = Api::namespaced(self.client.clone(), &self.namespace);
        write(&assemblages, name, generation, vec![answer(row, true)]).await
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
