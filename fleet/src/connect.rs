//! Connects to the management cluster that the user names, as kubectl does.

use std::{env, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use http::{HeaderName, HeaderValue};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use muster_controllers::runtime::deadline;
use muster_sync::proxy::{Proxies, ProxyError};

use crate::near;

/// The management cluster and namespace, from kubectl's own flags.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Path of the kubeconfig [default: `$KUBECONFIG`, `~/.kube/config`, or in-cluster].
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one].
    pub context: Option<String>,
    /// Namespace of modules and clusters [default: the context's].
    pub namespace: Option<String>,
    /// User to impersonate.
    pub impersonate: Option<String>,
    /// Groups to impersonate.
    pub impersonate_groups: Vec<String>,
    /// How long one request may take [default: [`deadline::DEFAULT`]].
    pub request_timeout: Option<Duration>,
}

/// A client, and the namespace to work in. The user's kubeconfig is read as kubectl reads it.
pub async fn client(target: &Target) -> anyhow::Result<(Client, String)> {
    let total = target.request_timeout.unwrap_or(deadline::DEFAULT);
    let config = config(target).await?;
    let namespace = target
        .namespace
        .clone()
        .unwrap_or_else(|| config.default_namespace.clone());
    // A kubeconfig may name a credential plugin, which blocks while it runs.
    let client = tokio::task::spawn_blocking(move || deadline::client_with_deadline(config, total));
    let client = tokio::time::timeout(total, client)
        .await
        .with_context(|| {
            format!(
                "the credential plugin of the kubeconfig did not finish within {} s",
                total.as_secs()
            )
        })?
        .context("creating the client")?;
    Ok((client.context("the kubeconfig cannot be used")?, namespace))
}

/// The client configuration for the target.
pub async fn config(target: &Target) -> anyhow::Result<Config> {
    let mut config = found(target).await?;
    let mut header = |name: &'static str, value: &str| {
        let value = HeaderValue::from_str(value)
            .with_context(|| format!("{value:?} is not a valid user or group name"))?;
        config.headers.push((HeaderName::from_static(name), value));
        anyhow::Ok(())
    };
    if let Some(user) = &target.impersonate {
        header("impersonate-user", user)?;
    }
    for group in &target.impersonate_groups {
        header("impersonate-group", group)?;
    }
    if let Some(timeout) = target.request_timeout {
        config.connect_timeout = Some(timeout);
        config.read_timeout = Some(timeout);
        config.write_timeout = Some(timeout);
    }
    Ok(config)
}

/// From `--kubeconfig`, `$KUBECONFIG`, `~/.kube/config`, or in-cluster.
async fn found(target: &Target) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: target.context.clone(),
        ..KubeConfigOptions::default()
    };
    if let Some(file) = &target.kubeconfig {
        let what = || format!("kubeconfig {}", file.display());
        let kubeconfig = Kubeconfig::read_from(file).with_context(what)?;
        has_context(&kubeconfig, target).with_context(what)?;
        return configured(kubeconfig, &options).await.with_context(what);
    }
    let kubeconfig_env = env::var("KUBECONFIG").unwrap_or_default();
    let has_own =
        !kubeconfig_env.is_empty() || env::home_dir().is_some_and(|home| home.join(".kube/config").exists());
    let is_inside = env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    if is_inside && !has_own && target.context.is_none() {
        return Config::incluster().context("reading the in-cluster configuration");
    }
    let kubeconfig = Kubeconfig::read().with_context(|| unfound(&kubeconfig_env))?;
    has_context(&kubeconfig, target)?;
    configured(kubeconfig, &options)
        .await
        .with_context(|| unfound(&kubeconfig_env))
}

/// The connection of a kubeconfig. kube would use HTTPS_PROXY as its `proxy-url`: API servers are reached without it.
pub async fn configured(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<Config, KubeconfigError> {
    let named = options.context.as_ref().or(kubeconfig.current_context.as_ref());
    let context = kubeconfig
        .contexts
        .iter()
        .find(|context| Some(&context.name) == named);
    let cluster = context.and_then(|context| context.context.as_ref());
    let cluster = cluster.and_then(|context| {
        let mut clusters = kubeconfig.clusters.iter();
        clusters
            .find(|cluster| cluster.name == context.cluster)?
            .cluster
            .as_ref()
    });
    let has_proxy =
        cluster.is_some_and(|cluster| cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()));
    let mut config = Config::from_custom_kubeconfig(kubeconfig, options).await?;
    if !has_proxy {
        config.proxy_url = None;
    }
    Ok(config)
}

/// The proxies from the environment of the process. API servers are reached without them.
pub fn proxies() -> Result<Proxies, ProxyError> {
    Proxies::from_variables(|name| env::var(name).ok())
}

/// The context must exist; the error lists the existing ones.
fn has_context(kubeconfig: &Kubeconfig, target: &Target) -> anyhow::Result<()> {
    let Some(requested) = &target.context else {
        return Ok(());
    };
    let there: Vec<&str> = kubeconfig
        .contexts
        .iter()
        .map(|context| context.name.as_str())
        .collect();
    if there.contains(&requested.as_str()) {
        return Ok(());
    }
    let near = near::offer(requested, there.iter().copied());
    bail!(
        "there is no context {requested}{near}: there are {}",
        there.join(", ")
    )
}

/// The error if no kubeconfig can be used; names the file, if one was given.
fn unfound(kubeconfig_env: &str) -> String {
    if kubeconfig_env.is_empty() {
        return "no kubeconfig: set KUBECONFIG, or name one with --kubeconfig (to try muster: muster demo)"
            .to_owned();
    }
    format!(
        "KUBECONFIG={kubeconfig_env}: no usable kubeconfig; next: fix it, or name another with --kubeconfig"
    )
}

/// The contexts of the kubeconfig of a target.
pub fn contexts(target: &Target) -> Result<Vec<String>, KubeconfigError> {
    let kubeconfig = match &target.kubeconfig {
        Some(file) => Kubeconfig::read_from(file)?,
        None => Kubeconfig::read()?,
    };
    let contexts = kubeconfig.contexts.into_iter();
    Ok(contexts.map(|context| context.name).collect())
}
