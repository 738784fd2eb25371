//! A simulated cluster: an embedded API server with simulated workloads, and the real agent.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use anyhow::Context as _;
use kube::Client;
use muster_api::{crds, labels::SYSTEM_NAMESPACE};
use muster_apiserver::{
    ApiServer,
    fault::{Fault, Match, Rule, RuleId},
    player::Speeds,
};
use muster_controllers::{
    process::{self, Setup},
    reconcile::Options,
    registry,
};
use muster_sync::source::{GitOptions, GitSource, Limits};

use super::{Ground, Pace, log_limit, name::Name, nodes};

/// How much history each cluster keeps for watches: a few dozen versions of the largest objects that a module usually
/// has (75 KiB), a thousand of what rollouts write (3 KiB). The fifty clusters of the largest demo use at most 200 MiB
/// for it.
const HISTORY_BYTES: usize = 4 << 20;

/// The user name of an agent at its API server.
pub(crate) const AGENT: &str = "muster-agent";
/// How often the connection is checked.
const LOOK_AT_CABLE: Duration = Duration::from_millis(250);
/// The users that connect from outside: the administrator, and an enrolled management plane.
const OUTSIDE: [&str; 2] = [
    "kubernetes-admin",
    "system:serviceaccount:muster-system:muster-management",
];

/// A running cluster; dropping it stops it.
pub(crate) struct Cluster {
    /// Name of the cluster.
    pub name: Name,
    api: Arc<ApiServer>,
}

impl Cluster {
    /// Starts the API server, the simulated workloads and the agent. While the file `unplugged` exists, connections
    /// from outside are refused. With a directory for the files of nodes, it has nodes.
    pub(crate) async fn start(
        name: &Name,
        ground: &Ground,
        pace: Pace,
        unplugged: PathBuf,
        nodes: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let mut definitions = crds::downstream();
        definitions.extend(crds::flux());
        definitions.extend(nodes.is_some().then(crds::nodes).into_iter().flatten());
        let api = ApiServer::builder()
            .with(definitions)
            .namespace(SYSTEM_NAMESPACE)
            .name(&name.to_string())
            .event_log(pace.keeps_log)
            .log_limit(log_limit(pace.keeps_log))
            .history_bytes(HISTORY_BYTES)
            .workloads(Speeds {
                ready_after: pace.ready_after,
                stop_after: pace.stop_after,
                ..Speeds::default()
            })
            .start()
            .await?;
        api.play_tokens();
        let api = Arc::new(api);
        let door = Arc::downgrade(&api);
        api.attach(cable(door, unplugged));

        let mut setup = setup(&api, AGENT, SYSTEM_NAMESPACE, &name.to_string(), ground)?;
        if let Some(directory) = nodes {
            nodes::start(&api, &directory, ground).await?;
            setup.options.nodes = Some(Vec::new());
        }
        let reporter = ground.reporter.clone();
        api.attach(async move {
            if let Err(error) = process::run_agent(setup).await {
                reporter.warn(&format!("error: an agent ended: {error}"));
            }
        });
        Ok(Self {
            name: name.clone(),
            api,
        })
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> anyhow::Result<String> {
        self.api.kubeconfig().context("the HTTPS listener is not open")
    }

    /// A client that the server's log knows by a name.
    pub(crate) fn client_as(&self, user: &str) -> Client {
        self.api.client_as(user)
    }

    /// The API server, to read its log.
    pub(crate) fn server(&self) -> &ApiServer {
        &self.api
    }
}

/// Disconnects the cluster while a file exists: connections from outside are refused, and open watches end.
async fn cable(api: Weak<ApiServer>, unplugged: PathBuf) {
    let mut pulled: Vec<RuleId> = Vec::new();
    let mut ticks = tokio::time::interval(LOOK_AT_CABLE);
    loop {
        ticks.tick().await;
        let Some(api) = api.upgrade() else { return };
        // A directory that cannot be read has no such file.
        let is_unplugged = tokio::fs::try_exists(&unplugged).await.unwrap_or(false);
        if is_unplugged && pulled.is_empty() {
            for client in OUTSIDE {
                let matching = Match {
                    client: Some(client.to_owned()),
                    ..Match::default()
                };
                pulled.push(api.faults().add(Rule::always(matching.clone(), Fault::Refuse)));
                api.faults().close_watches(matching);
            }
        } else if !is_unplugged {
            pulled.drain(..).for_each(|rule| api.faults().remove(rule));
        }
    }
}

/// The setup of a process of muster for an embedded API server: as shipped, except for its connection.
pub(crate) fn setup(
    api: &ApiServer,
    user: &str,
    namespace: &str,
    instance: &str,
    ground: &Ground,
) -> anyhow::Result<Setup> {
    let Ground {
        clock,
        jitter,
        shutdown,
        data,
        reporter: _,
    } = ground.clone();
    let git = GitOptions {
        data_dir: data.join(instance),
        allow_insecure: true,
        limits: Limits::default(),
    };
    let now = clock.clone();
    Ok(Setup {
        client: api.client_as(user),
        namespace: namespace.to_owned(),
        options: Options::default(),
        clock,
        jitter,
        source: Arc::new(GitSource::new(git, now)?),
        connect: Arc::new(registry::connect_over_network),
        gates: muster_controllers::gates::Access::default(),
        notify: None,
        instance: instance.to_owned(),
        lease: None,
        door: None,
        metrics: muster_controllers::metrics::Metrics::default(),
        shutdown,
    })
}
