//! What a source needs before a Kustomization may refer to it.
//!
//! Pure. A source is shared by all assemblages of a namespace; whoever finds it missing makes it.

use super::{
    derive::Derived,
    drift::{Claim, claim_source, repaired_source},
    flux_object::FluxObject,
    plan::Write,
    seen::SourceRow,
    view::Live,
};

/// Where a source stands.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceStep {
    /// It holds the commit.
    Holds,
    /// It does not hold it yet; why.
    Waits(String),
    /// It has to be made, or put right.
    Write(Box<Write>),
    /// Another object of that name that says something else; whose.
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

    /// Why it does not hold the commit.
    pub fn trouble(&self) -> &str {
        match self {
            Self::Holds => "it holds the commit",
            Self::Waits(why) | Self::Foreign(why) => why,
            Self::Write(_) => "it is being fetched",
        }
    }
}

/// Decides about a source.
pub fn step(live: &Live<SourceRow, FluxObject>, derived: &Derived, manager: &str) -> SourceStep {
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
            "it is being deleted; it is made again when it is gone".to_owned()
        }
        SourceRow { suspended: true, .. } => "it is suspended, and does not hold the commit".to_owned(),
        SourceRow {
            trouble: Some(trouble),
            ..
        } => trouble.clone(),
        SourceRow { trouble: None, .. } => format!("it does not hold commit {}", derived.commit),
    })
}
