//! View models of muster, shared by the command line and the web pages, and the pages that show them in a browser.
//!
//! ```text
//!   Modules, BootstrapModules ─┐
//!   Proxy-, RemoteAssemblages ─┼─► Fleet ─► Matrix   (versions by cluster, at a glance)  ─┐
//!   Clusters ──────────────────┘        ├─► Tree     (problems one by one, the rest folded) │
//!                                       ├─► Why      (reasons, down to the failing object)  ├─► page (markup) ─► server (HTTP)
//!                                       └─► Overview (what needs attention)                 │
//!   ModuleRevisions ─────────────► History             (each revision, and rollback targets)│
//!   Events ──────────────────────► Activity            (events of the fleet)               ─┘
//!   NodeModules, Nodes, … ──────► Fleet               (the same views, of the nodes of a cluster)
//!   ZoneRollout ─────────────────► ZonesView, Why      (the zones of a group and their pods)
//!   UpdatePlan ──────────────────► UpdateView, Why     (machines that are updated in place)
//! ```
//!
//! Invariant: a view is a pure function of the objects read; nothing here reads or writes a cluster, and no route of
//! the server writes. Invariant: the reason of a cell is the reason in the status, from the same enum.

mod assignment;
mod chain;
mod cluster;
mod condition;
mod events;
mod filter;
mod fleet;
mod group;
mod history;
mod kind;
mod lane;
mod location;
mod machines;
mod matrix;
mod node;
mod nodes;
mod objects;
mod overview;
pub mod page;
mod reasons;
mod recall;
mod rolling;
mod selector;
pub mod server;
mod shape;
mod snapshot;
mod timeline;
mod tree;
mod upgrades;
mod verbs;
mod view;
mod why;
mod withdrawal;
mod words;
mod zones;

pub use assignment::{Assignment, ObjectName, ReportView, RowView};
pub use chain::Check;
pub use cluster::{Carried, ClusterView};
pub use condition::ConditionView;
pub use events::FleetEvent;
pub use filter::{Filter, LabelsError};
pub use group::{fold_names, listed};
pub use history::{FailureEvidence, First, History, NoSuchRevision, NoWayBack, Past, RevisionOutcome};
pub use kind::Kind;
pub use lane::{Lane, StageCondition, StageState, StageView};
pub use location::{ModuleRef, PageLocation};
pub use machines::{MachineView, UpdateView, why_machine};
pub use matrix::{Column, Group, Matrix, Row};
pub use node::{AgentView, BudgetView, NodeView};
pub use objects::{NodeObjects, Objects};
pub use overview::{AttentionItem, Overview};
pub use rolling::Rolling;
pub use shape::Shape;
pub use snapshot::{Snapshot, Trouble};
pub use timeline::{Bar, Span, Timeline};
pub use tree::{Branch, Tree};
pub use verbs::with_verbs;
pub use view::{Cell, Fleet, Member, ModuleView};
pub use why::{PlanView, Step, Why, why, why_on};
pub use withdrawal::{Choice, HeldWithdrawal, name as withdrawal_name};
pub use words::{insecure_scheme, shell_word};
pub use zones::{ZoneView, ZonesView, why_zones};
