//! The configured webhooks, how to reach them, and how to call one. `admission` decides when each is called, and with
//! which request.

mod call;
mod hook;
mod resolve;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

pub(crate) use call::send_review;
pub(crate) use hook::{FailurePolicy, Hook, MatchPolicy, ReinvocationPolicy, Rule};
pub use resolve::{Endpoint, HookService, ServicePort};

use crate::status::GroupResource;
use crate::store::{PageQuery, Store};
use resolve::Resolver;

/// The API group of the configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The plural name of the configurations of mutating webhooks.
const MUTATING: &str = "mutatingwebhookconfigurations";

/// The plural name of the configurations of validating webhooks.
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The webhooks of a server, and the resolver for their Services.
#[derive(Default)]
pub(crate) struct Webhooks {
    /// Number of writes to configurations.
    changes: AtomicU64,
    current: RwLock<Read>,
    resolver: RwLock<Option<Resolver>>,
}

/// The webhooks, as read at this number of writes.
#[derive(Default)]
struct Read {
    changes: u64,
    hooks: Option<Arc<Hooks>>,
}

/// All webhooks, in call order.
#[derive(Default)]
pub(crate) struct Hooks {
    /// Mutating webhooks.
    pub mutating: Vec<Hook>,
    /// Validating webhooks.
    pub validating: Vec<Hook>,
}

impl Webhooks {
    /// Counts a write if it is to a configuration.
    pub(crate) fn count_change(&self, resource: &GroupResource) {
        if resource.group == GROUP {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Sets the resolver for Services of webhooks.
    pub(crate) fn resolve_by(&self, resolver: Resolver) {
        *self.resolver.write() = Some(resolver);
    }

    /// The resolver for Services of webhooks, if set.
    pub(crate) fn resolver(&self) -> Option<Resolver> {
        self.resolver.read().clone()
    }

    /// The webhooks in the store; `None` if there are none.
    pub(crate) fn hooks(&self, store: &Store) -> Option<Arc<Hooks>> {
        let changes = self.changes.load(Ordering::Acquire);
        {
            let current = self.current.read();
            if current.changes == changes {
                return current.hooks.clone();
            }
        }
        let hooks = Hooks {
            mutating: read(store, MUTATING),
            validating: read(store, VALIDATING),
        };
        let is_empty = hooks.mutating.is_empty() && hooks.validating.is_empty();
        let hooks = (!is_empty).then(|| Arc::new(hooks));
        let mut current = self.current.write();
        if current.changes < changes {
            *current = Read {
                changes,
                hooks: hooks.clone(),
            };
        }
        hooks
    }
}

/// The webhooks of all configurations of a kind, by configuration name, then in the order of the configuration.
fn read(store: &Store, plural: &str) -> Vec<Hook> {
    let page = store.page(&GroupResource::new(GROUP, plural), &PageQuery::default());
    let objects = page.map(|page| page.items).unwrap_or_default(); // a list at the current version cannot be expired
    objects
        .iter()
        .flat_map(|object| Hook::all_of(&object.value()))
        .collect()
}
