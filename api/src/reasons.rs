//! muster's reasons: one enum for clusters and nodes, one for other objects, one for events.
//!
//! Columns, metric labels, events and documentation use the same name for a reason.

use std::{fmt, str::FromStr};

/// A text that is not the name of a reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a known reason")]
pub struct UnknownReason(pub String);

/// Declares an enum whose variants are named like the reasons, and lists them in order.
macro_rules! words {
    ($(#[doc = $doc:expr])* $name:ident { $($(#[doc = $word_doc:expr])* $word:ident,)+ }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $word_doc])* $word,)+
        }

        impl $name {
            /// All reasons, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$word,)+];

            /// The reason's name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownReason;

            fn from_str(text: &str) -> Result<Self, UnknownReason> {
                let found = Self::ALL.iter().find(|word| word.as_str() == text);
                found.copied().ok_or_else(|| UnknownReason(text.to_owned()))
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.as_str().to_owned()
            }
        }
    };
}

words! {
    /// Why a unit (a cluster of a Module, a node of a NodeModule) is in its current state. Every selected unit has
    /// exactly one reason; if several apply, the first one in this order wins.
    Reason {
        /// The Cluster is being deleted, or is gone.
        Deleting,
        /// The Cluster is paused.
        ClusterPaused,
        /// The Cluster's control plane is not initialized.
        ControlPlaneNotReady,
        /// The Secret with the kubeconfig does not exist.
        NoKubeconfig,
        /// The kubeconfig contains something that is not allowed.
        KubeconfigRejected,
        /// The API server cannot be reached.
        Unreachable,
        /// The API server rejects the credentials.
        CredentialsRejected,
        /// The kind Assemblage or the namespace muster-system does not exist.
        KindMissing,
        /// The cluster's agent does not report a feature that the row needs.
        SyncUnsupported,
        /// The upgrade skips a minor version and no ClusterClass plans the steps, or the version is older than the
        /// current one.
        VersionSkew,
        /// Another field manager sets the version field.
        ManagedElsewhere,
        /// An older ClusterUpgrade also selects the Cluster.
        Conflict,
        /// The node disappeared after its change started; it keeps its slot.
        LostInChange,
        /// The Node is not Ready, or is being deleted.
        NodeNotReady,
        /// The node does not run Linux, or has no systemd.
        NodeUnsupported,
        /// No agent renews the node's Lease.
        AgentMissing,
        /// The node's agent does not report a feature that the row needs.
        AgentTooOld,
        /// The node is held on the node itself.
        HeldLocally,
        /// A user holds the unit, or another manager suspended it.
        Held,
        /// A user pinned the unit to another revision.
        Pinned,
        /// An object with the required name belongs to another owner.
        NameConflict,
        /// A binding could not be evaluated.
        BindingFailed,
        /// A withdrawal is blocked by the brake until it is acknowledged.
        WithdrawalHeld,
        /// The module is being withdrawn from the unit.
        Withdrawing,
        /// An API server rejects what must be written for the unit: its row, or the objects that the row generates in
        /// the cluster.
        WriteFailed,
        /// The revision failed on the unit.
        Failed,
        /// The unit did not become ready in time.
        Overdue,
        /// The unit did not acknowledge its assignment in time.
        NotPickedUp,
        /// The unit was already not ready before the change; the revision is not blamed.
        AlreadyUnready,
        /// The unit was confirmed, and failed later.
        Relapsed,
        /// The unit is changing.
        Updating,
        /// The unit is ready, but not yet for long enough.
        Soaking,
        /// The unit is reverting to the last good revision.
        Reverting,
        /// The target is condemned.
        KnownBad,
        /// The rollout is halted by failures.
        Halted,
        /// A user aborted the rollout.
        Aborted,
        /// The rollout is paused.
        Paused,
        /// A RolloutWindow that selects the unit is invalid or names an unknown time zone; it counts as closed.
        WindowInvalid,
        /// A RolloutWindow does not allow changes of the unit to start now.
        WindowClosed,
        /// A module that this one depends on is not confirmed on the unit.
        DependencyBehind,
        /// Another NodeModule is changing the node.
        BusyWith,
        /// The limit of the NodeBudget is reached: no more nodes may be changing or not ready.
        BudgetFull,
        /// A Machine of the Cluster is being remediated.
        Remediating,
        /// Cluster API is already changing Machines of the Cluster.
        RollingOut,
        /// Information that the preflight checks of an upgrade need cannot be read.
        PreflightUnknown,
        /// A PodDisruptionBudget in the Cluster allows no disruption: a drain would not finish.
        DisruptionsBlocked,
        /// A webhook in the Cluster with failurePolicy Fail has no endpoint.
        WebhookUnavailable,
        /// The source cannot be read.
        SourceNotReady,
        /// The version is not signed by a trusted key.
        VerificationFailed,
        /// The stage waits for approval.
        WaitingApproval,
        /// The stage waits for a gate.
        WaitingGate,
        /// An earlier stage is not complete.
        WaitingStage,
        /// Clusters of another domain are changing.
        WaitingDomain,
        /// The previous batch is not complete.
        WaitingBatch,
        /// The maximum number of clusters is changing.
        WaitingTurn,
        /// The Cluster has a newer version than the target: nothing to do.
        AlreadyNewer,
        /// The unit is confirmed at the target revision.
        UpToDate,
        /// No stage selects the unit.
        Excluded,
    }
}

words! {
    /// Why an object other than a cluster or node is in its current state: modules, assemblages, revisions.
    ObjectReason {
        /// The module selects no cluster.
        NoClusters,
        /// The empty selector selects every cluster.
        SelectsAll,
        /// The tag now points to a commit other than the pinned one.
        TagMoved,
        /// A row would exceed the maximum size of its assemblage.
        TooLarge,
        /// A git Secret cannot be distributed to the cluster.
        DistributionRefused,
        /// A field or a control is set that is not implemented.
        Unsupported,
        /// A user's control cannot be parsed: the rollout is stopped until it is fixed.
        InvalidControl,
        /// A row that its origin never contained.
        Unclaimed,
        /// Flux runs in a cluster where muster is configured to apply.
        FluxPresent,
        /// The dependencies of modules form a cycle.
        DependencyCycle,
        /// A module that is listed as a dependency does not exist.
        UnknownDependency,
        /// The spec is invalid or cannot be applied.
        InvalidSpec,
        /// Two NodeModules write the same path, or one below the other, on the same node.
        PathConflict,
        /// The NodeModule selects no node.
        NoNodes,
        /// The object is suspended.
        Suspended,
        /// The object is being deleted and waits for its withdrawal to finish.
        Terminating,
        /// All syncs are ready.
        Succeeded,
        /// Some syncs are in progress.
        Progressing,
        /// Some syncs failed.
        SyncsFailed,
        /// The object was just created and nothing has been observed yet.
        Pending,
        /// The cluster is reachable.
        Answering,
        /// The kubeconfig connects to a different cluster than before.
        IdentityChanged,
        /// The engine's state is being rebuilt from rows.
        MemoryRebuilt,
        /// Another Kustomization owns an object and declares it with other values. A failure of class Unit.
        SharedObject,
        /// The agent of a cluster is older than the controller.
        OlderAgent,
        /// No cluster is confirmed at the target: all selected clusters are skipped, held, pinned or in no stage.
        AllSkipped,
    }
}

words! {
    /// What happened, as the reason of an event; recorded only on change.
    EventReason {
        /// A revision became the target.
        RolloutStarted,
        /// A cluster was confirmed at the target revision.
        ClusterUpdated,
        /// A revision failed on a cluster.
        ClusterFailed,
        /// The rollout was halted because of failures.
        RolloutHalted,
        /// A user aborted the rollout.
        RolloutAborted,
        /// A revision failed on more clusters than allowed and was condemned.
        RevisionCondemned,
        /// All eligible selected clusters are confirmed.
        RolloutFinished,
        /// A withdrawal waits for acknowledgement.
        WithdrawalHeld,
        /// A user's control took effect.
        ControlApplied,
        /// A user's control refers to something that does not exist, and had no effect.
        ControlWithoutEffect,
        /// A control was set by a field manager whose fields Flux takes over.
        ControlAtRisk,
        /// A tag now points to a commit other than the pinned one.
        TagMoved,
        /// The source cannot be read.
        SourceNotReady,
        /// The version is not signed by a trusted key.
        VerificationFailed,
        /// A spec is invalid or cannot be applied.
        InvalidSpec,
        /// A module was withdrawn from a cluster.
        ClusterWithdrawn,
        /// An object of another owner has the required name.
        NameConflict,
        /// A gate of a stage fails or is inconclusive.
        GateNotPassed,
        /// The API server of the management cluster rejects the row of a cluster.
        WriteFailed,
        /// A node starts to change.
        NodeChanging,
        /// A node was confirmed at the target revision.
        NodeUpdated,
        /// A revision failed on a node.
        NodeFailed,
        /// A node disappeared during its change.
        NodeLost,
        /// A NodeModule was withdrawn from a node.
        NodeWithdrawn,
    }
}

/// The counter in `status.summary` that includes a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// The cluster cannot be changed now.
    Skipped,
    /// A user holds or pinned the cluster.
    Held,
    /// The module is being withdrawn from the cluster, or the withdrawal is blocked.
    Withdrawing,
    /// A revision failed on the cluster.
    Failed,
    /// The cluster is changing.
    Updating,
    /// The cluster has not started yet.
    Waiting,
    /// The cluster is confirmed at the target revision.
    Updated,
    /// No stage selects the cluster.
    Excluded,
}

/// The reasons by code. Codes are stored in decision records and never change: new reasons are appended.
const CODES: &[Reason] = &[
    Reason::Deleting,
    Reason::ClusterPaused,
    Reason::ControlPlaneNotReady,
    Reason::NoKubeconfig,
    Reason::KubeconfigRejected,
    Reason::Unreachable,
    Reason::CredentialsRejected,
    Reason::KindMissing,
    Reason::Held,
    Reason::Pinned,
    Reason::NameConflict,
    Reason::BindingFailed,
    Reason::WithdrawalHeld,
    Reason::Withdrawing,
    Reason::Failed,
    Reason::Overdue,
    Reason::NotPickedUp,
    Reason::AlreadyUnready,
    Reason::Relapsed,
    Reason::Updating,
    Reason::Soaking,
    Reason::Reverting,
    Reason::KnownBad,
    Reason::Halted,
    Reason::Aborted,
    Reason::Paused,
    Reason::DependencyBehind,
    Reason::SourceNotReady,
    Reason::WaitingApproval,
    Reason::WaitingGate,
    Reason::WaitingStage,
    Reason::WaitingDomain,
    Reason::WaitingBatch,
    Reason::WaitingTurn,
    Reason::UpToDate,
    Reason::Excluded,
    Reason::WriteFailed,
    Reason::SyncUnsupported,
    Reason::WindowInvalid,
    Reason::WindowClosed,
    Reason::LostInChange,
    Reason::NodeNotReady,
    Reason::NodeUnsupported,
    Reason::AgentMissing,
    Reason::AgentTooOld,
    Reason::HeldLocally,
    Reason::BusyWith,
    Reason::BudgetFull,
    Reason::VersionSkew,
    Reason::ManagedElsewhere,
    Reason::Conflict,
    Reason::Remediating,
    Reason::PreflightUnknown,
    Reason::DisruptionsBlocked,
    Reason::WebhookUnavailable,
    Reason::AlreadyNewer,
    Reason::RollingOut,
    Reason::VerificationFailed,
];

impl Reason {
    /// Position in the table, which is the order of precedence: the lowest rank wins.
    pub const fn rank(self) -> u8 {
        self as u8
    }

    /// The numeric code for decision records, the same in every version.
    pub fn code(self) -> u8 {
        let code = CODES.iter().position(|reason| *reason == self);
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }

    /// The reason with the given code.
    pub fn of_code(code: u8) -> Option<Self> {
        CODES.get(usize::from(code)).copied()
    }

    /// Whether the cluster must not be touched while this reason applies (rule 4 of the engine).
    pub const fn is_ineligible(self) -> bool {
        self.rank() <= Self::BindingFailed.rank()
    }

    /// The counter that includes a cluster with this reason.
    pub const fn bucket(self) -> Bucket {
        match self {
            Self::Deleting
            | Self::ClusterPaused
            | Self::ControlPlaneNotReady
            | Self::NoKubeconfig
            | Self::KubeconfigRejected
            | Self::Unreachable
            | Self::CredentialsRejected
            | Self::KindMissing
            | Self::SyncUnsupported
            | Self::VersionSkew
            | Self::ManagedElsewhere
            | Self::Conflict
            | Self::LostInChange
            | Self::NodeNotReady
            | Self::NodeUnsupported
            | Self::AgentMissing
            | Self::AgentTooOld
            | Self::NameConflict
            | Self::BindingFailed => Bucket::Skipped,
            Self::Held | Self::HeldLocally | Self::Pinned => Bucket::Held,
            Self::WithdrawalHeld | Self::Withdrawing => Bucket::Withdrawing,
            Self::WriteFailed | Self::Failed | Self::Overdue | Self::NotPickedUp | Self::Relapsed => {
                Bucket::Failed
            }
            Self::AlreadyUnready | Self::Updating | Self::Soaking | Self::Reverting => Bucket::Updating,
            Self::KnownBad
            | Self::Halted
            | Self::Aborted
            | Self::Paused
            | Self::WindowInvalid
            | Self::WindowClosed
            | Self::DependencyBehind
            | Self::BusyWith
            | Self::BudgetFull
            | Self::Remediating
            | Self::RollingOut
            | Self::PreflightUnknown
            | Self::DisruptionsBlocked
            | Self::WebhookUnavailable
            | Self::SourceNotReady
            | Self::VerificationFailed
            | Self::WaitingApproval
            | Self::WaitingGate
            | Self::WaitingStage
            | Self::WaitingDomain
            | Self::WaitingBatch
            | Self::WaitingTurn => Bucket::Waiting,
            Self::AlreadyNewer | Self::UpToDate => Bucket::Updated,
            Self::Excluded => Bucket::Excluded,
        }
    }
}
