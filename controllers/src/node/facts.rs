//! What is known of a NodeModule and its nodes, as plain data.

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

/// The label of nodes of the control plane.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The label of the operating system.
const OS: &str = "kubernetes.io/os";
/// The reason of a report of a node that could not restore what it had.
pub const RESTORE_FAILED: &str = "RestoreFailed";
/// The greatest token of a report that is believed without a row that has it: one that left no room for greater ones would stop the
/// NodeModule for good.
const BELIEVED: u64 = MAX_TOKEN / 2;

/// What the condition `fleet.muster.dev/NodeConfigured` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// True, False or Unknown.
    pub status: Standing,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

/// The status of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All that the node is to have is confirmed.
    True,
    /// Some of it failed.
    False,
    /// It is changing, or cannot be said.
    Unknown,
}

impl Standing {
    /// As Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A Node, as far as a rollout needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations of muster.
    pub annotations: BTreeMap<String, String>,
    /// Its condition Ready is True.
    pub ready: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// The keys of its taints.
    pub taints: BTreeSet<String>,
    /// What it says of its NodeModules.
    pub configured: Option<Configured>,
}

impl NodeFacts {
    /// Of a Node.
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

    /// It is one of the control plane.
    pub fn is_control_plane(&self) -> bool {
        self.labels.contains_key(CONTROL_PLANE)
    }

    /// It runs Linux: the kubelet says so in a label.
    pub fn runs_linux(&self) -> bool {
        self.labels.get(OS).is_some_and(|os| os == "linux")
    }
}

fn configured(node: &Node) -> Option<Configured> {
    let status = node.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let said = conditions.find(|condition| condition.type_ == NODE_CONFIGURED)?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(Configured {
        status: match said.status.as_str() {
            "True" => Standing::True,
            "False" => Standing::False,
            _ => Standing::Unknown,
        },
        reason: text(&said.reason),
        message: text(&said.message),
    })
}

/// A NodeAssemblage, as far as a rollout needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct AssemblageFacts {
    /// Its name, which is that of its node.
    pub name: String,
    /// Of which Node it is. None: of whichever has the name.
    pub owner: Option<String>,
    /// What a write of a row tests: no other row was changed meanwhile.
    pub version: Option<String>,
    /// It is being deleted: nothing is written to it any more.
    pub deleting: bool,
    /// What the agent reports of itself.
    pub agent: Option<NodeAgent>,
    /// Its rows.
    pub rows: Vec<Arc<RowFacts>>,
    /// Reports about NodeModules that have no row here.
    pub left: Vec<NodeRowState>,
}

impl AssemblageFacts {
    /// Of a NodeAssemblage.
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

    /// The first NodeModule but this one whose row is not carried out yet: a node has one change at a time.
    pub fn busy_with(&self, module: &str) -> Option<&str> {
        let mut others = self.rows.iter().filter(|row| row.row.name != module);
        others
            .find(|row| !row.is_settled())
            .map(|row| row.row.name.as_str())
    }
}

/// A row, and what the agent reports of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// The row.
    pub row: NodeRow,
    /// The last report, be it about this row or one before it.
    pub state: Option<NodeRowState>,
}

/// What a row asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To carry a revision.
    Carry,
    /// To leave what is there, or to give back what was there before.
    Withdraw(NodeOnDelete),
    /// Nothing: it holds its token.
    Nothing,
}

impl RowFacts {
    /// What the row asks for.
    pub const fn asks(&self) -> Asks {
        match (self.row.withdraw, &self.row.digest) {
            (Some(how), _) => Asks::Withdraw(how),
            (None, Some(_)) => Asks::Carry,
            (None, None) => Asks::Nothing,
        }
    }

    /// The report, if it is about this very row.
    pub fn report(&self) -> Option<&NodeRowState> {
        let about = |state: &&NodeRowState| state.token == self.row.token && state.digest == self.row.digest;
        self.state.as_ref().filter(about)
    }

    /// The agent has begun with the row, or ended it: what may have happened to the node is of this row's making.
    pub fn is_acknowledged(&self) -> bool {
        self.report().is_some()
    }

    /// Nothing of the row is under way: it is carried out, or has failed with the node as it was before.
    pub fn is_settled(&self) -> bool {
        let phase = self.report().map(|report| report.state);
        match self.asks() {
            Asks::Carry => matches!(phase, Some(NodePhase::Confirmed)) || self.is_restored(),
            Asks::Withdraw(_) => phase == Some(NodePhase::Withdrawn),
            Asks::Nothing => true,
        }
    }

    /// The change failed, and the agent has restored what the node had.
    fn is_restored(&self) -> bool {
        self.report().is_some_and(|report| {
            let stuck = report.reason.as_deref() == Some(RESTORE_FAILED);
            report.state == NodePhase::Failed && report.terminal && !stuck
        })
    }

    /// The row as the engine has it.
    pub fn assigned(&self) -> engine::Row {
        let digest = self.row.digest.as_deref().and_then(engine::Digest::parse);
        let content = match (self.asks(), digest) {
            (Asks::Carry, Some(digest)) => engine::Content::Carries {
                revision: self.row.revision.as_deref().and_then(engine::Revision::parse),
                digest,
            },
            (Asks::Withdraw(_), _) => engine::Content::Withdraw,
            (Asks::Carry | Asks::Nothing, _) => engine::Content::Nothing,
        };
        engine::Row {
            token: engine::Token(self.row.token),
            content,
        }
    }

    /// The report as the engine has it.
    pub fn observed(&self) -> Option<engine::Echo> {
        self.state.as_ref().map(|state| echo(self.row.token, state))
    }
}

/// A report as the engine has it, where the row has token `assigned`.
pub fn echo(assigned: u64, state: &NodeRowState) -> engine::Echo {
    let believed = assigned.max(BELIEVED);
    let message = state.message.as_deref().or(state.reason.as_deref());
    engine::Echo {
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

/// A revision in full.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The hash of the content.
    pub revision: String,
    /// What nodes get.
    pub content: Arc<NodeContent>,
}

/// A NodeRevision on record.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionFacts {
    /// The name of the object.
    pub name: String,
    /// Its uid: a deletion means this one.
    pub uid: String,
    /// The NodeModule.
    pub module: String,
    /// Its uid: one that was made again has revisions of its own.
    pub module_uid: Option<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// What it is.
    pub definition: Definition,
    /// Its story, as far as that is on record.
    pub status: NodeRevisionStatus,
}

impl RevisionFacts {
    /// Of a NodeRevision.
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

/// What may not be done to a node now, in one word and for people.
pub type Obstacle = (Reason, String);
