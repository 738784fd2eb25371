//! Watches, decides and writes: one object after another, in one task.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use super::decide::{decide, nodes};
use super::plan::{Write, after};
use super::settings::Speeds;
use super::world::{Item, SimulatedKind, VisitKind, VisitObject, World, each_kind};
use super::write::{Reply, send_write};
use crate::clock::Clock;

/// How long after a failed write its object is checked again, unless it changes before.
const RETRY: Duration = Duration::from_secs(1);

/// How many objects are processed between two checks of the watches.
const BATCH: usize = 64;

/// A watch event, as a change to the world.
type Change = Box<dyn FnOnce(&mut World, Timestamp) + Send>;

/// Simulates the workloads of the cluster behind `client` until it is dropped. `clock` is the time of that cluster.
///
/// Run one player per cluster: a second one would undo and redo the work of the first.
pub async fn simulate_workloads(client: Client, clock: Clock, speeds: Speeds) {
    let mut changes = select_all(each_kind(&Watch(client.clone())));
    let mut player = Player {
        client,
        clock,
        speeds,
        world: World::default(),
        wakes: BTreeMap::new(),
    };
    player.world.dirty.extend(nodes(&player.speeds));
    loop {
        if !player.wait(&mut changes).await {
            return;
        }
        if player.world.is_synced() {
            player.work().await;
        }
    }
}

struct Player {
    client: Client,
    clock: Clock,
    speeds: Speeds,
    world: World,
    wakes: BTreeMap<Item, Timestamp>,
}

impl Player {
    /// Waits until there is work. Returns whether there can be any more work.
    async fn wait(&mut self, changes: &mut SelectAll<BoxStream<'static, Change>>) -> bool {
        let now = self.clock.now();
        let is_busy = self.world.is_synced() && !self.world.dirty.is_empty();
        let next = if is_busy {
            Some(now)
        } else {
            self.wakes.values().min().copied()
        };
        let left = next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default()); // past: now
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => change(&mut self.world, self.clock.now()),
                None => return false,
            },
            () = sleep(left) => {}
        }
        while let Some(change) = changes.next().now_or_never() {
            match change {
                Some(change) => change(&mut self.world, self.clock.now()),
                None => return false,
            }
        }
        true
    }

    /// Processes the objects that changed or whose time has come.
    async fn work(&mut self) {
        let now = self.clock.now();
        let due = self
            .wakes
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(item, _)| item.clone());
        let due: Vec<Item> = due.collect();
        self.world.dirty.extend(due);
        for _ in 0..BATCH {
            let Some(item) = self.world.dirty.pop_first() else {
                return;
            };
            self.wakes.remove(&item);
            let plan = decide(&item, &self.world, &self.speeds, self.clock.now());
            let mut wake = plan.wake;
            for write in plan.writes {
                if !self.write(&item, &write).await {
                    let retry = after(self.clock.now(), RETRY);
                    wake = Some(wake.map_or(retry, |wake| wake.min(retry)));
                    break;
                }
            }
            if let Some(wake) = wake {
                self.wakes.insert(item, wake);
            }
        }
    }

    /// Writes and stores the response. Returns whether the write succeeded.
    async fn write(&mut self, item: &Item, write: &Write) -> bool {
        let now = self.clock.now();
        match send_write(&self.client, write).await {
            Ok(Reply::Is(object)) => object.visit(Put {
                world: &mut self.world,
                now,
            }),
            Ok(Reply::Gone(object)) => object.visit(Doom {
                world: &mut self.world,
            }),
            Err(error) => {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                tracing::debug!(%error, why, kind = ?item.kind, name = item.key.name, "will be retried");
                return false;
            }
        }
        true
    }
}

async fn sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

struct Watch(Client);

impl VisitKind for Watch {
    type Out = BoxStream<'static, Change>;

    fn visit<K: SimulatedKind>(&self) -> Self::Out {
        let events = watcher(Api::<K>::all(self.0.clone()), watcher::Config::default()).default_backoff();
        let changes = events.filter_map(|event| {
            let change: Option<Change> = match event {
                Ok(event) => Some(Box::new(move |world, now| world.take(event, now))),
                Err(error) => {
                    tracing::debug!(%error, kind = ?K::KIND, "the watch is reopened");
                    None
                }
            };
            std::future::ready(change)
        });
        changes.boxed()
    }
}

struct Put<'a> {
    world: &'a mut World,
    now: Timestamp,
}

impl VisitObject for Put<'_> {
    type Out = ();

    fn visit<K: SimulatedKind>(self, object: &K) {
        self.world.put(object.clone(), self.now);
    }
}

struct Doom<'a> {
    world: &'a mut World,
}

impl VisitObject for Doom<'_> {
    type Out = ();

    fn visit<K: SimulatedKind>(self, object: &K) {
        self.world.doom::<K>(object.meta());
    }
}
