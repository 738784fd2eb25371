//! The facts of a NodeModule and its nodes, as plain data.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use muster_api::{
    assemblage::FailureClass,
    conditions::NODE_CONFIGURED,
    node::{
        NodeAssemblage, NodeRevision,
        assemblage::{NodeAgent, NodePhase, NodeRow, NodeRowState},
        content::NodeContent,
        module::NodeOnDelete,
        revision::NodeRevisionStatus,
    },
    reasons::Reason,
    schema::MAX_TOKEN,
};
use muster_rollout as engine;

/// The label of control-plane nodes.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The label of the operating system.
const OS: &str = "kubernetes.io/os";
/// The reason of a report of a node that could not restore its previous files.
pub const RESTORE_FAILED: &str = "RestoreFailed";
/// The greatest token of a report that is accepted without a row that has it: a token that leaves no room for greater
/// ones would stop the NodeModule permanently.
const BELIEVED: u64 = MAX_TOKEN / 2;

/// The condition `fleet.muster.dev/NodeConfigured`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// The status of the condition.
    pub status: ConfiguredStatus,
    /// The reason of the condition.
    pub reason: String,
    /// The message of the condition.
    pub message: String,
}

/// The status of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfiguredStatus {
    /// All desired content of the node is confirmed.
    True,
    /// Some of it failed.
    False,
    /// The node is changing, or its state is unknown.
    Unknown,
}

impl ConfiguredStatus {
    /// The status as Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A Node: the fields that a rollout needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The name of the Node.
    pub name: String,
    /// The uid of the Node.
    pub uid: String,
    /// The labels of the Node.
    pub labels: BTreeMap<String, String>,
    /// The Node's annotations of muster.
    pub annotations: BTreeMap<String, String>,
    /// Whether the condition Ready is True.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The keys of its taints.
    pub taints: BTreeSet<String>,
    /// Its condition about its NodeModules.
    pub configured: Option<Configured>,
}

impl NodeFacts {
    /// The facts of a Node.
    pub fn of(node: &Node) -> Self {
        let conditions = node
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let ready = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
            condition.type_ == "Ready" && condition.status == "True"
        };
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let ours = |(key, _): &(&String, &String)| key.starts_with("fleet.muster.dev/");
        Self {
            name: node.name_any(),
            uid: node.uid().unwrap_or_default(),
            labels: node.labels().clone(),
            annotations: node
                .annotations()
                .iter()
                .filter(ours)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            ready: conditions.into_iter().any(ready),
            deleting: node.metadata.deletion_timestamp.is_some(),
            taints: taints.map(|taint| taint.key.clone()).collect(),
            configured: configured(node),
        }
    }

    /// Whether it is a control-plane node.
    pub fn is_control_plane(&self) -> bool {
        self.labels.contains_key(CONTROL_PLANE)
    }

    /// Whether it runs Linux, according to the label of its kubelet.
    pub fn runs_linux(&self) -> bool {
        self.labels.get(OS).is_some_and(|os| os == "linux")
    }
}

fn configured(node: &Node) -> Option<Configured> {
    let status = node.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == NODE_CONFIGURED)?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(Configured {
        status: match found.status.as_str() {
            "True" => ConfiguredStatus::True,
            "False" => ConfiguredStatus::False,
            _ => ConfiguredStatus::Unknown,
        },
        reason: text(&found.reason),
        message: text(&found.message),
    })
}

/// A NodeAssemblage: the fields that a rollout needs.
#[derive(Clone, Debug, PartialEq)]
pub struct AssemblageFacts {
    /// Its name, which is that of its node.
    pub name: String,
    /// The uid of the Node that it belongs to. `None`: it belongs to any Node with the name.
    pub owner: Option<String>,
    /// The precondition of a write of a row: no other row was changed meanwhile.
    pub version: Option<String>,
    /// It is being deleted: nothing is written to it any more.
    pub deleting: bool,
    /// What the agent reports about itself.
    pub agent: Option<NodeAgent>,
    /// The rows of the spec.
    pub rows: Vec<Arc<RowFacts>>,
    /// Reports about NodeModules that have no row here.
    pub left: Vec<NodeRowState>,
}

impl AssemblageFacts {
    /// The facts of a NodeAssemblage.
    pub fn of(assemblage: &NodeAssemblage) -> Self {
        let status = assemblage.status.clone().unwrap_or_default();
        let state = |name: &str| status.rows.iter().find(|state| state.name == name).cloned();
        let rows = assemblage.spec.rows.iter().map(|row| {
            Arc::new(RowFacts {
                state: state(&row.name),
                row: row.clone(),
            })
        });
        let rows: Vec<_> = rows.collect();
        let is_left = |state: &&NodeRowState| !rows.iter().any(|row| row.row.name == state.name);
        let owners = assemblage.owner_references().iter();
        let mut nodes = owners.filter(|owner| owner.kind == "Node" && owner.api_version == "v1");
        Self {
            name: assemblage.name_any(),
            owner: nodes.next().map(|owner| owner.uid.clone()),
            version: assemblage.resource_version(),
            deleting: assemblage.metadata.deletion_timestamp.is_some(),
            left: status.rows.iter().filter(is_left).cloned().collect(),
            agent: status.agent,
            rows,
        }
    }

    /// The row of a NodeModule.
    pub fn of_module(&self, module: &str) -> Option<&Arc<RowFacts>> {
        self.rows.iter().find(|row| row.row.name == module)
    }

    /// The first other NodeModule whose row is not settled yet: a node has one change at a time.
    pub fn busy_with(&self, module: &str) -> Option<&str> {
        let mut others = self.rows.iter().filter(|row| row.row.name != module);
        others
            .find(|row| !row.is_settled())
            .map(|row| row.row.name.as_str())
    }
}

/// A row, and the agent's report about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// The row of the spec.
    pub row: NodeRow,
    /// The last report, about this row or a previous one.
    pub state: Option<NodeRowState>,
}

/// What a row requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To have a revision.
    Carry,
    /// To leave the current files, or to restore the previous ones.
    Withdraw(NodeOnDelete),
    /// Nothing: it only keeps its token.
    Nothing,
}

impl RowFacts {
    /// What the row requests.
    pub const fn asks(&self) -> Asks {
        match (self.row.withdraw, &self.row.digest) {
            (Some(how), _) => Asks::Withdraw(how),
            (None, Some(_)) => Asks::Carry,
            (None, None) => Asks::Nothing,
        }
    }

    /// The report, if it is about exactly this row.
    pub fn report(&self) -> Option<&NodeRowState> {
        let about = |state: &&NodeRowState| state.token == self.row.token && state.digest == self.row.digest;
        self.state.as_ref().filter(about)
    }

    /// The agent has started or finished the row: changes of the node may be due to this row.
    pub fn is_acknowledged(&self) -> bool {
        self.report().is_some()
    }

    /// The row is not in progress: it is applied, or has failed with the node in its previous state.
    pub fn is_settled(&self) -> bool {
        let phase = self.report().map(|report| report.state);
        match self.asks() {
            Asks::Carry => matches!(phase, Some(NodePhase::Confirmed)) || self.is_restored(),
            Asks::Withdraw(_) => phase == Some(NodePhase::Withdrawn),
            Asks::Nothing => true,
        }
    }

    /// The change failed, and the agent has restored the previous files.
    fn is_restored(&self) -> bool {
        self.report().is_some_and(|report| {
            let stuck = report.reason.as_deref() == Some(RESTORE_FAILED);
            report.state == NodePhase::Failed && report.terminal && !stuck
        })
    }

    /// The row in the engine's form.
    pub fn assigned(&self) -> engine::Assignment {
        let digest = self.row.digest.as_deref().and_then(engine::Digest::parse);
        let content = match (self.asks(), digest) {
            (Asks::Carry, Some(digest)) => engine::Content::Carries {
                revision: self.row.revision.as_deref().and_then(engine::Revision::parse),
                digest,
            },
            (Asks::Withdraw(_), _) => engine::Content::Withdraw,
            (Asks::Carry | Asks::Nothing, _) => engine::Content::Nothing,
        };
        engine::Assignment {
            token: engine::Token(self.row.token),
            content,
        }
    }

    /// The report in the engine's form.
    pub fn observed(&self) -> Option<engine::Report> {
        self.state.as_ref().map(|state| report(self.row.token, state))
    }
}

/// A report in the engine's form, if the row has token `assigned`.
pub fn report(assigned: u64, state: &NodeRowState) -> engine::Report {
    let believed = assigned.max(BELIEVED);
    let message = state.message.as_deref().or(state.reason.as_deref());
    engine::Report {
        digest: state.digest.as_deref().and_then(engine::Digest::parse),
        token: engine::Token(if state.token <= believed { state.token } else { 0 }),
        state: match state.state {
            NodePhase::Confirmed => engine::State::Succeeded,
            NodePhase::Withdrawn => engine::State::Withdrawn,
            NodePhase::Updating | NodePhase::Withdrawing => engine::State::Updating,
            NodePhase::Failed => engine::State::Failed {
                class: match state.class {
                    Some(FailureClass::Revision) | None => engine::Class::Revision,
                    Some(FailureClass::Unit) => engine::Class::Unit,
                    Some(FailureClass::Infra) => engine::Class::Infra,
                },
                terminal: state.terminal,
                message: message.unwrap_or("no message").into(),
            },
        },
    }
}

/// A revision with its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The hash of the content.
    pub revision: String,
    /// The content for nodes.
    pub content: Arc<NodeContent>,
}

/// A recorded NodeRevision.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionFacts {
    /// The name of the object.
    pub name: String,
    /// The uid of the object, as the precondition of a deletion.
    pub uid: String,
    /// The name of the NodeModule.
    pub module: String,
    /// The uid of the NodeModule: a re-created one has revisions of its own.
    pub module_uid: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The revision and its content.
    pub definition: Definition,
    /// Its status, as recorded.
    pub status: NodeRevisionStatus,
}

impl RevisionFacts {
    /// The facts of a NodeRevision.
    pub fn of(revision: &NodeRevision) -> Self {
        Self {
            name: revision.name_any(),
            uid: revision.uid().unwrap_or_default(),
            module: revision.spec.module.clone(),
            module_uid: revision.spec.uid.clone(),
            created: revision.creation_timestamp().map(|created| created.0),
            definition: Definition {
                revision: revision.spec.revision.clone(),
                content: Arc::new(revision.spec.content.clone()),
            },
            status: revision.status.clone().unwrap_or_default(),
        }
    }
}

/// Why a node must not be changed now: the reason, and a message for people.
pub type Obstacle = (Reason, String);
