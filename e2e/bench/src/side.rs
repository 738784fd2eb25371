//! The two controllers that are compared, each as a process of this program.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use muster_api::Module;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// The module of all workloads, and the name of its row.
const MODULE: &str = "web";
/// How long a process may take to report that it runs.
const STARTED: Duration = Duration::from_mins(1);

/// Which controller writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Muster,
    Perfect,
}

/// How many clusters may change at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    All,
    Some(usize),
}

/// A process that rolls commits out to the clusters of a namespace. Dropping it ends the process.
pub(crate) struct Controller {
    side: Side,
    namespace: String,
    client: Client,
    child: Child,
    input: ChildStdin,
    _output: BufReader<ChildStdout>,
}

impl Controller {
    /// Starts the process.
    pub(crate) async fn start(
        side: Side,
        kubeconfig: &Path,
        namespace: &str,
        client: Client,
    ) -> anyhow::Result<Self> {
        let role = match side {
            Side::Muster => "controller",
            Side::Perfect => "perfect",
        };
        let mut child = Command::new(std::env::current_exe()?)
            .arg(role)
            .arg(kubeconfig)
            .arg(namespace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let mut output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut line = String::new();
        timeout(STARTED, output.read_line(&mut line)).await??;
        if line.trim() != "ready" {
            bail!("{role} printed {line:?} instead of ready");
        }
        Ok(Self {
            side,
            namespace: namespace.to_owned(),
            client,
            child,
            input,
            _output: output,
        })
    }

    /// The process ID.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills the process.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        self.child.kill().await?;
        Ok(())
    }

    /// Requests a commit on all clusters.
    pub(crate) async fn want(&mut self, commit: &str, limit: Limit, clusters: usize) -> anyhow::Result<()> {
        match self.side {
            Side::Muster => self.change_the_module(commit, limit).await,
            Side::Perfect => {
                let most = match limit {
                    Limit::All => clusters,
                    Limit::Some(most) => most,
                };
                let line = format!("{commit} {most} {clusters}\n");
                self.input.write_all(line.as_bytes()).await?;
                Ok(self.input.flush().await?)
            }
        }
    }

    async fn change_the_module(&self, commit: &str, limit: Limit) -> anyhow::Result<()> {
        let modules: Api<Module> = Api::namespaced(self.client.clone(), &self.namespace);
        let rollout = match limit {
            Limit::All => json!({"strategy": "Replace"}),
            Limit::Some(most) => json!({"strategy": "Incremental", "maxUnreadyClusters": most}),
        };
        let spec = json!({
            "selector": {"matchLabels": {"env": "prod"}}, "rollout": rollout,
            "sync": {"source": source(commit), "package": {"path": "apps/web"}},
        });
        if modules.get_opt(MODULE).await?.is_some() {
            let patch = Patch::Merge(json!({"spec": spec}));
            modules.patch(MODULE, &PatchParams::default(), &patch).await?;
        } else {
            let made = json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": MODULE}, "spec": spec});
            modules
                .create(&PostParams::default(), &serde_json::from_value(made)?)
                .await?;
        }
        Ok(())
    }
}

fn source(commit: &str) -> Value {
    json!({"git": {"url": "https://git.test/fleet.git", "version": {"commit": commit}}})
}

/// A digest as long as muster's.
pub(crate) fn digest(commit: &str) -> String {
    format!("sha256:{commit:0>64}")
}

/// A row in the form that muster writes.
pub(crate) fn row(commit: &str, token: u64) -> Value {
    json!({
        "name": MODULE, "source": source(commit), "package": {"path": "apps/web"}, "commit": commit,
        "revision": format!("{commit:0>64}"), "digest": digest(commit), "token": token,
    })
}
