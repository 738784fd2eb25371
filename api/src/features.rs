//! What a row may ask of an agent beyond what every agent can: each is a field that agents of before do not know, and would pass over in
//! silence. Such a row goes only to an agent that reports the feature.

use std::collections::BTreeSet;

use crate::assemblage::{Agent, SyncRow};

/// A feature: its name, and whether a row needs it.
type Feature = (&'static str, fn(&SyncRow) -> bool);

/// Every feature of this version. A row that sets none of these fields needs none.
const FEATURES: &[Feature] = &[];

/// What an agent of this version reports.
pub fn own() -> BTreeSet<String> {
    FEATURES.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// What a row needs of an agent.
pub fn needed(row: &SyncRow) -> BTreeSet<&'static str> {
    let needed = FEATURES.iter().filter(|(_, needs)| needs(row));
    needed.map(|(name, _)| *name).collect()
}

/// What a row needs and the agent does not report. No report means no features.
pub fn missing(row: &SyncRow, agent: Option<&Agent>) -> BTreeSet<&'static str> {
    let mut missing = needed(row);
    missing.retain(|feature| !agent.is_some_and(|agent| agent.features.contains(*feature)));
    missing
}

/// Why a row is not given to an agent, and what helps.
pub fn refusal(missing: &BTreeSet<&'static str>, agent: Option<&Agent>) -> String {
    let missing: Vec<&str> = missing.iter().copied().collect();
    let agent = match agent {
        Some(agent) => format!(
            "its agent (version {}, sync {}) does not report that it can",
            agent.version, agent.sync
        ),
        None => "its agent has not reported what it can".to_owned(),
    };
    format!(
        "{agent}: {}; nothing is assigned until it does; next: upgrade the agent and its CustomResourceDefinitions (muster check)",
        missing.join(", ")
    )
}
