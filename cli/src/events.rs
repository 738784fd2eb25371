//! `muster events`: what happened to the objects of a fleet.

use std::pin::pin;

use anyhow::Context as _;
use clap::Args;
use futures::TryStreamExt as _;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use muster_controllers::runtime::Clock;
use muster_dashboard::{Happened, ModuleRef};
use serde::Serialize;

use crate::{
    DONE,
    args::{ClusterFlags, View},
    connect,
    fleet::{self, happened},
    output::{self, Age},
    tree::{Top, below},
};

pub const EXAMPLES: &str = "\
Examples:
  muster events                      all that happened, newest last
  muster events module/podinfo -w    of one module, as it happens
  muster events cluster/eu-1
  muster events -A                   in all namespaces
  muster events -o json | jq '.events[] | select(.warning)'";

/// What is about a cluster, besides its Cluster.
const ABOUT_A_CLUSTER: [&str; 3] = ["Cluster", "ProxyAssemblage", "RemoteAssemblage"];

#[derive(Args, Debug)]
pub struct EventsFlags {
    /// About what: fleet, module/NAME, bootstrapmodule/NAME or cluster/NAME
    #[arg(default_value_t = Top::Fleet)]
    pub top: Top,
    /// Go on with what happens, until interrupted
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["top", "watch"])]
    pub all_namespaces: bool,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// Prints events.
pub async fn run(cluster: &ClusterFlags, flags: &EventsFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let api: Api<Event> = if flags.all_namespaces {
        Api::all(client.clone())
    } else {
        Api::namespaced(client.clone(), &namespace)
    };
    let listed = api.list(&ListParams::default()).await.context("listing events")?;
    let mut all: Vec<Told> = listed.items.iter().filter_map(Told::of).collect();
    all.retain(|told| is_about(&told.happened, &flags.top));
    all.sort_by_key(|told| told.happened.at);
    if all.is_empty() {
        exists(&client, &namespace, &flags.top).await?;
    }
    match flags.output {
        View::Json => {
            let json = serde_json::json!({"schema": "events/v1", "events": all});
            output::text(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        }
        View::Table if all.is_empty() && !flags.watch => {
            complain!("Nothing happened that is still told (events are kept for an hour).");
        }
        View::Table => output::print(&table(&all, flags.all_namespaces)),
    }
    if !flags.watch {
        return Ok(DONE);
    }
    let from = listed.metadata.resource_version.unwrap_or_default();
    let mut coming = pin!(
        watcher::watcher(api, watcher::Config::default())
            .default_backoff()
            .applied_objects()
            .try_filter_map(async |event| Ok(happened(&event).map(|happened| (event, happened))))
    );
    // A watch begins with what is there: that is told already.
    let is_new = |event: &Event| {
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let version = event.metadata.resource_version.as_deref().unwrap_or_default();
        number(version) > number(&from)
    };
    loop {
        match coming.try_next().await {
            Ok(Some((event, happened))) if is_new(&event) && is_about(&happened, &flags.top) => {
                output::print(&[line(&happened)]);
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(DONE),
            // What cannot be watched now is tried again.
            Err(error) => complain!("warning: events cannot be watched: {error}"),
        }
    }
}

/// An event, and where it is.
#[derive(Serialize)]
struct Told {
    namespace: String,
    #[serde(flatten)]
    happened: Happened,
}

impl Told {
    fn of(event: &Event) -> Option<Self> {
        Some(Self {
            namespace: event.namespace().unwrap_or_default(), // an event that was read has one
            happened: happened(event)?,
        })
    }
}

/// An error, with the names that are near, if there is no such module or cluster: of one that is gone events may still tell.
async fn exists(client: &Client, namespace: &str, top: &Top) -> anyhow::Result<()> {
    if *top != Top::Fleet {
        below(&fleet::read(client, namespace).await?, top, namespace)?;
    }
    Ok(())
}

fn is_about(event: &Happened, top: &Top) -> bool {
    match top {
        Top::Fleet => true,
        Top::Cluster(name) => ABOUT_A_CLUSTER.contains(&&*event.kind) && event.name == *name,
        Top::Module(module) => event.is_about(&ModuleRef {
            kind: module.kind,
            name: module.name.clone(),
        }),
    }
}

fn table(events: &[Told], namespaced: bool) -> Vec<String> {
    let now = Clock::system().now();
    let namespace = namespaced.then_some("NAMESPACE");
    let columns = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    let mut table = output::table(namespace.into_iter().chain(columns));
    for Told { namespace, happened } in events {
        let cells = [
            Age(happened.at, now).to_string(),
            kind_of(happened).to_owned(),
            happened.reason.clone(),
            object(happened),
            happened.note.clone(),
        ];
        let namespace = namespaced.then(|| namespace.clone());
        table.add_row(namespace.into_iter().chain(cells));
    }
    output::lines(&table)
}

fn line(event: &Happened) -> String {
    let (at, kind, object) = (event.at.strftime("%H:%M:%S UTC"), kind_of(event), object(event));
    format!("{at}  {kind}  {}  {object}  {}", event.reason, event.note)
}

const fn kind_of(event: &Happened) -> &'static str {
    if event.warning { "Warning" } else { "Normal" }
}

fn object(event: &Happened) -> String {
    format!("{}/{}", event.kind.to_lowercase(), event.name)
}
