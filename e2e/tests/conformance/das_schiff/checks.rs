//! Tables of the health checks.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use anyhow::Context;
use muster_node::{Checks, Config, Content, duration};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::node::Node;
use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[
    product("healthcheck-apiserver.json", "muster_node::failing", api_server)
        .wording(WORDS)
        .safer_alone(),
    product("healthcheck-config.json", "muster_node::Config::parse", config)
        .wording(WORDS)
        .safer_alone(),
    product(
        "healthcheck-dial-timeout.json",
        "muster_node::duration::dial_timeout",
        dial_timeout,
    )
    .safer_alone(),
    product("healthcheck-interfaces.json", "muster_node::failing", interfaces)
        .wording(WORDS)
        .safer_alone(),
    product(
        "healthcheck-reachability.json",
        "muster_node::failing",
        reachability,
    )
    .wording(WORDS)
    .safer_alone(),
];

const WORDS: &[&str] = &["error"];

fn error(node: &Node, checks: &Checks, config: &Config) -> Value {
    let failing = muster_node::failing(checks, config, node.host.as_ref());
    failing.first().map(|failing| failing.message.clone()).into()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ApiServerInput {
    list_nodes: String,
}

fn api_server(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: ApiServerInput = input.parse()?;
    let node = Node::new("network")?;
    node.host.script.borrow_mut().api_server = Some(input.list_nodes).filter(|outcome| outcome != "ok");
    let checks = Checks {
        api_server: true,
        ..Checks::default()
    };
    let config = Config::parse(&json!({"server": "https://10.0.0.1:6443"}))?;
    Ok(json!({"error": error(&node, &checks, &config)}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InterfacesInput {
    interfaces: Vec<String>,
    links: BTreeMap<String, String>,
    link_list_error: Option<String>,
}

fn interfaces(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: InterfacesInput = input.parse()?;
    let node = Node::new("network")?;
    node.host.script.borrow_mut().links = input.link_list_error.map_or(Ok(input.links), Err);
    let checks = Checks {
        interfaces: input.interfaces,
        ..Checks::default()
    };
    Ok(json!({"error": error(&node, &checks, &Config::default())}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    host: String,
    port: u16,
}

/// Hosts in the tests are names, targets of muster are addresses: one address per name.
#[derive(Default)]
struct Addresses(Vec<String>);

impl Addresses {
    fn of(&mut self, host: &str) -> anyhow::Result<IpAddr> {
        if let Ok(address) = host.parse() {
            return Ok(address);
        }
        if !self.0.iter().any(|known| known == host) {
            self.0.push(host.to_owned());
        }
        let number = self
            .0
            .iter()
            .position(|known| known == host)
            .context("it was just added")?;
        Ok(Ipv4Addr::new(10, 255, 0, u8::try_from(number)?).into())
    }

    fn host(&self, address: IpAddr) -> String {
        let number = match address {
            IpAddr::V4(address) if address.octets()[..2] == [10, 255] => Some(address.octets()[3]),
            _ => None,
        };
        let named = number.and_then(|number| self.0.get(usize::from(number)));
        named.cloned().unwrap_or_else(|| address.to_string())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReachabilityInput {
    reachability: Vec<Target>,
    retries: i64,
    dial: BTreeMap<String, Vec<String>>,
}

fn reachability(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: ReachabilityInput = input.parse()?;
    let node = Node::new("network")?;
    node.host.script.borrow_mut().dial = input.dial;
    let mut addresses = Addresses::default();
    let mut checks = Checks::default();
    for target in &input.reachability {
        let address = SocketAddr::new(addresses.of(&target.host)?, target.port);
        let name = format!("{}:{}", target.host, target.port);
        node.host.names.borrow_mut().insert(address, name);
        checks.tcp.push(address.to_string());
    }
    let ports = input
        .reachability
        .iter()
        .map(|target| format!("0.0.0.0/0:{}", target.port));
    let allowed: Vec<String> = ports.collect();
    let config = Config::parse(&json!({"checkTargets": allowed, "dialTries": input.retries}))?;
    let error = error(&node, &checks, &config);
    Ok(json!({"dials": dials(&node.host.dials.borrow()), "error": error}))
}

/// Up to the first target that fails: the original stops there; muster continues, to distinguish what failed before a
/// change from what fails after it.
fn dials(all: &[(String, bool)]) -> Vec<&str> {
    let last_of = |number: usize| all.get(number + 1).is_none_or(|next| next.0 != all[number].0);
    let failed = (0..all.len()).find(|number| !all[*number].1 && last_of(*number));
    all.iter()
        .take(failed.map_or(all.len(), |failed| failed + 1))
        .map(|(name, _)| name.as_str())
        .collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeoutInput {
    timeout: String,
}

fn dial_timeout(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: TimeoutInput = input.parse()?;
    Ok(json!({"seconds": duration::dial_timeout(&input.timeout).as_secs_f64()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigInput {
    files: BTreeMap<String, String>,
    env: String,
    path: String,
}

/// A file of the original corresponds to two inputs of muster: the checks of a NodeModule, and the agent's
/// configuration. Keys unknown to both are kept, so that muster's own validation sees them.
fn config(input: &Input<'_>) -> anyhow::Result<Value> {
    let input: ConfigInput = input.parse()?;
    let path = if input.env.is_empty() {
        &input.path
    } else {
        &input.env
    };
    let text = match input.files.get(path.trim_start_matches("./")) {
        Some(text) => text.as_str(),
        // A file that is given explicitly must exist; if the default path does not exist, nothing is configured.
        None if input.env.is_empty() => "",
        None => return Ok(json!({"config": null, "error": format!("{path} does not exist")})),
    };
    let read = muster_sync::yaml::to_json(text).map_err(anyhow::Error::from);
    Ok(match read.and_then(translated) {
        Ok(config) => json!({"config": config, "error": null}),
        Err(error) => json!({"config": null, "error": format!("{error:#}")}),
    })
}

fn translated(read: Value) -> anyhow::Result<Value> {
    let mut rest: Map<String, Value> = match read {
        Value::Null => Map::new(),
        read => serde_json::from_value(read)?,
    };
    let mut addresses = Addresses::default();
    let targets: Vec<Target> =
        serde_json::from_value(rest.remove("reachability").unwrap_or_else(|| json!([])))?;
    let mut tcp = Vec::new();
    let mut allowed = Vec::new();
    for target in targets {
        tcp.push(SocketAddr::new(addresses.of(&target.host)?, target.port).to_string());
        allowed.push(format!("0.0.0.0/0:{}", target.port));
    }
    let interfaces = rest.remove("interfaces").unwrap_or_else(|| json!([]));
    // Taints are handled by the controller (`--startup-taints`).
    let taints = rest.remove("taints").unwrap_or_else(|| json!([]));
    let timeout = rest.remove("timeout").unwrap_or_else(|| json!(""));
    let retries = rest.remove("retries").unwrap_or_else(|| json!(0));
    rest.insert("checkTargets".to_owned(), allowed.into());
    rest.insert("dialTimeout".to_owned(), timeout.clone());
    rest.insert("dialTries".to_owned(), retries.clone());
    let config = Config::parse(&Value::Object(rest))?;
    let content: Content = serde_json::from_value(json!({"checks": {"interfaces": interfaces, "tcp": tcp}}))?;
    let reachable = |text: &String| -> anyhow::Result<Value> {
        let target: SocketAddr = text.parse()?;
        anyhow::ensure!(config.allows_target(target), "{target} is not allowed");
        Ok(json!({"host": addresses.host(target.ip()), "port": target.port()}))
    };
    let reachability = content
        .checks
        .tcp
        .iter()
        .map(reachable)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(json!({
        "interfaces": content.checks.interfaces,
        "reachability": reachability,
        "timeout": timeout,
        "retries": retries,
        "taints": taints,
    }))
}
