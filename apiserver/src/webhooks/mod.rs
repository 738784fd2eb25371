//! The webhooks that are configured, where they are, and how one is called. When each is asked, and about what: `admission`.

mod call;
mod hook;
mod resolve;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

pub(crate) use call::send;
pub(crate) use hook::{FailurePolicy, Hook, MatchPolicy, ReinvocationPolicy, Rule};
pub use resolve::{Endpoint, HookService, ServicePort};

use crate::status::GroupResource;
use crate::store::{PageQuery, Store};
use resolve::Resolver;

/// The API group of the configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The plural name of the configurations of webhooks that change objects.
const MUTATING: &str = "mutatingwebhookconfigurations";

/// The plural name of the configurations of webhooks that only answer yes or no.
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The webhooks of a server, and how their services are found.
#[derive(Default)]
pub(crate) struct Webhooks {
    /// How often a configuration was written.
    changes: AtomicU64,
    current: RwLock<Read>,
    resolver: RwLock<Option<Resolver>>,
}

/// The webhooks as they were read after so many changes.
#[derive(Default)]
struct Read {
    changes: u64,
    hooks: Option<Arc<Hooks>>,
}

/// All webhooks, in the order in which they are asked.
#[derive(Default)]
pub(crate) struct Hooks {
    /// Those that change objects.
    pub mutating: Vec<Hook>,
    /// Those that only answer yes or no.
    pub validating: Vec<Hook>,
}

impl Webhooks {
    /// Takes note of a write to any resource.
    pub(crate) fn note(&self, resource: &GroupResource) {
        if resource.group == GROUP {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Sets how services of webhooks are found.
    pub(crate) fn resolve_by(&self, resolver: Resolver) {
        *self.resolver.write() = Some(resolver);
    }

    /// How services of webhooks are found, if that was set.
    pub(crate) fn resolver(&self) -> Option<Resolver> {
        self.resolver.read().clone()
    }

    /// The webhooks that stand in the store; `None` if there is none.
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

/// The webhooks of all configurations of a kind: by name of the configuration, then as they stand in it.
fn read(store: &Store, plural: &str) -> Vec<Hook> {
    let page = store.page(&GroupResource::new(GROUP, plural), &PageQuery::default());
    let objects = page.map(|page| page.items).unwrap_or_default(); // a list of now cannot be expired
    objects
        .iter()
        .flat_map(|object| Hook::all_of(&object.value()))
        .collect()
}
