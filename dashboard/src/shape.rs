//! Shapes: one for each state of a cluster, readable without color.

use muster_api::reasons::{Bucket, Reason};
use serde::Serialize;

/// State of a cluster with a module, as a shape that needs no color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Shape {
    /// Confirmed at the target.
    Ready,
    /// Changing, or being withdrawn from.
    Updating,
    /// Waiting for its turn.
    Waiting,
    /// Stopped until a person decides.
    WaitsForYou,
    /// A revision failed on it.
    Failed,
    /// Held or pinned by a user.
    Held,
    /// Not reachable now.
    Unreachable,
    /// Its state cannot be read.
    Unknown,
    /// The module does not select it.
    NotSelected,
}

impl Shape {
    /// Every shape, in the order of the legend.
    pub const ALL: [Self; 9] = [
        Self::Ready,
        Self::Updating,
        Self::Waiting,
        Self::WaitsForYou,
        Self::Failed,
        Self::Held,
        Self::Unreachable,
        Self::Unknown,
        Self::NotSelected,
    ];

    /// The shape of a reason.
    pub const fn of(reason: Reason) -> Self {
        if matches!(reason, Reason::WithdrawalHeld) {
            return Self::WaitsForYou;
        }
        match reason.bucket() {
            Bucket::Updated => Self::Ready,
            Bucket::Updating | Bucket::Withdrawing => Self::Updating,
            Bucket::Waiting => Self::Waiting,
            Bucket::Failed => Self::Failed,
            Bucket::Held => Self::Held,
            Bucket::Skipped => Self::Unreachable,
            Bucket::Excluded => Self::NotSelected,
        }
    }

    /// Whether the cluster is neither as it should be nor excluded.
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Ready | Self::NotSelected)
    }

    /// Sort key: the most urgent shape first.
    pub const fn urgency(self) -> u8 {
        match self {
            Self::Failed => 0,
            Self::WaitsForYou => 1,
            Self::Unreachable => 2,
            Self::Unknown => 3,
            Self::Held => 4,
            Self::Updating => 5,
            Self::Waiting => 6,
            Self::Ready => 7,
            Self::NotSelected => 8,
        }
    }

    /// Glyph of the shape.
    pub const fn glyph(self) -> char {
        match self {
            Self::Ready => '●',
            Self::Updating => '◐',
            Self::Waiting => '○',
            Self::WaitsForYou => '◆',
            Self::Failed => '✗',
            Self::Held => '⏸',
            Self::Unreachable | Self::Unknown => '?',
            Self::NotSelected => '·',
        }
    }

    /// Name in the legend and in counts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Updating => "updating",
            Self::Waiting => "waiting",
            Self::WaitsForYou => "waits for you",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Unreachable => "skipped",
            Self::Unknown => "unknown",
            Self::NotSelected => "not selected",
        }
    }
}
