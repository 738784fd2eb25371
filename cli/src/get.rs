//! `muster get`: prints objects as kubectl does. The API server makes the tables, so the columns are those of the
//! definitions.

use std::{ffi::OsStr, str::FromStr, time::Duration};

use anyhow::bail;
use clap::{
    Args, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
};
use futures::{StreamExt as _, future};
use kube::{Client, core::ApiResource};
use muster_api::{
    BootstrapModule, ClusterUpgrade, Module, ModuleRevision, ProxyAssemblage, RemoteAssemblage, ZoneRollout,
    node::{NodeAssemblage, NodeModule, NodeRevision},
};
use muster_fleet as fleet;
use muster_fleet::{
    connect::{self, Target},
    listing::{self, Listing, Table},
};
use muster_sync::build::print;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    exit::DONE,
    flags::{ListedName, Output},
    output::{self, Out},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster get                                              what can be listed
  muster get modules
  muster get clusters -l env=prod -o wide
  muster get modules --status-selector ready=false -A     what is not ready, in all namespaces
  muster get all -o name
  muster get module/podinfo
  muster get zonerollouts -n mimir
  muster get nodemodules --context eu-1                   those for the nodes of that cluster
  muster get revisions -w                                 each change, until Ctrl-C";

/// List modules, clusters, assemblages, revisions or ZoneRollouts, as kubectl does
///
/// Exit codes: 0 printed, 2 no object of that name, or could not find out.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct GetFlags {
    /// What to list, or TYPE/NAME; omit it to print the types
    #[arg(value_parser = ListedParser)]
    pub what: Option<Listed>,
    /// Only this object
    pub name: Option<ListedName>,
    /// Only objects with these labels
    #[arg(short = 'l', long, conflicts_with = "name")]
    pub selector: Option<String>,
    /// Only objects with a condition of this status, such as ready=false; a missing condition counts as unknown
    #[arg(long, value_name = "CONDITION=STATUS")]
    pub status_selector: Option<StatusSelector>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Print a line for each change until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Selects objects by one of their conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusSelector {
    /// Type of the condition, in lower case.
    pub condition: String,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: &'static str,
}

impl FromStr for StatusSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (condition, status) = text
            .split_once('=')
            .filter(|(condition, _)| !condition.is_empty())
            .ok_or("write CONDITION=STATUS, such as ready=false")?;
        let known = ["True", "False", "Unknown"];
        let status = known
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(status))
            .ok_or_else(|| format!("{status:?} is not a condition status: write true, false or unknown"))?;
        Ok(Self {
            condition: condition.to_ascii_lowercase(),
            status,
        })
    }
}

impl GetFlags {
    async fn listing(
        &self,
        client: Client,
        namespace: String,
        what: ResourceType,
    ) -> anyhow::Result<Listing> {
        // Either all listed kinds are namespaced, or none.
        let is_everywhere = self.all_namespaces || what.is_of_nodes();
        let listed = self.what.as_ref().and_then(|what| what.name.as_deref());
        let condition = self.status_selector.as_ref();
        Ok(Listing {
            kinds: kinds(&client, what).await?,
            client,
            namespace: Some(namespace).filter(|_| !is_everywhere),
            are_of_nodes: what.is_of_nodes(),
            selector: self.selector.clone(),
            name: self.name.as_deref().or(listed).map(str::to_owned),
            condition: condition.map(|wanted| (wanted.condition.clone(), wanted.status)),
        })
    }
}

/// The argument of `get`, as kubectl takes it: TYPE or TYPE/NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The kinds to list.
    pub what: ResourceType,
    /// The name of the object, if one is given.
    pub name: Option<String>,
}

/// Parses the argument: the type must be one of the possible values.
#[derive(Clone)]
struct ListedParser;

impl TypedValueParser for ListedParser {
    type Value = Listed;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Listed, clap::Error> {
        let text = value.to_string_lossy();
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) if !name.is_empty() => (kind, Some(name.to_owned())),
            _ => (&*text, None),
        };
        let what = EnumValueParser::<ResourceType>::new().parse_ref(command, arg, OsStr::new(kind))?;
        Ok(Listed { what, name })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            ResourceType::value_variants()
                .iter()
                .filter_map(ResourceType::to_possible_value),
        ))
    }
}

/// The types that `get` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResourceType {
    /// Modules and BootstrapModules
    #[value(alias = "module", alias = "mmod")]
    Modules,
    /// BootstrapModules only
    #[value(name = "bootstrapmodules", alias = "bootstrapmodule", alias = "bmod")]
    BootstrapModules,
    /// Clusters
    #[value(alias = "cluster")]
    Clusters,
    /// The assignments of clusters: ProxyAssemblages and RemoteAssemblages
    #[value(alias = "assemblage")]
    Assemblages,
    /// ModuleRevisions
    #[value(
        alias = "revision",
        alias = "modulerevision",
        alias = "modulerevisions",
        alias = "mrev"
    )]
    Revisions,
    /// ZoneRollouts
    #[value(name = "zonerollouts", alias = "zonerollout", alias = "zr")]
    ZoneRollouts,
    /// ClusterUpgrades
    #[value(name = "clusterupgrades", alias = "clusterupgrade", alias = "cup")]
    ClusterUpgrades,
    /// NodeModules of this cluster
    #[value(name = "nodemodules", alias = "nodemodule", alias = "nmod")]
    NodeModules,
    /// The node assignments of this cluster: what each node gets
    #[value(name = "nodeassemblages", alias = "nodeassemblage", alias = "nasm")]
    NodeAssemblages,
    /// Revisions of NodeModules
    #[value(name = "noderevisions", alias = "noderevision", alias = "nrev")]
    NodeRevisions,
    /// All but ClusterUpgrades, ZoneRollouts and the node kinds
    All,
}

impl ResourceType {
    /// Whether these are the cluster-scoped kinds about nodes.
    pub(crate) const fn is_of_nodes(self) -> bool {
        matches!(
            self,
            Self::NodeModules | Self::NodeAssemblages | Self::NodeRevisions
        )
    }
}

/// The column that changes as time passes.
const AGE: &str = "AGE";

/// How often `-w` refreshes without a change: ages advance.
const TICK: Duration = Duration::from_secs(10);
/// The shortest time between two refreshes of `-w`, however many changes arrive.
const PACE: Duration = Duration::from_secs(1);

/// Prints a list once, or again at each change.
pub(crate) async fn run(cluster: &Target, flags: &GetFlags, out: &Out) -> anyhow::Result<u8> {
    if flags.watch && !matches!(flags.output, Output::Table | Output::Wide) {
        bail!("-w prints tables: omit -o, or use -o wide (each change as JSON: kubectl get -w -o json)");
    }
    let Some(what) = &flags.what else {
        out.lines(&types())?;
        return Ok(DONE);
    };
    let (client, namespace) = connect::client(cluster).await?;
    if flags.name.is_some() && what.name.is_some() {
        bail!("one name is enough: write TYPE/NAME, or TYPE NAME");
    }
    let listing = flags.listing(client, namespace, what.what).await?;
    listing.check_name().await?;
    if !flags.watch {
        print(&listing, flags, out).await?;
        return Ok(DONE);
    }
    watch(&listing, flags, out).await
}

/// The types that can be listed, with their aliases.
fn types() -> Vec<String> {
    let mut table = output::table(["TYPE", "ALSO", "LISTS"]);
    for value in ResourceType::value_variants()
        .iter()
        .filter_map(ResourceType::to_possible_value)
    {
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

/// Prints tables at each change. An error of the first list is returned; a later error is reported once, and retried.
async fn watch(listing: &Listing, flags: &GetFlags, out: &Out) -> anyhow::Result<u8> {
    let mut changes = listing.changes()?;
    let mut live = out.live();
    live.show(tables(listing, flags, out).await?)?;
    let mut pace = interval_at(Instant::now() + PACE, PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_warning = String::new();
    loop {
        // Both a tick and a change lead to a refresh: one for all changes that arrive before the next one is due.
        let _ = tokio::time::timeout(TICK, changes.next()).await;
        let meanwhile = changes.by_ref().take_until(pace.tick());
        meanwhile.for_each(future::ready).await;
        match tables(listing, flags, out).await {
            Ok(lines) => {
                last_warning.clear();
                live.show(lines)?;
            }
            Err(error) => {
                let trouble = format!("{error:#}");
                if last_warning != trouble {
                    complain!(out, "warning: {trouble}; retrying");
                }
                last_warning = trouble;
            }
        }
    }
}

/// The resources of the type that the server serves.
pub(crate) async fn kinds(client: &Client, what: ResourceType) -> anyhow::Result<Vec<ApiResource>> {
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
        ResourceType::Clusters | ResourceType::All => fleet::served(client)
            .await?
            .map(muster_api::cluster::Version::api_resource),
        _ => None,
    };
    Ok(match what {
        ResourceType::Modules => modules.into(),
        ResourceType::BootstrapModules => modules.into_iter().skip(1).collect(),
        ResourceType::Clusters => clusters.into_iter().collect(),
        ResourceType::Assemblages => assemblages.into(),
        ResourceType::Revisions => revisions.into(),
        // Served only where zones are rolled.
        ResourceType::ZoneRollouts => vec![ApiResource::erase::<ZoneRollout>(&())],
        // Served only where a controller upgrades Clusters.
        ResourceType::ClusterUpgrades => vec![ApiResource::erase::<ClusterUpgrade>(&())],
        // Served only where nodes are configured.
        ResourceType::NodeModules => vec![ApiResource::erase::<NodeModule>(&())],
        ResourceType::NodeAssemblages => vec![ApiResource::erase::<NodeAssemblage>(&())],
        ResourceType::NodeRevisions => vec![ApiResource::erase::<NodeRevision>(&())],
        ResourceType::All => modules
            .into_iter()
            .chain(clusters)
            .chain(assemblages)
            .chain(revisions)
            .collect(),
    })
}

async fn print(listing: &Listing, flags: &GetFlags, out: &Out) -> anyhow::Result<()> {
    match flags.output {
        Output::Table | Output::Wide => {
            let lines = tables(listing, flags, out).await?;
            match &listing.namespace {
                Some(namespace) if lines.is_empty() => {
                    complain!(out, "No resources found in {namespace} namespace.");
                }
                None if lines.is_empty() => complain!(out, "No resources found."),
                _ => out.lines(&lines)?,
            }
        }
        Output::Name => {
            for (kind, item) in listing.items().await? {
                let kind_word = kind.kind.to_lowercase();
                say!(out, "{kind_word}.{}/{}", kind.group, listing::name(&item))?;
            }
        }
        Output::Json | Output::Yaml => {
            let items = listing.items().await?;
            let items: Vec<Value> = items.into_iter().map(|(_, item)| item).collect();
            let list = match (&listing.name, &items[..]) {
                (Some(_), [only]) => only.clone(),
                _ => serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}),
            };
            if flags.output == Output::Json {
                out.json(&list)?;
            } else {
                out.text(&print::yaml(&list))?;
            }
        }
    }
    Ok(())
}

/// A table per kind that has objects, separated by empty lines.
async fn tables(listing: &Listing, flags: &GetFlags, out: &Out) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for table in listing.tables().await? {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(drawn(&table, listing.kinds.len() > 1, flags, out));
    }
    Ok(lines)
}

fn drawn(table: &Table, prefixed: bool, flags: &GetFlags, out: &Out) -> Vec<String> {
    let Table { kind, columns, rows } = table;
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
    // In line output, a row whose age alone advances is not a change.
    let by_the_clock = flags.watch && !out.is_terminal();
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
