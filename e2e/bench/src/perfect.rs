//! The perfect controller: it knows in advance what to do. One patch per cluster, eight at a time, no reads; each
//! answer triggers the next patch.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use futures::{StreamExt, stream::FuturesUnordered};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use muster_api::{
    ProxyAssemblage,
    labels::{self, label},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::{Semaphore, mpsc},
};

use crate::{fleet, side};

/// Concurrent writers: as many as an API server on two cores handles well.
const WRITERS: usize = 8;

/// Reads lines `COMMIT LIMIT CLUSTERS` and rolls out each of them, until the input ends.
pub(crate) async fn run(kubeconfig: &Path, namespace: &str) -> anyhow::Result<()> {
    let client = fleet::client(kubeconfig).await?;
    // Owner UIDs, set as muster sets them, are looked up before the measurement starts.
    let owners = fleet::uids(&client, namespace).await?;
    let assemblages: Api<ProxyAssemblage> = Api::namespaced(client.clone(), namespace);
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut watched = fleet::watch_objects::<ProxyAssemblage>(client, namespace);
    let _watch = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        while let Some(object) = watched.next().await {
            let reported = object.status.as_ref().and_then(|status| status.syncs.first());
            if let Some(reported) = reported {
                sender.send((object.name_any(), reported.digest.clone()))?;
            }
        }
        anyhow::Ok(())
    }));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    println!("ready");
    let mut rollouts = 0;
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        let [commit, limit, clusters] = words[..] else {
            anyhow::bail!("a line is `COMMIT LIMIT CLUSTERS`, not {line:?}");
        };
        let names: Vec<String> = (0..clusters.parse()?).map(fleet::cluster).collect();
        rollouts += 1;
        let wanted = Wanted {
            digest: side::digest(commit),
            row: side::row(commit, rollouts),
            owners: (rollouts == 1).then_some(&owners),
        };
        roll(&assemblages, &mut receiver, &names, &wanted, limit.parse()?).await?;
    }
    Ok(())
}

/// The object that every cluster gets.
struct Wanted<'a> {
    digest: String,
    row: Value,
    /// The UIDs of Clusters by name, if their assemblages do not exist yet.
    owners: Option<&'a BTreeMap<String, String>>,
}

async fn roll(
    assemblages: &Api<ProxyAssemblage>,
    receiver: &mut mpsc::UnboundedReceiver<(String, Option<String>)>,
    names: &[String],
    wanted: &Wanted<'_>,
    limit: usize,
) -> anyhow::Result<()> {
    let writers = Arc::new(Semaphore::new(WRITERS));
    let mut waiting = names.iter();
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut patches = FuturesUnordered::new();
    loop {
        while open.len() < limit
            && let Some(name) = waiting.next()
        {
            open.insert(name);
            patches.push(write(assemblages, &writers, name, wanted));
        }
        if open.is_empty() {
            break;
        }
        tokio::select! {
            Some(written) = patches.next() => written?,
            Some((name, digest)) = receiver.recv() => {
                if digest.as_deref() == Some(&wanted.digest) {
                    open.remove(name.as_str());
                }
            }
        }
    }
    while let Some(written) = patches.next().await {
        written?;
    }
    Ok(())
}

async fn write(
    assemblages: &Api<ProxyAssemblage>,
    writers: &Semaphore,
    name: &str,
    wanted: &Wanted<'_>,
) -> anyhow::Result<()> {
    let _writer = writers.acquire().await?;
    let spec = json!({"clusterRef": {"name": name}, "syncs": [wanted.row]});
    let Some(owners) = wanted.owners else {
        let patch = Patch::Merge(json!({"spec": spec}));
        assemblages.patch(name, &PatchParams::default(), &patch).await?;
        return Ok(());
    };
    // The same object that muster writes: the API server's cost per write depends on its size.
    let made = json!({
        "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "ProxyAssemblage", "spec": spec,
        "metadata": {
            "name": name,
            "labels": {
                label::MANAGED_BY: labels::MUSTER, label::APP_MANAGED_BY: labels::MUSTER, label::CLUSTER: name,
            },
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name, "uid": owners.get(name),
            }],
        },
    });
    assemblages
        .create(&PostParams::default(), &serde_json::from_value(made)?)
        .await?;
    Ok(())
}
