//! `muster events`: what happened to the objects of a fleet.

use std::pin::pin;

use anyhow::Context as _;
use clap::Args;
use futures::TryStreamExt as _;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Client, ResourceExt,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::Clock;
use muster_dashboard::Happened;
use serde::Serialize;

use crate::{
    DONE,
    args::{ClusterFlags, View},
    connect,
    fleet::happened,
    output::{self, Age},
    tree::{Top, below, read},
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
            complain!("No events found (a cluster keeps them for about an hour).");
        }
        View::Table => output::print(&table(&all, flags.all_namespaces)),
    }
    if !flags.watch {
        return Ok(DONE);
    }
    let mut told = Followed::from(listed.metadata.resource_version.as_deref());
    let mut coming =
        pin!(watcher::watcher(api.for_watching()?, watcher::Config::default()).default_backoff());
    loop {
        match coming.try_next().await {
            Ok(Some(event)) => {
                let mut news: Vec<Happened> = told.news(event).iter().filter_map(happened).collect();
                news.retain(|event| is_about(event, &flags.top));
                news.sort_by_key(|event| event.at);
                output::print(&news.iter().map(line).collect::<Vec<_>>());
            }
            Ok(None) => return Ok(DONE),
            // What cannot be watched now is tried again.
            Err(error) => complain!("warning: events cannot be watched: {error}"),
        }
    }
}

/// How far events are told. A watch begins with all that are there, and may have to begin again: what was told is not told twice.
struct Followed {
    /// The greatest version that was told.
    upto: u64,
    /// Those of a list that is being read, which are in no order.
    listed: Vec<Event>,
}

impl Followed {
    fn from(version: Option<&str>) -> Self {
        Self {
            upto: number(version),
            listed: Vec::new(),
        }
    }

    /// What is to be told now.
    fn news(&mut self, event: watcher::Event<Event>) -> Vec<Event> {
        let mut news = match event {
            watcher::Event::Init => {
                self.listed.clear();
                return Vec::new();
            }
            watcher::Event::InitApply(event) => {
                self.listed.push(event);
                return Vec::new();
            }
            watcher::Event::InitDone => std::mem::take(&mut self.listed),
            watcher::Event::Apply(event) => vec![event],
            watcher::Event::Delete(_) => return Vec::new(),
        };
        let version = |event: &Event| number(event.metadata.resource_version.as_deref());
        news.retain(|event| version(event) > self.upto);
        self.upto = news.iter().map(version).fold(self.upto, u64::max);
        news
    }
}

/// A version as the number that it is; one that is none comes before all.
fn number(version: Option<&str>) -> u64 {
    version.unwrap_or_default().parse().unwrap_or_default() // as above
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
        below(&read(client, namespace, top).await?, top, namespace)?;
    }
    Ok(())
}

fn is_about(event: &Happened, top: &Top) -> bool {
    match top {
        Top::Fleet => true,
        Top::Cluster(name) => ABOUT_A_CLUSTER.contains(&&*event.kind) && event.name == *name,
        Top::Module(module) => event.is_about(&module.reference()),
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

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event::{Apply, Init, InitApply, InitDone};

    use super::*;

    fn event(version: &str) -> Event {
        let mut event = Event::default();
        event.metadata.resource_version = Some(version.to_owned());
        event
    }

    #[test]
    fn what_was_told_is_not_told_again_when_a_watch_begins_anew() {
        let mut told = Followed::from(Some("7"));
        let mut check = |event: watcher::Event<Event>, expect: &[&str]| {
            let news = told.news(event);
            let versions = news
                .iter()
                .filter_map(|event| event.metadata.resource_version.as_deref());
            assert_eq!(versions.collect::<Vec<_>>(), expect);
        };
        check(Init, &[]);
        check(InitApply(event("5")), &[]);
        check(InitDone, &[]);
        check(Apply(event("9")), &["9"]);
        // The watch is lost: 12 and 11 happened meanwhile, and a list is in the order of names.
        check(Init, &[]);
        for version in ["12", "5", "9", "11"] {
            check(InitApply(event(version)), &[]);
        }
        check(InitDone, &["12", "11"]);
        check(Apply(event("12")), &[]);
        check(Apply(event("13")), &["13"]);
    }
}
