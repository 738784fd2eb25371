//! The words of muster: one enum of reasons for clusters, one for objects that are no unit's, one for events.
//!
//! A status in a column, a metric label, an event and a page is the same word.

use std::{fmt, str::FromStr};

/// A text is no word of the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no reason of muster")]
pub struct UnknownReason(pub String);

/// Declares an enum whose variants are its words, with all of them in order.
macro_rules! words {
    ($(#[doc = $doc:expr])* $name:ident { $($(#[doc = $word_doc:expr])* $word:ident,)+ }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $word_doc])* $word,)+
        }

        impl $name {
            /// Every word, in the order of its table.
            pub const ALL: &[Self] = &[$(Self::$word,)+];

            /// The word.
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
    /// Why a unit (a cluster of a Module, a node of a NodeModule) is where it is. Every selected one has exactly one; of several the first in
    /// this order wins.
    Reason {
        /// The Cluster is being deleted, or is gone.
        Deleting,
        /// The Cluster is paused.
        ClusterPaused,
        /// The control plane is not initialized.
        ControlPlaneNotReady,
        /// The Secret with the kubeconfig is not there.
        NoKubeconfig,
        /// The kubeconfig has something that is not allowed.
        KubeconfigRejected,
        /// The API server does not answer.
        Unreachable,
        /// The API server refuses the credentials.
        CredentialsRejected,
        /// The kind Assemblage or the namespace muster-system is not there.
        KindMissing,
        /// Its agent does not report that it can do what the row asks for.
        SyncUnsupported,
        /// More than one minor version at once, and no ClusterClass that plans the steps; or an older version.
        VersionSkew,
        /// Another manager applies the field of the version.
        ManagedElsewhere,
        /// An older ClusterUpgrade selects the Cluster.
        Conflict,
        /// The node vanished after it had begun its change: it keeps its slot.
        LostInChange,
        /// The Node is not Ready, or is being deleted.
        NodeNotReady,
        /// The node does not run Linux, or has no systemd.
        NodeUnsupported,
        /// No agent of the node renews its Lease.
        AgentMissing,
        /// The agent of the node does not report that it can do what the row asks for.
        AgentTooOld,
        /// A person holds the node, on the node itself.
        HeldLocally,
        /// A person holds it, or another manager suspended it.
        Held,
        /// A person pinned it to another revision.
        Pinned,
        /// An object of the name that is needed belongs to another.
        NameConflict,
        /// A binding could not be evaluated.
        BindingFailed,
        /// A withdrawal is stopped by the brake until it is acknowledged.
        WithdrawalHeld,
        /// It is being withdrawn from.
        Withdrawing,
        /// An API server refuses what has to be written for it: its row, or what the row becomes in the cluster.
        WriteFailed,
        /// The revision failed on it.
        Failed,
        /// It did not become ready in time.
        Overdue,
        /// It did not acknowledge its assignment in time.
        NotPickedUp,
        /// It was not ready before it was changed; nobody is blamed.
        AlreadyUnready,
        /// It was confirmed and then failed.
        Relapsed,
        /// It is changing.
        Updating,
        /// It is ready, and not yet for long enough.
        Soaking,
        /// It is going back to the last good revision.
        Reverting,
        /// The target is condemned.
        KnownBad,
        /// The rollout is halted by failures.
        Halted,
        /// The rollout was ended by a person.
        Aborted,
        /// The rollout is paused.
        Paused,
        /// A RolloutWindow that selects it cannot be read, or names a time zone that does not exist: it is closed.
        WindowInvalid,
        /// A RolloutWindow lets no change begin there now.
        WindowClosed,
        /// A module that this one needs is not confirmed there.
        DependencyBehind,
        /// Another NodeModule is changing the node.
        BusyWith,
        /// As many nodes as the NodeBudget allows are changing or not ready.
        BudgetFull,
        /// A Machine of the Cluster is being remediated.
        Remediating,
        /// Cluster API is changing Machines of the Cluster already.
        RollingOut,
        /// What an upgrade must know first cannot be read.
        PreflightUnknown,
        /// A PodDisruptionBudget there allows no disruption: a drain would not end.
        DisruptionsBlocked,
        /// A webhook there that must answer has no endpoint.
        WebhookUnavailable,
        /// The source cannot be read.
        SourceNotReady,
        /// The version is not signed by a key that is trusted.
        VerificationFailed,
        /// The stage waits for an approval.
        WaitingApproval,
        /// The stage waits for a gate.
        WaitingGate,
        /// An earlier stage is not passed.
        WaitingStage,
        /// Clusters of another domain are changing.
        WaitingDomain,
        /// The batch before is not done.
        WaitingBatch,
        /// As many clusters as allowed are changing.
        WaitingTurn,
        /// It has a newer version than the target: there is nothing to do.
        AlreadyNewer,
        /// It is confirmed at the target.
        UpToDate,
        /// No stage selects it.
        Excluded,
    }
}

words! {
    /// Why an object that is no cluster's is as it is: modules, assemblages, revisions as a whole.
    ObjectReason {
        /// The module selects no cluster.
        NoClusters,
        /// The empty selector selects every cluster.
        SelectsAll,
        /// The tag names another commit than the pinned one.
        TagMoved,
        /// A row would make its assemblage larger than allowed.
        TooLarge,
        /// A Secret for git cannot be brought to the cluster.
        DistributionRefused,
        /// A field or a control is set whose behaviour is not built.
        Unsupported,
        /// A control of a person cannot be read: nothing moves until it is mended.
        InvalidControl,
        /// A row that its origin never held.
        Unclaimed,
        /// Flux runs in a cluster where muster was told to carry out.
        FluxPresent,
        /// Modules depend on each other in a circle.
        DependencyCycle,
        /// A module that is depended on does not exist.
        UnknownDependency,
        /// The spec says something that cannot be done.
        InvalidSpec,
        /// Two NodeModules write one path, or one below the other, on the same node.
        PathConflict,
        /// The NodeModule selects no node.
        NoNodes,
        /// The object is suspended.
        Suspended,
        /// The object is being deleted and waits for its withdrawal.
        Terminating,
        /// All syncs are ready.
        Succeeded,
        /// Some syncs are on the way.
        Progressing,
        /// Some syncs failed.
        SyncsFailed,
        /// The object was just made and nothing was seen yet.
        Pending,
        /// The cluster answers.
        Answering,
        /// The kubeconfig leads to another cluster than before.
        IdentityChanged,
        /// The engine's memory is being rebuilt from rows.
        MemoryRebuilt,
        /// An object is declared with other values by another Kustomization, which holds it. A failure of class Unit.
        SharedObject,
        /// The agent of a cluster is older than the controller.
        OlderAgent,
        /// No cluster is confirmed at the target: all that are selected are skipped, held, pinned or of no stage.
        AllSkipped,
    }
}

words! {
    /// What happened, as the reason of an event; only on change.
    EventReason {
        /// A revision became the target.
        RolloutStarted,
        /// A cluster was confirmed at the target.
        ClusterUpdated,
        /// A revision failed on a cluster.
        ClusterFailed,
        /// Nothing new is started because of failures.
        RolloutHalted,
        /// A person ended the rollout.
        RolloutAborted,
        /// A revision failed on more clusters than allowed.
        RevisionCondemned,
        /// Every eligible selected cluster is confirmed.
        RolloutFinished,
        /// A withdrawal waits for its acknowledgement.
        WithdrawalHeld,
        /// A control of a person took effect.
        ControlApplied,
        /// A control of a person is about nothing that is there, and had no effect.
        ControlWithoutEffect,
        /// A control was written by a manager whose fields Flux takes over.
        ControlAtRisk,
        /// A tag names another commit than the pinned one.
        TagMoved,
        /// The source cannot be read.
        SourceNotReady,
        /// The version is not signed by a key that is trusted.
        VerificationFailed,
        /// A spec cannot be acted on.
        InvalidSpec,
        /// A cluster was withdrawn from.
        ClusterWithdrawn,
        /// A foreign object has the name that is needed.
        NameConflict,
        /// A gate of a stage does not hold, or cannot be told.
        GateNotPassed,
        /// The API server of the management cluster refuses the row of a cluster.
        WriteFailed,
        /// A change of a node begins.
        NodeChanging,
        /// A node was confirmed at the target.
        NodeUpdated,
        /// A revision failed on a node.
        NodeFailed,
        /// A node vanished in its change.
        NodeLost,
        /// A node was withdrawn from.
        NodeWithdrawn,
    }
}

/// Where a cluster is counted in `status.summary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// It cannot be changed now.
    Skipped,
    /// A person holds or pinned it.
    Held,
    /// It is being withdrawn from, or that is stopped.
    Withdrawing,
    /// A revision failed on it.
    Failed,
    /// It is changing.
    Updating,
    /// Its turn has not come.
    Waiting,
    /// It is confirmed at the target.
    Updated,
    /// No stage selects it.
    Excluded,
}

/// The reasons by their code. Codes are written into records of decisions, and stay: new reasons are appended.
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
    /// The precedence, by the order of the table: the smallest wins.
    pub const fn rank(self) -> u8 {
        self as u8
    }

    /// The number that stands for it in records, in every version.
    pub fn code(self) -> u8 {
        let code = CODES.iter().position(|reason| *reason == self);
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }

    /// The reason of a code.
    pub fn of_code(code: u8) -> Option<Self> {
        CODES.get(usize::from(code)).copied()
    }

    /// Whether the cluster may not be touched while this holds (rule 4 of the engine).
    pub const fn is_ineligible(self) -> bool {
        self.rank() <= Self::BindingFailed.rank()
    }

    /// Where a cluster with this reason is counted.
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
