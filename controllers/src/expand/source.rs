//! The state that a source must reach before a Kustomization may refer to it.
//!
//! Pure. A source is shared by all assemblages of a namespace; the first one that finds it missing creates it.

use super::{
    derive::Derived,
    drift::{Claim, claim_source, repaired_source},
    flux_object::FluxObject,
    observed::SourceRow,
    plan::Write,
    view::Live,
};

/// The state of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceStep {
    /// It has fetched the commit.
    Holds,
    /// It has not fetched the commit yet; the reason as text.
    Waits(String),
    /// It must be created or corrected.
    Write(Box<Write>),
    /// An object with the same name but other content exists; its owner as text.
    Foreign(String),
}

impl SourceStep {
    /// The write, if there is one.
    pub fn write(self) -> Option<Write> {
        match self {
            Self::Write(write) => Some(*write),
            Self::Holds | Self::Waits(_) | Self::Foreign(_) => None,
        }
    }

    /// Why it has not fetched the commit.
    pub fn trouble(&self) -> &str {
        match self {
            Self::Holds => "it has fetched the commit",
            Self::Waits(why) | Self::Foreign(why) => why,
            Self::Write(_) => "it is being fetched",
        }
    }
}

/// Decides about a source.
pub fn decide_source(live: &Live<SourceRow, FluxObject>, derived: &Derived, manager: &str) -> SourceStep {
    let write = |write| SourceStep::Write(Box::new(write));
    match live {
        Live::Absent => write(Write::CreateSource(derived.source.clone())),
        Live::AsDerived(row) => held(row, derived),
        Live::Differs(row, live) => match claim_source(live, manager) {
            Claim::Foreign(why) => SourceStep::Foreign(why),
            Claim::Ours if row.deleting => held(row, derived),
            Claim::Ours => repaired_source(live, &derived.source, manager)
                .map_or_else(|| held(row, derived), |next| write(Write::ReplaceSource(next))),
        },
    }
}

fn held(row: &SourceRow, derived: &Derived) -> SourceStep {
    if row.holds(&derived.commit) {
        return SourceStep::Holds;
    }
    SourceStep::Waits(match row {
        SourceRow { deleting: true, .. } => {
            "it is being deleted; it is re-created once it is gone".to_owned()
        }
        SourceRow { suspended: true, .. } => "it is suspended, and has not fetched the commit".to_owned(),
        SourceRow {
            trouble: Some(trouble),
            ..
        } => trouble.clone(),
        SourceRow { trouble: None, .. } => format!("it has not fetched commit {}", derived.commit),
    })
}
