//! Reads and controls a fleet through its management cluster, for commands and other views.
//!
//! ```text
//!   Target ─► connect ─► Client ─┬─► read, nodes, lists, listing, history, events ─┐
//!                                ├─► follow (as it changes) ─► Snapshot            ├─► view models of muster-dashboard
//!                                ├─► there (a client of one of its clusters)      ─┘
//!                                ├─► level, pause, once, write_off, machines, plan_run, reconcile ─► control ─► an annotation that git does not own
//!                                ├─► bypass, zones (a field of a RolloutWindow, of a ZoneRollout)
//!                                └─► apply (muster's objects, by server-side apply)
//!   user input ─► name, near                                 values ─► text (counts, ages, tables)
//! ```
//!
//! The inputs are a [`connect::Target`] or a [`kube::Client`], and names; the outputs are values. Progress is reported
//! to a [`Reporter`]: nothing is printed here, and flags and exit codes are the caller's.
//!
//! Errors are [`anyhow::Error`]s whose messages say what, where, and what to do next; [`trouble::describe_error`] adds
//! the command that fits an error of the API server. Errors that callers distinguish are enums: [`nodes::NodeError`],
//! and [`CallError`](muster_controllers::runtime::CallError) of [`apply`].
//!
//! Invariant: only [`apply`], [`control`] and what builds on it write, and each write is conditional on what was read,
//! or sets only muster's fields. Invariant: of Secrets only names are read, except the kubeconfig of a cluster that
//! [`cluster_client`] connects to.

mod address;
pub mod apply;
pub mod bypass;
mod cluster_client;
pub mod connect;
pub mod control;
pub mod definitions;
mod event_log;
pub mod events;
mod extent;
mod held;
pub mod history;
pub mod hold_pin;
pub mod listing;
pub mod lists;
mod live;
mod live_nodes;
pub mod machines;
pub mod name;
pub mod near;
pub mod nodes;
pub mod pause;
pub mod plan_run;
mod read;
pub mod reconcile;
mod reporter;
pub mod stage_control;
pub mod status;
pub mod text;
pub mod top;
pub mod trouble;
mod watched;
pub mod why;
pub mod write_off;
pub mod zones;

pub use self::{
    address::ObjectAddress,
    cluster_client::cluster_client,
    event_log::read_event,
    extent::Extent,
    live::follow,
    read::{
        clusters, extent, list_all, missing, missing_cluster, modules, namespaces, node_modules, read,
        read_fleet, read_objects, served,
    },
    reporter::Reporter,
};
