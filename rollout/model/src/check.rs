//! Explores all states of a world and reports the result.

use std::collections::BTreeMap;
use std::time::Duration;

use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};

use crate::reached;
use crate::scope::Scope;
use crate::world::World;
use crate::wrong::Wrong;

/// The result of exploring all states of a world, or of finding a broken law.
#[derive(Clone, Debug, Default)]
pub struct CheckResult {
    /// The number of states.
    pub states: usize,
    /// The depth of the last state.
    pub depth: usize,
    /// The time it took.
    pub took: Duration,
    /// The broken laws, each with the path to it.
    pub broken: BTreeMap<&'static str, Vec<String>>,
    /// The events that occur somewhere.
    pub reached: Vec<&'static str>,
}

impl CheckResult {
    /// The differences from the table; empty if all is as expected.
    pub fn problems(&self, scope: &Scope) -> Vec<String> {
        let mut problems = Vec::new();
        for (law, way) in &self.broken {
            problems.push(format!("{}: {law}:\n  {}", scope.name, way.join("\n  ")));
        }
        if self.broken.is_empty() && self.states != scope.states {
            let (is, was) = (self.states, scope.states);
            problems.push(format!("{}: {is} states, in the table {was}", scope.name));
        }
        let missed = scope.reaches.iter().filter(|name| !self.reached.contains(name));
        problems.extend(missed.map(|name| format!("{}: never reached: {name}", scope.name)));
        problems
    }
}

#[derive(Default)]
struct DepthAndTime {
    depth: usize,
    took: Duration,
}

impl Reporter<World> for DepthAndTime {
    fn report_checking(&mut self, data: ReportData) {
        (self.depth, self.took) = (data.max_depth, data.duration);
    }

    fn report_discoveries(&mut self, _: &World, _: BTreeMap<&'static str, ReportDiscovery<World>>) {}
}

/// Explores all states of a world.
pub fn exhaust(world: World, threads: usize) -> CheckResult {
    search(world, threads, None)
}

/// Searches for broken laws, each with a shortest path. The first path found may not be the shortest, so the search
/// repeats with fewer steps.
pub fn shortest(scope: &Scope, wrong: Wrong, law: &str) -> Option<Vec<String>> {
    let mut way = None;
    loop {
        let most = way.as_ref().map(Vec::len);
        let found = search(World::wrong(scope.clone(), wrong), 1, most);
        let shorter = found
            .broken
            .into_iter()
            .find(|(broken, _)| broken.starts_with(law));
        match shorter {
            Some((_, shorter)) => way = Some(shorter),
            None => return way,
        }
    }
}

/// `fewer_than`: limits the search to paths with fewer steps.
fn search(world: World, threads: usize, fewer_than: Option<usize>) -> CheckResult {
    let mut reporter = DepthAndTime::default();
    let checker = world.checker().threads(threads);
    // The first state counts as one.
    let checker = match fewer_than {
        Some(steps) => checker.target_max_depth(steps + 1),
        None => checker,
    };
    let checker = checker
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join_and_report(&mut reporter);
    let world = checker.model();
    let mut found = CheckResult {
        states: checker.unique_state_count(),
        depth: reporter.depth,
        took: reporter.took,
        ..CheckResult::default()
    };
    for (name, path) in checker.discoveries() {
        if reached::NAMES.contains(&name) {
            found.reached.push(name);
        } else {
            let way = path.into_actions();
            let way = way.iter().map(|what| world.describe_event(what)).collect();
            found.broken.insert(name, way);
        }
    }
    found.reached.sort_unstable();
    found
}
