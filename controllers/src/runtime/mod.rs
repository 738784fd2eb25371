//! The basis of every controller: the clock, watches that keep rows instead of objects, status writes that are skipped
//! if nothing changed, events, and a deadline on each call.
//!
//! Invariant: a panic over one object affects only that object ([`isolate`]).
//! Invariant: no call to an API server is awaited without a total deadline ([`call()`]).

pub mod api;
pub mod call;
pub mod changes;
pub mod deadline;
pub mod entries;
pub mod events;
pub(crate) mod finalizers;
pub mod guard;
pub mod index;
pub mod isolate;
pub mod jitter;
pub mod pace;
pub mod refused;
pub mod retry;
pub mod sendable;
pub mod status;
pub mod strict;
pub mod unreadable;
pub mod version;
pub mod watch;

pub use api::Api;
pub use call::{CallError, call, call_within};
pub use changes::Changes;
pub use events::{Event, EventType, Events};
pub use guard::Guard;
pub(crate) use index::store_keys;
pub use index::{Index, Key};
pub use isolate::{Panicked, isolated, isolated_future};
pub use jitter::Jitter;
pub use kube::runtime::controller::Action;
pub use muster_kit::Clock;
pub use pace::Pace;
pub use retry::{Retry, Retryable};
pub use tokio_util::sync::CancellationToken as Shutdown;
pub use unreadable::Unreadable;
