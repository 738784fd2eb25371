//! Promise: a released table never changes, and each of its expressions can be evaluated.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use muster_health::{
    Expressions,
    table::{Entry, V1, canonical},
};
use sha2::{Digest, Sha256};

/// Never change a hash here: an upgrade would change the verdicts of a fleet. Changes belong in another version.
#[test]
fn a_released_table_never_changes() {
    let hash: [u8; 32] = Sha256::digest(canonical(V1).as_bytes()).into();
    assert_eq!(
        HEXLOWER.encode(&hash),
        "bee8bf5cba3191582c417f27a8db81ac966c086bd074651daead1c238d8b58c9",
        "{}",
        canonical(V1)
    );
}

#[test]
fn all_that_a_verdict_rests_on_is_in_its_text() {
    let entry = V1[1];
    let changes: [fn(&mut Entry); 5] = [
        |entry| entry.api_version = "example.test/v1",
        |entry| entry.kind = "Widget",
        |entry| entry.in_progress = None,
        |entry| entry.failed = None,
        |entry| entry.current = "true",
    ];
    let mut texts = BTreeSet::from([canonical(&[entry])]);
    for change in changes {
        let mut other = entry;
        change(&mut other);
        texts.insert(canonical(&[other]));
    }
    assert_eq!(texts.len(), changes.len() + 1, "{texts:?}");
    let described = Entry {
        why: "another text",
        ..entry
    };
    assert_eq!(canonical(&[entry]), canonical(&[described]));
}

#[test]
fn every_expression_parses_and_every_kind_is_there_once() {
    let kind = |entry: &Entry| (entry.group(), entry.kind);
    for entry in V1 {
        let parsed = Expressions::parse(entry.current, entry.in_progress, entry.failed);
        assert!(parsed.is_ok(), "{}: {parsed:?}", entry.kind);
        for text in [entry.group(), entry.operator, entry.versions, entry.why] {
            assert!(!text.is_empty(), "{entry:?}");
        }
    }
    assert!(V1.is_sorted_by(|one, other| kind(one) < kind(other)));
}
