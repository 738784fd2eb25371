//! Promise: the limit holds at every instant, whatever is stopped, deleted or changed during a rollout, and the rollout
//! completes.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    bed::{Bed, CONTROLLER, FLEET, Ground, Observer, kinds},
    fleet::Quality,
};

/// The number of clusters that the limits refer to.
const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];
/// A second controller, which does not know of the first.
const RIVAL: &str = "controller-rival";
/// Enough time for a rollout over five clusters after any mishap.
const FINISHED: Duration = Duration::from_mins(15);
/// Enough time for a change to begin, if one could.
const STILL: Duration = Duration::from_secs(40);

/// A limit as in a Module, and the number of clusters that it allows.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// `maxUnreadyClusters`.
    pub text: &'static str,
    /// Of five clusters.
    pub allowed: usize,
}

/// The limits of the promise.
pub const LIMITS: [Limit; 4] = [
    Limit {
        text: "1",
        allowed: 1,
    },
    Limit {
        text: "2",
        allowed: 2,
    },
    Limit {
        text: "40%",
        allowed: 2,
    },
    Limit {
        text: "0",
        allowed: 0,
    },
];

/// An additional mishap during a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Nothing,
    /// The target is set back, and then to the new one again.
    ThereAndBack,
    /// The module's status is removed.
    StatusGone,
    /// A ProxyAssemblage is deleted.
    GoneUpstream,
    /// An Assemblage is deleted.
    GoneDownstream,
}

/// All mishaps.
const MISHAPS: [Mishap; 5] = [
    Mishap::Nothing,
    Mishap::ThereAndBack,
    Mishap::StatusGone,
    Mishap::GoneUpstream,
    Mishap::GoneDownstream,
];

/// Settings of a run with one limit.
struct Run {
    bed: Bed,
    observer: Observer,
    limit: Limit,
    random: StdRng,
    version: u32,
    ended: usize,
    controllers: Vec<&'static str>,
}

/// Consecutive rollouts during which `ends` processes are stopped at random instants.
pub async fn holds(ground: Ground, limit: Limit, ends: usize, seed: u64) {
    let mut run = Run::start(ground, limit, seed, &[CONTROLLER]).await;
    while run.ended < ends {
        let left = ends - run.ended;
        run.roll(left).await;
    }
    run.print_summary(seed);
}

/// The same with two controllers at once and no lease: both act, and only conditional writes keep the limit.
pub async fn holds_with_two_leaders(ground: Ground, limit: Limit, ends: usize, seed: u64) {
    let mut run = Run::start(ground, limit, seed, &[CONTROLLER, RIVAL]).await;
    while run.ended < ends {
        let left = ends - run.ended;
        run.roll(left).await;
    }
    run.print_summary(seed);
}

impl Run {
    async fn start(ground: Ground, limit: Limit, seed: u64, controllers: &[&'static str]) -> Self {
        let mut bed = Bed::seeded(ground, seed, None).await;
        for name in controllers.iter().filter(|name| **name != CONTROLLER) {
            bed.start_controller_as(name);
        }
        bed.prepare(&FIVE).await;
        for name in FIVE {
            bed.join(name, &[("env", "prod")], &[]).await;
        }
        let mut run = Self {
            bed,
            observer: Observer::new(kinds::PROXY_ASSEMBLAGE, "web", limit.allowed.max(1)),
            limit,
            random: StdRng::seed_from_u64(seed),
            version: 1,
            ended: 0,
            controllers: controllers.to_vec(),
        };
        let version = run.bed.release("web", 1, Quality::Good);
        let mut spec = run.bed.spec("web", &version);
        // A limit of zero would admit nothing; it is set later.
        let begin = if limit.allowed == 0 { "1" } else { limit.text };
        spec["rollout"] = json!({"maxUnreadyClusters": number(begin)});
        let module = json!({"metadata": {"name": "web"}, "spec": spec});
        run.bed.fleet().create(kinds::MODULE, module).await;
        run.finish(&version).await;
        run
    }

    /// A rollout with some stopped processes and one mishap, and all assertions about it.
    async fn roll(&mut self, left: usize) {
        self.allow(self.limit.text, self.limit.allowed).await;
        let before = format!("web-v{}", self.version);
        self.version += 1;
        let version = self.bed.roll("web", self.version, Quality::Good).await;
        let ends = self.random.random_range(1..=8).min(left);
        let mishap = MISHAPS[self.random.random_range(0..MISHAPS.len())];
        let when = self.random.random_range(0..ends);
        for end in 0..ends {
            self.wait_up_to(2500).await;
            self.end_one().await;
            if end == when {
                self.meet(mishap, &before, &version).await;
            }
        }
        if self.limit.allowed == 0 {
            self.nothing_moves().await;
            self.allow("1", 1).await;
        }
        self.finish(&version).await;
    }

    /// A controller or an agent ends as in a power cut, and restarts immediately or later.
    async fn end_one(&mut self) {
        let cluster = FIVE[self.random.random_range(0..FIVE.len())];
        let controller = self.controllers[self.random.random_range(0..self.controllers.len())];
        let (of_controller, later) = (self.random.random_bool(0.6), self.random.random_bool(0.5));
        self.bed.show_and_forget(&mut self.observer);
        let who = if of_controller { controller } else { cluster };
        self.observer.log_event(
            tokio::time::Instant::now(),
            &format!("end {} of {who}", self.ended),
        );
        if of_controller {
            self.bed.crash_controller_as(controller).await;
        } else {
            self.bed.crash_agent(cluster).await;
        }
        if later {
            self.wait_up_to(1500).await;
        }
        if of_controller {
            self.bed.start_controller_as(controller);
        } else {
            self.bed.start_agent(cluster);
        }
        self.ended += 1;
    }

    async fn meet(&mut self, mishap: Mishap, before: &str, version: &str) {
        let cluster = FIVE[self.random.random_range(0..FIVE.len())];
        let fleet = self.bed.fleet();
        self.bed.show_and_forget(&mut self.observer);
        self.observer
            .log_event(tokio::time::Instant::now(), &format!("{mishap:?} {cluster}"));
        match mishap {
            Mishap::Nothing => {}
            Mishap::ThereAndBack => {
                self.bed.target("web", before).await;
                self.wait_up_to(3000).await;
                self.bed.target("web", version).await;
            }
            Mishap::StatusGone => fleet.empty_status(kinds::MODULE, "web").await,
            Mishap::GoneUpstream => fleet.delete(kinds::PROXY_ASSEMBLAGE, cluster).await,
            Mishap::GoneDownstream => {
                let inside = self.bed.inside(cluster, muster_api::labels::SYSTEM_NAMESPACE);
                inside.delete(kinds::ASSEMBLAGE, cluster).await;
            }
        }
    }

    async fn nothing_moves(&mut self) {
        self.bed.pass(STILL).await;
        let before = self.observer.assigned();
        self.bed.show_and_forget(&mut self.observer);
        assert_eq!(
            self.observer.assigned(),
            before,
            "nothing changes with a limit of 0"
        );
    }

    async fn allow(&mut self, text: &str, allowed: usize) {
        let limit = json!({"spec": {"rollout": {"maxUnreadyClusters": number(text)}}});
        self.bed.show_and_forget(&mut self.observer);
        self.observer.allow(allowed);
        self.bed.fleet().patch(kinds::MODULE, "web", limit).await;
    }

    /// The rollout completes; every cluster has the version, and the limit held.
    async fn finish(&mut self, version: &str) {
        self.bed
            .until_ready_within(kinds::MODULE, "web", version, FINISHED)
            .await;
        for cluster in FIVE {
            let found = self.bed.version_in(cluster, "web").await;
            assert_eq!(found.as_deref(), Some(version), "{cluster} in {FLEET}");
        }
        self.bed.show_and_forget(&mut self.observer);
        self.observer.must_be_content();
    }

    async fn wait_up_to(&mut self, millis: u64) {
        let time = Duration::from_millis(self.random.random_range(0..=millis));
        self.bed.pass(time).await;
    }

    fn print_summary(&self, seed: u64) {
        println!(
            "limit {} of {}: {} processes ended in {} rollouts, {} assignments, at most {} at once, bed time {:.0?}, seed {seed}",
            self.limit.text,
            FIVE.len(),
            self.ended,
            self.version - 1,
            self.observer.assigned(),
            self.observer.most(),
            self.bed.elapsed()
        );
        assert!(self.observer.assigned() >= FIVE.len() * self.version as usize);
        assert_eq!(
            self.observer.most(),
            self.limit.allowed.max(1),
            "the limit was used"
        );
    }
}

/// Counts are JSON numbers, percentages are strings.
fn number(text: &str) -> Value {
    text.parse::<u32>()
        .map_or_else(|_| json!(text), |number| json!(number))
}
