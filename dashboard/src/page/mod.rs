//! Pages: pure functions from a snapshot and a request to markup. One file per page.
//!
//! ```text
//!   Snapshot, Request ─► view model ─► Page (parts with ids, made of pieces with ids) ─► the whole page, or only its changes
//! ```
//!
//! Invariant: all text from objects goes through [`parts::text`], which removes control characters and limits the
//! length. Invariant: every URL is relative, and there are no inline styles or scripts: the content security policy
//! forbids them.

mod activity;
mod assignment;
mod chart;
mod cluster;
mod fleet;
mod layout;
mod lists;
mod machines;
mod module;
mod node;
mod part;
pub mod parts;
mod revision;
mod zones;

use crate::{Filter, Kind, Matrix, PageLocation, Snapshot};

pub use self::{
    layout::{Assets, render_document},
    part::{Change, Page, Part, Piece, changes},
};

/// What a browser requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The page.
    pub place: PageLocation,
    /// Which part of the fleet to show.
    pub filter: Filter,
    /// Whether equal columns are shown separately.
    pub unfolded: bool,
    /// The label by whose values columns are grouped; empty without grouping.
    pub group: String,
}

impl Request {
    /// Number of clusters from which equal columns are folded.
    fn fold_from(&self) -> usize {
        if self.unfolded {
            Matrix::UNFOLDED
        } else {
            Matrix::FOLD_FROM
        }
    }
}

/// Builds the page for a request.
pub fn page(snapshot: &Snapshot, request: &Request) -> Page {
    let found = match &request.place {
        PageLocation::Fleet => Some(fleet::page(snapshot, request, snapshot.home())),
        PageLocation::Nodes => Some(fleet::page(snapshot, request, Kind::NodeModule)),
        PageLocation::Activity => Some(activity::page(snapshot, request)),
        PageLocation::Zones => Some(zones::page(snapshot)),
        PageLocation::Machines => Some(machines::page(snapshot)),
        PageLocation::Module(module) => module::page(snapshot, request, module),
        PageLocation::Revision(module, hash) => revision::page(snapshot, request, module, hash),
        PageLocation::Assignment(module, cluster) => assignment::page(snapshot, request, module, cluster),
        PageLocation::Cluster(name) => cluster::page(snapshot, request, name),
        PageLocation::Node(name) => node::page(snapshot, request, name),
    };
    found.unwrap_or_else(|| layout::missing(snapshot, request))
}
