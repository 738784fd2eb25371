//! `muster events`: prints events of the objects of a fleet.

use std::pin::pin;

use anyhow::Context as _;
use clap::Args;
use futures::TryStreamExt as _;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Client,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::Clock;
use muster_dashboard::FleetEvent;
use muster_fleet::{
    connect::{self, Target},
    events::{Followed, NamespacedEvent, is_about},
    name::Top,
    read_event, top,
};

use crate::{
    exit::DONE,
    flags::View,
    output::{self, Age, Out},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster events                      all events, newest last
  muster events module/podinfo -w    of one module, followed live
  muster events cluster/eu-1
  muster events -A                   in all namespaces
  muster events -o json | jq '.events[] | select(.warning)'";

/// Show events of the fleet, a module or a cluster
///
/// With -o json: `schema` (`events/v1`) and events, each with namespace, at, warning, reason, note, kind, name and by.
///
/// Exit codes: 0 printed, 2 no such module or cluster, or could not find out.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct EventsFlags {
    /// What the events are about: fleet, module/NAME, bootstrapmodule/NAME or cluster/NAME
    #[arg(default_value_t = Top::Fleet, value_name = "TARGET")]
    pub top: Top,
    /// Follow new events until interrupted
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["top", "watch"])]
    pub all_namespaces: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// Prints events.
pub(crate) async fn run(cluster: &Target, flags: &EventsFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let api: Api<Event> = if flags.all_namespaces {
        Api::all(client.clone())
    } else {
        Api::namespaced(client.clone(), &namespace)
    };
    let listed = api.list(&ListParams::default()).await.context("listing events")?;
    let mut all: Vec<NamespacedEvent> = listed.items.iter().filter_map(NamespacedEvent::of).collect();
    all.retain(|event| is_about(&event.happened, &flags.top));
    all.sort_by_key(|event| event.happened.at);
    if all.is_empty() {
        exists(&client, &namespace, &flags.top).await?;
    }
    match flags.output {
        View::Json => {
            let json = serde_json::json!({"schema": "events/v1", "events": all});
            out.json(&json)?;
        }
        View::Table if all.is_empty() && !flags.watch => {
            complain!(out, "No events found (a cluster keeps them for about an hour).");
        }
        View::Table => out.lines(&table(&all, flags.all_namespaces))?,
    }
    if !flags.watch {
        return Ok(DONE);
    }
    let mut followed = Followed::from(listed.metadata.resource_version.as_deref());
    let mut coming =
        pin!(watcher::watcher(api.for_watching()?, watcher::Config::default()).default_backoff());
    loop {
        match coming.try_next().await {
            Ok(Some(event)) => {
                let mut news: Vec<FleetEvent> = followed.news(event).iter().filter_map(read_event).collect();
                news.retain(|event| is_about(event, &flags.top));
                news.sort_by_key(|event| event.at);
                out.lines(&news.iter().map(line).collect::<Vec<_>>())?;
            }
            Ok(None) => return Ok(DONE),
            // If the watch cannot start now, it is retried.
            Err(error) => complain!(out, "warning: events cannot be watched: {error}"),
        }
    }
}

/// Fails with similar names if the module or cluster does not exist and has no events: those of a deleted one are still
/// shown.
async fn exists(client: &Client, namespace: &str, top: &Top) -> anyhow::Result<()> {
    if *top != Top::Fleet {
        top::tree(&top::read(client, namespace, top).await?, top, namespace)?;
    }
    Ok(())
}

fn table(events: &[NamespacedEvent], namespaced: bool) -> Vec<String> {
    let now = Clock::system().now();
    let namespace = namespaced.then_some("NAMESPACE");
    let columns = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    let mut table = output::table(namespace.into_iter().chain(columns));
    for NamespacedEvent { namespace, happened } in events {
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

fn line(event: &FleetEvent) -> String {
    let (at, kind, object) = (event.at.strftime("%H:%M:%S UTC"), kind_of(event), object(event));
    format!("{at}  {kind}  {}  {object}  {}", event.reason, event.note)
}

const fn kind_of(event: &FleetEvent) -> &'static str {
    if event.warning { "Warning" } else { "Normal" }
}

fn object(event: &FleetEvent) -> String {
    format!("{}/{}", event.kind.to_lowercase(), event.name)
}
