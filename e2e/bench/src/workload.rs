//! The workloads, one after another on one management cluster.

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use futures::{StreamExt, stream::BoxStream};
use kube::Client;
use muster_api::{Module, ProxyAssemblage, assemblage::SyncPhase};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Plan,
    agents::Agents,
    fleet::{self, Fleet},
    meter::{self, Writes},
    side::{Controller, Limit, Side},
};

/// Quiet period before a measurement: the status of the previous run is written by then.
const QUIET: Duration = Duration::from_secs(3);
/// Duration of the idle measurement.
const REST: Duration = Duration::from_mins(1);
/// Number of health flips per measurement.
const FLIPS: usize = 20;
/// Clusters of the small workloads.
const FEW: usize = 50;
/// Clusters of the smaller of the two fleets in which flips are timed.
const SOME: usize = 100;
/// How long a flip may take to appear in the status.
const FLIPPED: Duration = Duration::from_secs(10);

/// One rollout over all clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub time: Duration,
    pub writes: Writes,
    /// The most clusters that were on their way at once.
    pub most: usize,
    /// CPU time of the controller.
    pub processor: f64,
}

/// One workload, with both controllers.
#[derive(Debug)]
pub(crate) struct Rollout {
    pub name: String,
    pub clusters: usize,
    pub limit: Limit,
    /// How long a cluster takes to answer.
    pub takes: Duration,
    pub muster: Vec<Run>,
    pub perfect: Vec<Run>,
}

/// How long a health change of one cluster took to appear in the module's status.
#[derive(Debug)]
pub(crate) struct Flips {
    pub clusters: usize,
    pub muster: Vec<Duration>,
    /// How long the two writes behind a flip take alone: one after the other, each until a watch delivers it.
    pub writes: Vec<Duration>,
}

/// All results.
#[derive(Debug)]
pub(crate) struct Figures {
    pub rollouts: Vec<Rollout>,
    pub flips: Vec<Flips>,
    /// Clusters, seconds, writes.
    pub rest: (usize, Duration, Writes),
    pub restart: (usize, Duration, Writes),
    /// Clusters, and the peak memory of the controller in MiB.
    pub memory: Vec<(usize, f64)>,
}

/// A namespace with clusters, and both controllers, each in its own namespace.
struct Stage<'a> {
    fleet: &'a Fleet,
    client: Client,
    kubeconfig: PathBuf,
    clusters: usize,
    /// Counter for the names of commits.
    commits: usize,
    muster: (Controller, Agents, String),
    perfect: (Controller, Agents, String),
}

/// Measures on a real kube-apiserver.
pub(crate) async fn real(plan: &Plan) -> anyhow::Result<Figures> {
    let fleet = Fleet::real().await?;
    let (mut rollouts, mut flips) = (Vec::new(), Vec::new());

    let mut few = Stage::set(&fleet, "few", FEW).await?;
    rollouts.push(
        few.compare(
            "one at a time",
            Limit::Some(1),
            Duration::from_millis(200),
            plan.runs,
        )
        .await?,
    );
    few.end().await?;

    let some = Stage::set(&fleet, "some", SOME.min(plan.clusters)).await?;
    flips.push(some.flips().await?);
    some.end().await?;

    let mut all = Stage::set(&fleet, "all", plan.clusters).await?;
    rollouts.push(
        all.compare("all at once", Limit::All, Duration::ZERO, plan.runs)
            .await?,
    );
    rollouts.push(all.rolling("rolling", plan.runs).await?);
    flips.push(all.flips().await?);
    let rest = (plan.clusters, REST, all.at_rest().await?);
    let memory = vec![(plan.clusters, all.most_memory()?)];
    let restart = (plan.clusters, REST, all.restart().await?);
    all.end().await?;
    Ok(Figures {
        rollouts,
        flips,
        rest,
        restart,
        memory,
    })
}

/// Measures with more clusters than a kube-apiserver on a small machine can take.
pub(crate) async fn embedded(plan: &Plan, figures: &mut Figures) -> anyhow::Result<()> {
    let fleet = Fleet::embedded().await?;
    let mut many = Stage::set(&fleet, "many", plan.many).await?;
    let name = "all at once, embedded server";
    let at_once = many.compare(name, Limit::All, Duration::ZERO, plan.runs).await?;
    let rolling = many.rolling("rolling, embedded server", plan.runs).await?;
    figures.rollouts.extend([at_once, rolling]);
    figures.flips.push(many.flips().await?);
    figures.memory.push((many.clusters, many.most_memory()?));
    many.end().await
}

impl<'a> Stage<'a> {
    /// Both controllers, with all clusters at their first commit.
    async fn set(fleet: &'a Fleet, name: &str, clusters: usize) -> anyhow::Result<Self> {
        let kubeconfig = fleet.kubeconfig()?;
        let client = fleet::client(&kubeconfig).await?;
        let (ours, theirs) = (format!("muster-{name}"), format!("perfect-{name}"));
        for namespace in [&ours, &theirs] {
            fleet::namespace(&client, namespace).await?;
            fleet::join(&client, namespace, 0..clusters).await?;
        }
        let start = async |side, namespace: &str| {
            Controller::start(side, &kubeconfig, namespace, client.clone()).await
        };
        let mut stage = Self {
            fleet,
            muster: (
                start(Side::Muster, &ours).await?,
                Agents::start(client.clone(), &ours),
                ours,
            ),
            perfect: (
                start(Side::Perfect, &theirs).await?,
                Agents::start(client.clone(), &theirs),
                theirs,
            ),
            client: client.clone(),
            kubeconfig: kubeconfig.clone(),
            clusters,
            commits: 0,
        };
        for side in [Side::Muster, Side::Perfect] {
            stage.roll(side, Limit::All).await?;
        }
        Ok(stage)
    }

    async fn end(self) -> anyhow::Result<()> {
        self.muster.0.end().await?;
        self.perfect.0.end().await
    }

    /// The same rollout with both controllers, alternating.
    async fn compare(
        &mut self,
        name: &str,
        limit: Limit,
        takes: Duration,
        runs: usize,
    ) -> anyhow::Result<Rollout> {
        self.muster.1.take(takes);
        self.perfect.1.take(takes);
        let mut rollout = Rollout {
            name: name.to_owned(),
            clusters: self.clusters,
            limit,
            takes,
            muster: Vec::new(),
            perfect: Vec::new(),
        };
        for _ in 0..runs {
            rollout.perfect.push(self.roll(Side::Perfect, limit).await?);
            rollout.muster.push(self.roll(Side::Muster, limit).await?);
            eprintln!(
                "{name}: perfect {:.2?}, muster {:.2?}",
                rollout.perfect.last().map(|run| run.time),
                rollout.muster.last().map(|run| run.time)
            );
        }
        self.muster.1.take(Duration::ZERO);
        self.perfect.1.take(Duration::ZERO);
        Ok(rollout)
    }

    /// A twentieth of the clusters at once, each of which takes a second.
    async fn rolling(&mut self, name: &str, runs: usize) -> anyhow::Result<Rollout> {
        let window = (self.clusters / 20).max(1);
        self.compare(name, Limit::Some(window), Duration::from_secs(1), runs)
            .await
    }

    fn most_memory(&self) -> anyhow::Result<f64> {
        meter::most_memory(self.muster.0.pid().context("it ended")?)
    }

    async fn roll(&mut self, side: Side, limit: Limit) -> anyhow::Result<Run> {
        sleep(QUIET).await;
        self.commits += 1;
        let commit = format!("{:040x}", self.commits);
        let (controller, agents) = match side {
            Side::Muster => (&mut self.muster.0, &self.muster.1),
            Side::Perfect => (&mut self.perfect.0, &self.perfect.1),
        };
        let pid = controller.pid().context("it ended")?;
        let (writes, processor) = (
            self.fleet.writes(&self.client).await?,
            meter::processor_time(pid)?,
        );
        let began = Instant::now();
        controller.want(&commit, limit, self.clusters).await?;
        let metrics = agents.until(self.clusters, &commit).await?;
        let time = metrics.last - began;
        sleep(QUIET).await;
        Ok(Run {
            time,
            writes: self.fleet.writes(&self.client).await?.since(writes),
            most: metrics.most,
            processor: meter::processor_time(pid)? - processor,
        })
    }

    /// From the write of a cluster's status until a watch delivers the module's status that shows it; alternating with
    /// two plain writes.
    async fn flips(&self) -> anyhow::Result<Flips> {
        let (ours, theirs) = (&self.muster.2, &self.perfect.2);
        let mut modules = fleet::watch_objects::<Module>(self.client.clone(), ours);
        let mut rows = fleet::watch_objects::<ProxyAssemblage>(self.client.clone(), theirs);
        let (cluster, other) = (fleet::cluster(self.clusters / 2), fleet::cluster(0));
        let mut flips = Flips {
            clusters: self.clusters,
            muster: Vec::new(),
            writes: Vec::new(),
        };
        for flip in 0..FLIPS {
            let well = flip % 2 == 1;
            sleep(Duration::from_millis(500)).await;
            let began = self.muster.1.flip(&cluster, well).await?;
            until(&mut modules, |module| all_but_one(module) != well).await?;
            flips.muster.push(began.elapsed());
            let mut writes = Duration::ZERO;
            for name in [&cluster, &other] {
                let began = self.perfect.1.flip(name, well).await?;
                until(&mut rows, |row| {
                    row.metadata.name.as_ref() == Some(name) && is_well(row) == well
                })
                .await?;
                writes += began.elapsed();
            }
            flips.writes.push(writes);
        }
        Ok(flips)
    }

    async fn at_rest(&self) -> anyhow::Result<Writes> {
        sleep(QUIET).await;
        let before = self.fleet.writes(&self.client).await?;
        sleep(REST).await;
        Ok(self.fleet.writes(&self.client).await?.since(before))
    }

    async fn restart(&mut self) -> anyhow::Result<Writes> {
        let before = self.fleet.writes(&self.client).await?;
        let again = Controller::start(
            Side::Muster,
            &self.kubeconfig,
            &self.muster.2,
            self.client.clone(),
        )
        .await?;
        std::mem::replace(&mut self.muster.0, again).end().await?;
        sleep(REST).await;
        Ok(self.fleet.writes(&self.client).await?.since(before))
    }
}

fn all_but_one(module: &Module) -> bool {
    let summary = module.status.as_ref().and_then(|status| status.summary.as_ref());
    summary.is_some_and(|summary| summary.ready + 1 == summary.total)
}

fn is_well(row: &ProxyAssemblage) -> bool {
    let reported = row.status.as_ref().and_then(|status| status.syncs.first());
    reported.is_some_and(|reported| reported.state == SyncPhase::Succeeded)
}

/// Waits until a watch delivers an object that matches the condition.
async fn until<K>(objects: &mut BoxStream<'static, K>, holds: impl Fn(&K) -> bool) -> anyhow::Result<()> {
    let observed = async {
        while let Some(object) = objects.next().await {
            if holds(&object) {
                return anyhow::Ok(());
            }
        }
        anyhow::bail!("a watch ended")
    };
    timeout(FLIPPED, observed)
        .await
        .context("a flip is not observed")?
}
