//! The kinds for node configuration: files on the nodes of a cluster, rolled out node by node.
//!
//! ```text
//!   NodeModule ── what people write: files, checks, how they roll over nodes
//!      │ content, by hash                         NodeBudget: how many nodes may be changing at once, over all NodeModules
//!   NodeRevision ── what a revision was, whole
//!      │ row: revision, parts, values, digest, token
//!   NodeAssemblage ── the rows of one node, and what its agent reports
//!      │ render
//!   Rendered ── the files of this node; secrets are filled in on the node
//! ```
//!
//! Invariant: what a node gets is a pure function of the NodeRevision, the parts and the values (`render`), and the
//! digest covers the result.

pub mod assemblage;
pub mod budget;
pub mod content;
pub mod module;
pub mod overlap;
pub mod render;
pub mod revision;
pub mod rollout;
pub mod validate;

pub use assemblage::NodeAssemblage;
pub use budget::NodeBudget;
pub use module::NodeModule;
pub use revision::NodeRevision;
