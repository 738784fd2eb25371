//! The table: it contains every pair of features, matches the docs, and its short scopes are explored here. The rest:
//! `cargo xtask model`.

use muster_model::check::exhaust;
use muster_model::reached;
use muster_model::scope::Feature;
use muster_model::table::{SCOPES, missing_pairs, table};
use muster_model::world::World;

#[test]
fn short_ones_hold() {
    let mut problems = Vec::new();
    for scope in SCOPES.iter().filter(|scope| scope.short) {
        let found = exhaust(World::new(scope.clone()), 2);
        println!("{}: {} states in {:?}", scope.name, found.states, found.took);
        problems.extend(found.problems(scope));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_pair_of_features_is_together_somewhere() {
    let missing = missing_pairs();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A feature that is an event needs another event in the same scope, or the pair exists only on paper.
#[test]
fn events_may_happen_where_they_are_named() {
    let events = [
        Feature::Loss,
        Feature::Joins,
        Feature::Away,
        Feature::Held,
        Feature::Pause,
        Feature::Targets,
        Feature::Withdraw,
        Feature::Words,
        Feature::Relapse,
        Feature::Budget,
        Feature::Windows,
    ];
    for (at, one) in events.iter().enumerate() {
        for other in &events[at + 1..] {
            let both = |scope: &&muster_model::scope::Scope| {
                scope.has(*one) && scope.has(*other) && scope.events > 1
            };
            assert!(SCOPES.iter().any(|scope| both(&scope)), "{one:?} and {other:?}");
        }
    }
    let leaders = |scope: &&muster_model::scope::Scope| scope.has(Feature::Leaders) == (scope.leaders == 2);
    assert!(SCOPES.iter().all(|scope| leaders(&scope)));
}

/// The minimum content of the table.
#[test]
fn the_table_is_large_enough() {
    let four = SCOPES
        .iter()
        .any(|scope| scope.clusters == 4 && scope.has(Feature::Domains));
    let back = SCOPES.iter().any(|scope| {
        scope.revisions == 3 && scope.events > 1 && scope.leaders == 2 && scope.has(Feature::Targets)
    });
    assert!(four && back);
    for name in reached::NAMES {
        let somewhere = SCOPES.iter().any(|scope| scope.reaches.contains(name));
        assert!(
            somewhere || TRIVIAL.contains(name),
            "{name}: no scope must reach it"
        );
    }
    for scope in SCOPES {
        assert!(
            scope.reaches.iter().all(|name| reached::NAMES.contains(name)),
            "{}",
            scope.name
        );
    }
}

/// Reached wherever any event happens.
const TRIVIAL: &[&str] = &["a pending write", "as many counted as the limit", "a stale view"];

#[test]
fn the_docs_have_the_table() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/model.md")).unwrap();
    let table = table();
    assert!(docs.contains(&table), "docs/model.md is to have\n{table}");
}
