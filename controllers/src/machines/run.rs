//! Wires the parts together: watches, updates in progress, and the request handler.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{Client, ResourceExt as _};
use muster_api::update_plan::UpdateLevel;
use tracing::warn;

use super::{
    NAME,
    config::Updater,
    events,
    hooks::Hooks,
    index::{self, MachineIndex},
    nodes::Workloads,
    plans::{self, Plans},
    updaters::Call,
    work::{Tools, Work},
};
use crate::{
    hosts::Hosts,
    registry::{self, Connect, Registry},
    runtime::{Clock, Events, Jitter, Key, Shutdown},
};

/// How often plans that are over are deleted.
const TIDY: Duration = Duration::from_mins(10);

/// The dependencies of the process.
pub struct Setup {
    /// The client of the management cluster.
    pub client: Client,
    /// The updaters, in order.
    pub updaters: Vec<Updater>,
    /// The clients of the updaters.
    pub call: Arc<dyn Call>,
    /// How clients for Clusters are created.
    pub connect: Connect,
    /// The namespace of the process.
    pub namespace: String,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// The name of this replica's pod.
    pub instance: String,
    /// The only source of `now`.
    pub clock: Clock,
    /// Cancelled to end the process.
    pub shutdown: Shutdown,
}

/// The request handler, and the tasks that it needs. Until the watches have read everything, each response is a
/// failure, and Cluster API retries.
pub fn start(setup: Setup) -> (Arc<Hooks>, impl Future<Output = ()> + Send + use<>) {
    let Setup {
        client,
        updaters,
        call,
        connect,
        namespace,
        jitter,
        instance,
        clock,
        shutdown,
    } = setup;
    let (machines, stored) = (Arc::new(index::machine_index()), Arc::new(plans::plan_index()));
    let plans = Arc::new(Plans::new(
        client.clone(),
        Arc::clone(&stored),
        Arc::clone(&machines),
    ));
    let recorder = Events::new(client.clone(), NAME, instance, clock.clone());
    let (reports, reporting) = events::reports(client.clone(), recorder);
    let reports = Arc::new(reports);
    // This registry does not run, so it knows no Clusters: it reads a Secret each time, and keeps the connection.
    let clusters = Registry::new(registry::Setup {
        client: client.clone(),
        proxy_hosts: Hosts::default(),
        namespace: namespace.clone(),
        clock: clock.clone(),
        jitter,
        connect,
    });
    let work = Arc::new(Work::new(Tools {
        updaters: updaters.clone(),
        call: Arc::clone(&call),
        nodes: Arc::new(Workloads::new(clusters, Arc::clone(&machines))),
        plans: Arc::clone(&plans),
        reports: Arc::clone(&reports),
        clock: clock.clone(),
    }));
    let hooks = Arc::new(Hooks {
        client: client.clone(),
        updaters,
        call,
        machines: Arc::clone(&machines),
        plans: Arc::clone(&plans),
        work: Arc::clone(&work),
        reports,
    });
    let running = async move {
        let of_machines = index::machine_changes(client.clone(), Arc::clone(&machines)).for_each(|key| {
            let (machines, plans, work) = (Arc::clone(&machines), Arc::clone(&plans), Arc::clone(&work));
            async move { changed(&key, &machines, &plans, &work).await }
        });
        let of_plans = plans::plan_changes(client, Arc::clone(&stored)).for_each(|key| {
            let (stored, work) = (Arc::clone(&stored), Arc::clone(&work));
            async move {
                if let Some(plan) = stored.get(&key)
                    && let Err(error) = work.control(&plan).await
                {
                    warn!(plan = %key, error, "its annotations are not applied");
                }
            }
        });
        let tidied = async {
            loop {
                tokio::time::sleep(TIDY).await;
                if machines.is_synced() {
                    plans.tidy(clock.now()).await;
                }
            }
        };
        tokio::select! {
            () = of_machines => {}
            () = of_plans => {}
            () = tidied => {}
            () = reporting => {}
            () = Arc::clone(&work).run(shutdown) => {}
        }
    };
    (hooks, running)
}

/// A Machine was created, moved or deleted: one that its old MachineSet got since is added to the plan.
async fn changed(key: &Key, machines: &MachineIndex, plans: &Plans, work: &Work) {
    let Some(row) = machines.get(key) else {
        let living: BTreeSet<String> = machines.all().into_iter().map(|row| row.uid).collect();
        work.retain_living(&living);
        return;
    };
    work.forget_others(key, &row.uid);
    let Some(set) = row.machine_set() else { return };
    for plan in plans.all() {
        let is_of = plan.spec.level == UpdateLevel::MachineSet && plan.spec.source == set;
        if is_of
            && plan.namespace().as_deref() == Some(key.namespace.as_str())
            && let Err(error) = plans.refresh(&plan).await
        {
            warn!(machine = %key, error, "the plan of its MachineSet does not list it yet");
        }
    }
}
