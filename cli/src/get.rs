//! `muster get`: objects as kubectl shows them. Tables are made by the API server, so the columns are the definitions' own.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use futures::{StreamExt as _, future, stream, stream::BoxStream};
use kube::{
    Client,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};
use muster_api::{
    BootstrapModule, ClusterUpgrade, Module, ModuleRevision, ProxyAssemblage, RemoteAssemblage, ZoneRollout,
    node::{NodeAssemblage, NodeModule, NodeRevision},
    path,
};
use muster_controllers::runtime::Api;
use muster_fleet as fleet;
use muster_fleet::{
    connect::{self, Target},
    near,
};
use muster_sync::build::print;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    exit::DONE,
    flags::{GetFlags, Output, What},
    output,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster get                                              what can be listed
  muster get modules
  muster get clusters -l env=prod -o wide
  muster get modules --status-selector ready=false -A      what is not well, anywhere
  muster get all -o name
  muster get module/podinfo
  muster get zonerollouts -n mimir
  muster get nodemodules --context eu-1                   of the nodes of that cluster
  muster get revisions -w                                 each change, until Ctrl-C";

/// What kubectl asks for to get a table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The column that ticks.
const AGE: &str = "AGE";

/// How often `-w` looks again when nothing wakes it: ages tick.
const TICK: Duration = Duration::from_secs(10);
/// `-w` looks no more often, however much changes.
const PACE: Duration = Duration::from_secs(1);

/// Prints a list once, or at each change.
pub(crate) async fn run(cluster: &Target, flags: &GetFlags) -> anyhow::Result<u8> {
    if flags.watch && !matches!(flags.output, Output::Table | Output::Wide) {
        bail!(
            "-w shows tables: leave -o out, or write -o wide (each change as JSON: kubectl get -w -o json)"
        );
    }
    let Some(what) = &flags.what else {
        output::print(&types());
        return Ok(DONE);
    };
    let (client, namespace) = connect::client(cluster).await?;
    if flags.name.is_some() && what.name.is_some() {
        anyhow::bail!("one name is enough: write TYPE/NAME, or TYPE NAME");
    }
    let kinds = kinds(&client, what.what).await?;
    if let Some(name) = flags.name() {
        exists(&client, &namespace, &kinds, flags, name).await?;
    }
    if !flags.watch {
        print(&client, &namespace, &kinds, flags).await?;
        return Ok(DONE);
    }
    watch(&client, &namespace, &kinds, flags).await
}

/// What can be listed, and how it is written.
fn types() -> Vec<String> {
    let mut table = output::table(["TYPE", "ALSO", "LISTS"]);
    for value in What::value_variants().iter().filter_map(What::to_possible_value) {
        let also: Vec<&str> = value.get_name_and_aliases().skip(1).collect();
        let help = value.get_help().map(ToString::to_string);
        table.add_row([
            value.get_name().to_owned(),
            also.join(", "),
            help.unwrap_or_default(),
        ]);
    }
    let mut lines = output::lines(&table);
    lines.push(String::new());
    lines.push("muster get TYPE lists all, muster get TYPE/NAME shows one.".to_owned());
    lines
}

/// Shows tables again at each change. What is wrong at first is an error; what fails later is told once, and tried again.
async fn watch(
    client: &Client,
    namespace: &str,
    kinds: &[ApiResource],
    flags: &GetFlags,
) -> anyhow::Result<u8> {
    let mut changes = changes(client, namespace, kinds, flags)?;
    let mut live = output::Live::default();
    live.show(tables(client, namespace, kinds, flags).await?);
    let mut pace = interval_at(Instant::now() + PACE, PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = String::new();
    loop {
        // The end of a tick and a change are the same here: look again, once for all that changes until that may be.
        let _ = tokio::time::timeout(TICK, changes.next()).await;
        let meanwhile = changes.by_ref().take_until(pace.tick());
        meanwhile.for_each(future::ready).await;
        match tables(client, namespace, kinds, flags).await {
            Ok(lines) => {
                told.clear();
                live.show(lines);
            }
            Err(error) => {
                let trouble = format!("{error:#}");
                if told != trouble {
                    complain!("warning: {trouble}; it is tried again");
                }
                told = trouble;
            }
        }
    }
}

/// Something for each change of an object that is listed. It never ends: where a watch fails, the list says what is wrong.
fn changes(
    client: &Client,
    namespace: &str,
    kinds: &[ApiResource],
    flags: &GetFlags,
) -> anyhow::Result<BoxStream<'static, ()>> {
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&flags.selector);
    let all = kinds.iter().map(|kind| {
        let api: Api<PartialObjectMeta<DynamicObject>> = if flags.is_everywhere() {
            Api::all_with(client.clone(), kind)
        } else {
            Api::namespaced_with(client.clone(), namespace, kind)
        };
        let events = watcher(api.for_watching()?, config.clone()).default_backoff();
        Ok(events.map(drop).boxed())
    });
    Ok(stream::select_all(all.collect::<anyhow::Result<Vec<_>>>()?).boxed())
}

/// The kinds that are served of what is listed.
pub(crate) async fn kinds(client: &Client, what: What) -> anyhow::Result<Vec<ApiResource>> {
    let modules = [
        ApiResource::erase::<Module>(&()),
        ApiResource::erase::<BootstrapModule>(&()),
    ];
    let assemblages = [
        ApiResource::erase::<ProxyAssemblage>(&()),
        ApiResource::erase::<RemoteAssemblage>(&()),
    ];
    let revisions = [ApiResource::erase::<ModuleRevision>(&())];
    let clusters = match what {
        What::Clusters | What::All => fleet::served(client)
            .await?
            .map(muster_api::cluster::Version::api_resource),
        _ => None,
    };
    Ok(match what {
        What::Modules => modules.into(),
        What::BootstrapModules => modules.into_iter().skip(1).collect(),
        What::Clusters => clusters.into_iter().collect(),
        What::Assemblages => assemblages.into(),
        What::Revisions => revisions.into(),
        // Only clusters whose zones are rolled serve it.
        What::ZoneRollouts => vec![ApiResource::erase::<ZoneRollout>(&())],
        // Only where a controller upgrades Clusters.
        What::ClusterUpgrades => vec![ApiResource::erase::<ClusterUpgrade>(&())],
        // Only clusters whose nodes are configured serve these.
        What::NodeModules => vec![ApiResource::erase::<NodeModule>(&())],
        What::NodeAssemblages => vec![ApiResource::erase::<NodeAssemblage>(&())],
        What::NodeRevisions => vec![ApiResource::erase::<NodeRevision>(&())],
        What::All => modules
            .into_iter()
            .chain(clusters)
            .chain(assemblages)
            .chain(revisions)
            .collect(),
    })
}

/// An error, with the names that are near, if nothing is called so.
async fn exists(
    client: &Client,
    namespace: &str,
    kinds: &[ApiResource],
    flags: &GetFlags,
    wanted: &str,
) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for kind in kinds {
        let answer = ask(client, namespace, kind, flags, TABLE).await?;
        let rows = answer["rows"].as_array().into_iter().flatten();
        names.extend(rows.map(|row| name(&row["object"]).to_owned()));
    }
    if names.contains(wanted) {
        return Ok(());
    }
    let what: Vec<&str> = kinds.iter().map(|kind| kind.plural.as_str()).collect();
    let place = if flags.what.as_ref().is_some_and(|what| what.what.is_of_nodes()) {
        "this cluster".to_owned()
    } else if flags.all_namespaces {
        "any namespace".to_owned()
    } else {
        format!("namespace {namespace}")
    };
    bail!(
        "no resource named {wanted} among {} in {place}{}",
        what.join(", "),
        near::offer(wanted, names.iter().map(String::as_str))
    )
}

async fn print(
    client: &Client,
    namespace: &str,
    kinds: &[ApiResource],
    flags: &GetFlags,
) -> anyhow::Result<()> {
    match flags.output {
        Output::Table | Output::Wide => {
            let lines = tables(client, namespace, kinds, flags).await?;
            if lines.is_empty() && flags.is_everywhere() {
                complain!("No resources found.");
            } else if lines.is_empty() {
                complain!("No resources found in {namespace} namespace.");
            }
            output::print(&lines);
        }
        Output::Name => {
            for (kind, item) in items(client, namespace, kinds, flags).await? {
                say!("{}.{}/{}", kind.kind.to_lowercase(), kind.group, name(&item));
            }
        }
        Output::Json | Output::Yaml => {
            let items: Vec<Value> = items(client, namespace, kinds, flags)
                .await?
                .into_iter()
                .map(|(_, item)| item)
                .collect();
            let list = match (flags.name(), &items[..]) {
                (Some(_), [only]) => only.clone(),
                _ => serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}),
            };
            let text = if flags.output == Output::Json {
                serde_json::to_string_pretty(&list)? + "\n"
            } else {
                print::yaml(&list)
            };
            output::text(&text)?;
        }
    }
    Ok(())
}

/// A table for each kind that has objects, with an empty line between.
async fn tables(
    client: &Client,
    namespace: &str,
    kinds: &[ApiResource],
    flags: &GetFlags,
) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for kind in kinds {
        let mut answer = ask(client, namespace, kind, flags, TABLE).await?;
        let rows = answer["rows"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        let columns = answer["columnDefinitions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let rows: Vec<Value> = rows
            .into_iter()
            .filter(|row| wanted(&row["object"], flags))
            .collect();
        if rows.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(drawn(kind, &columns, &rows, kinds.len() > 1, flags));
    }
    Ok(lines)
}

fn drawn(
    kind: &ApiResource,
    columns: &[Value],
    rows: &[Value],
    prefixed: bool,
    flags: &GetFlags,
) -> Vec<String> {
    let shown =
        |column: &Value| flags.output == Output::Wide || column["priority"].as_i64().unwrap_or(0) == 0;
    let places: Vec<usize> = (0..columns.len())
        .filter(|place| shown(&columns[*place]))
        .collect();
    let title = |place: &usize| {
        columns[*place]["name"]
            .as_str()
            .unwrap_or_default()
            .to_uppercase()
    };
    let mut titles: Vec<String> = places.iter().map(title).collect();
    // Line by line, an age that only ticks is no change.
    let by_the_clock = flags.watch && !output::is_terminal();
    let ages: Vec<bool> = titles.iter().map(|title| by_the_clock && title == AGE).collect();
    for title in titles.iter_mut().filter(|title| by_the_clock && *title == AGE) {
        "CREATED".clone_into(title);
    }
    if flags.all_namespaces {
        titles.insert(0, "NAMESPACE".to_owned());
    }
    let mut table = output::table(titles.iter().map(String::as_str));
    for row in rows {
        let cell = |(place, is_age): (&usize, &bool)| match is_age {
            true => text(&row["object"]["metadata"]["creationTimestamp"]),
            false => text(&row["cells"][*place]),
        };
        let mut cells: Vec<String> = places.iter().zip(&ages).map(cell).collect();
        if let Some(first) = cells.first_mut().filter(|_| prefixed) {
            *first = format!("{}.{}/{first}", kind.kind.to_lowercase(), kind.group);
        }
        if flags.all_namespaces {
            cells.insert(0, text(&row["object"]["metadata"]["namespace"]));
        }
        table.add_row(cells);
    }
    output::lines(&table)
}

fn text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

async fn items(
    client: &Client,
    namespace: &str,
    kinds: &[ApiResource],
    flags: &GetFlags,
) -> anyhow::Result<Vec<(ApiResource, Value)>> {
    let mut items = Vec::new();
    for kind in kinds {
        let mut answer = ask(client, namespace, kind, flags, "application/json").await?;
        let found = answer["items"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        let complete = found
            .into_iter()
            .filter(|item| wanted(item, flags))
            .map(|mut item| {
                item["apiVersion"] = Value::from(kind.api_version.clone());
                item["kind"] = Value::from(kind.kind.clone());
                (kind.clone(), item)
            });
        items.extend(complete);
    }
    Ok(items)
}

fn wanted(object: &Value, flags: &GetFlags) -> bool {
    flags.name().is_none_or(|wanted| name(object) == wanted)
        && flags
            .status_selector
            .as_ref()
            .is_none_or(|wanted| status(object, &wanted.condition) == wanted.status)
}

/// The status of a condition; one that is not there is unknown.
fn status<'a>(object: &'a Value, condition: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|found| {
            found["type"]
                .as_str()
                .is_some_and(|kind| kind.eq_ignore_ascii_case(condition))
        })
        .and_then(|found| found["status"].as_str())
        .unwrap_or("Unknown")
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// One list, in the form that `accept` says.
async fn ask(
    client: &Client,
    namespace: &str,
    kind: &ApiResource,
    flags: &GetFlags,
    accept: &str,
) -> anyhow::Result<Value> {
    let ApiResource {
        group,
        version,
        plural,
        ..
    } = kind;
    let within = if flags.is_everywhere() {
        String::new()
    } else {
        format!("/namespaces/{}", path::segment(namespace)?)
    };
    // Rows of a table bring no more than metadata along, if they are not asked to.
    let rows = flags
        .status_selector
        .as_ref()
        .map(|_| "includeObject=Object".to_owned());
    let selector = flags.selector.as_ref();
    let selector = selector.map(|selector| format!("labelSelector={}", encoded(selector)));
    let query: Vec<String> = rows.into_iter().chain(selector).collect();
    let request = http::Request::get(format!(
        "/apis/{group}/{version}{within}/{plural}?{}",
        query.join("&")
    ))
    .header(http::header::ACCEPT, accept)
    .body(Vec::new())
    .context("the request cannot be made: is the selector well-formed?")?;
    let answer = client.request(request).await;
    if let Err(kube::Error::Api(status)) = &answer
        && status.code == 404
    {
        elsewhere(plural)?;
    }
    answer.with_context(|| format!("listing {plural}.{group}"))
}

/// Kinds that not every cluster has: where they are not served, where they are.
fn elsewhere(plural: &str) -> anyhow::Result<()> {
    match plural {
        "clusterupgrades" => bail!(
            "ClusterUpgrades are not served by this cluster: they are in a management cluster with muster controller --upgrades (docs/upgrades.md); \
             next: muster crds --management --upgrades | kubectl apply --server-side -f -, or name another with --context or --kubeconfig"
        ),
        "zonerollouts" => bail!(
            "ZoneRollouts are not served by this cluster: they are where muster zones is (docs/zones.md); next: muster install --export --zones \
             --crds, or name another with --context or --kubeconfig"
        ),
        "nodemodules" | "nodeassemblages" | "noderevisions" => bail!(fleet::nodes::NodeError::NotServed),
        _ => Ok(()),
    }
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
