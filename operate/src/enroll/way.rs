//! The user's access to a cluster: a context of a kubeconfig, as kubectl reads it.

use std::{error::Error, path::PathBuf, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Client,
    config::{Cluster, KubeConfigOptions, Kubeconfig},
};
use muster_controllers::runtime::{call::error_chain, sendable};
use muster_fleet::connect;

use crate::steps::{Step, StepRefusal};

/// The connect timeout.
const CONNECT: Duration = Duration::from_secs(10);
/// The read timeout.
const SILENCE: Duration = Duration::from_secs(30);

/// A kubeconfig, and a context in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Path of the kubeconfig; `None` for the user's own.
    pub file: Option<PathBuf>,
    /// The kubeconfig from the management cluster's flags; if given, it is used as the user's own.
    pub other_file: Option<PathBuf>,
    /// The context; `None` for the file's current one.
    pub context: Option<String>,
}

/// The user's access to a cluster.
pub(crate) struct Way {
    /// A client with the user's credential.
    pub client: Client,
    /// Name of the context.
    pub context: String,
    /// Server address in the kubeconfig.
    pub server: String,
    /// Certificate authority of the server: PEM in base64. `None` if the kubeconfig has none.
    pub authority: Option<String>,
    /// Server name of the certificate, if it is not the host of the address.
    pub tls_name: Option<String>,
    /// Whether the user connects through a proxy, which the management cluster will not use.
    pub proxy: bool,
    /// The flags with which kubectl connects to it.
    pub flags: String,
}

impl Way {
    /// Reads the kubeconfig. No request is sent.
    pub(crate) async fn read(wanted: &Wanted) -> Step<Self> {
        let file = wanted.file.as_ref().or(wanted.other_file.as_ref());
        let what = file.map_or_else(
            || "your kubeconfig".to_owned(),
            |file| format!("kubeconfig {}", file.display()),
        );
        let kubeconfig = file.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        let kubeconfig = kubeconfig.map_err(|error| unusable(&what, &error))?;
        let Some(context) = wanted
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone())
        else {
            return Err(StepRefusal::unknown(format!("{what} has no current context"))
                .remedy("name one: kubectl config get-contexts shows them"));
        };
        let Some(cluster) = cluster_of(&kubeconfig, &context) else {
            let names: Vec<&str> = kubeconfig
                .contexts
                .iter()
                .map(|context| context.name.as_str())
                .collect();
            return Err(
                StepRefusal::unknown(format!("{what} has no context {context} with a cluster"))
                    .remedy(format!("it has: {}", names.join(", "))),
            );
        };
        let Some(server) = cluster.server.clone() else {
            return Err(StepRefusal::unknown(format!(
                "context {context} of {what} has no server"
            )));
        };
        let (tls_name, proxy) = (cluster.tls_server_name.clone(), cluster.proxy_url.is_some());
        let authority = authority(cluster).map_err(|error| {
            StepRefusal::unknown(format!(
                "the certificate authority of context {context} cannot be read: {error}"
            ))
        })?;
        let options = KubeConfigOptions {
            context: Some(context.clone()),
            ..KubeConfigOptions::default()
        };
        let config = connect::configured(kubeconfig, &options).await;
        let mut config = config.map_err(|error| unusable(&what, &error))?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENCE);
        let client =
            sendable::sendable_client(config, Client::try_from).map_err(|error| unusable(&what, &error))?;
        let flags = match &wanted.file {
            Some(file) => format!("--kubeconfig {} --context {context}", file.display()),
            None => format!("--context {context}"),
        };
        Ok(Self {
            client,
            context,
            server,
            authority,
            tls_name,
            proxy,
            flags,
        })
    }

    /// Its name in messages.
    pub(crate) fn display_name(&self) -> String {
        format!("context {}", self.context)
    }
}

fn unusable(what: &str, error: &(dyn Error + 'static)) -> StepRefusal {
    StepRefusal::unknown(format!("{what} cannot be used: {}", error_chain(error)))
        .remedy("name the cluster by --downstream-kubeconfig FILE, or by a context of your kubeconfig: kubectl config get-contexts")
}

/// The cluster entry of a context.
fn cluster_of<'a>(kubeconfig: &'a Kubeconfig, context: &str) -> Option<&'a Cluster> {
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?;
    let wanted = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == *wanted)?;
    cluster.cluster.as_ref()
}

/// Its certificate authority, in base64 as in a kubeconfig.
fn authority(cluster: &Cluster) -> std::io::Result<Option<String>> {
    if let Some(data) = &cluster.certificate_authority_data {
        return Ok(Some(data.clone()));
    }
    let file = cluster.certificate_authority.as_ref();
    file.map(|file| std::fs::read(file).map(|pem| STANDARD.encode(pem)))
        .transpose()
}
