//! Pages: from what is known and an address to markup. Pure; one file for each page.
//!
//! ```text
//!   Snapshot, Request ─► view model ─► Page (parts with ids, made of pieces with ids) ─► the whole page, or what changed in it
//! ```
//!
//! Invariant: whatever an object says goes through [`parts::text`], which leaves no control character and no endless text.
//! Invariant: every address is relative, nothing is styled or run in place: the content policy forbids it.

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

use crate::{Filter, Kind, Matrix, Place, Snapshot};

pub use self::{
    layout::{Assets, whole},
    part::{Change, Page, Part, Piece, changes},
};

/// What a browser asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The page.
    pub place: Place,
    /// What of the fleet is to be shown.
    pub filter: Filter,
    /// Columns that are alike stand each for itself.
    pub unfolded: bool,
    /// The label by whose values columns are grouped; none if it is empty.
    pub group: String,
}

impl Request {
    /// From how many clusters on columns that are alike are one.
    fn fold_from(&self) -> usize {
        if self.unfolded {
            Matrix::UNFOLDED
        } else {
            Matrix::FOLD_FROM
        }
    }
}

/// The page of a request.
pub fn page(snapshot: &Snapshot, request: &Request) -> Page {
    let found = match &request.place {
        Place::Fleet => Some(fleet::page(snapshot, request, snapshot.home())),
        Place::Nodes => Some(fleet::page(snapshot, request, Kind::NodeModule)),
        Place::Activity => Some(activity::page(snapshot, request)),
        Place::Zones => Some(zones::page(snapshot)),
        Place::Machines => Some(machines::page(snapshot)),
        Place::Module(module) => module::page(snapshot, request, module),
        Place::Revision(module, said) => revision::page(snapshot, request, module, said),
        Place::Assignment(module, cluster) => assignment::page(snapshot, request, module, cluster),
        Place::Cluster(name) => cluster::page(snapshot, request, name),
        Place::Node(name) => node::page(snapshot, request, name),
    };
    found.unwrap_or_else(|| layout::missing(snapshot, request))
}
