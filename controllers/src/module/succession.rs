//! Which module takes over the content of a deleted module: a rename in git is a new module and the deletion of the old
//! one. Pure.
//!
//! ```text
//!   A is being deleted, B is of the same kind, selects the cluster, and applies the same content
//!     └─► A waits there ──► B is confirmed there, is deleted, or no longer selects the cluster ──► A is withdrawn from there
//! ```
//!
//! Invariant: in a cluster that a successor selects, a deleted module is withdrawn only after a successor has its
//! objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use muster_api::{
    module::ModuleSpec,
    selector::Matcher,
    sync::{Binding, FluxPackage, Source},
};

use super::facts::ModuleState;

/// What determines whether two modules apply the same objects: everything but the version and how it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    source: Source,
    flux: Option<Box<FluxPackage>>,
    path: String,
    target_namespace: Option<String>,
    substitute: BTreeMap<String, String>,
    bindings: Vec<Binding>,
    control_plane_bindings: Vec<Binding>,
}

impl Content {
    /// The content of a module.
    pub(crate) fn of(spec: &ModuleSpec) -> Self {
        let package = &spec.sync.package;
        Self {
            source: spec.sync.source.for_rows().without_version(),
            flux: package.flux.clone(),
            path: directory(&package.path).to_owned(),
            target_namespace: package.target_namespace.clone(),
            substitute: package.substitute.clone(),
            bindings: spec.sync.bindings.clone(),
            control_plane_bindings: spec.control_plane_bindings.clone(),
        }
    }
}

/// `./apps/` and `apps` are the same directory.
fn directory(path: &str) -> &str {
    let path = path.trim_start_matches("./").trim_matches('/');
    if path == "." { "" } else { path }
}

/// A module that succeeds one that is being deleted.
#[derive(Clone, Debug)]
pub struct Successor {
    /// Kind and name: `module/webapp`.
    pub address: String,
    /// Which clusters it selects; `None` if the selector is invalid, so that it may be meant for any cluster.
    pub selector: Option<Matcher>,
    /// Its state by the last decision; `None` if nothing was decided at its present generation yet.
    pub standing: Option<Arc<ModuleState>>,
}

impl Successor {
    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector
            .as_ref()
            .is_none_or(|selector| selector.matches(labels))
    }

    fn has(&self, cluster: &str) -> bool {
        self.standing
            .as_ref()
            .is_some_and(|standing| standing.confirmed.contains(cluster) || standing.shared.contains(cluster))
    }
}

/// The successors of a deleted module.
#[derive(Clone, Debug, Default)]
pub struct Successors(Vec<Successor>);

impl Successors {
    /// From a list of successors.
    pub fn new(successors: Vec<Successor>) -> Self {
        Self(successors)
    }

    /// Whether there are none in any cluster.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The modules that take over in a cluster with these labels.
    fn of<'a>(&'a self, labels: &'a BTreeMap<String, String>) -> impl Iterator<Item = &'a Successor> {
        self.0.iter().filter(|successor| successor.selects(labels))
    }

    /// Whether a cluster's content moves to another module, whether confirmed there or not.
    pub fn take_over(&self, labels: &BTreeMap<String, String>) -> bool {
        self.of(labels).next().is_some()
    }

    /// The modules that take over in any of these clusters, each with those clusters.
    pub fn by_cluster<'a>(
        &self,
        clusters: impl Iterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
    ) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (cluster, labels) in clusters {
            if let Some(successor) = self.of(labels).next() {
                let clusters = all.entry(successor.address.clone()).or_default();
                clusters.insert(cluster.to_owned());
            }
        }
        all
    }

    /// Why the deleted module is not withdrawn from a cluster yet.
    pub fn not_yet(&self, cluster: &str, labels: &BTreeMap<String, String>) -> Option<String> {
        if self.of(labels).any(|successor| successor.has(cluster)) {
            return None;
        }
        let address = &self.of(labels).next()?.address;
        Some(format!(
            "moves to {address}, not confirmed here; next: muster why {address} --cluster {cluster}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use muster_api::Module;
    use serde_json::{Value, json};

    use super::*;

    fn merged(into: &mut Value, change: &Value) {
        match (into, change) {
            (Value::Object(into), Value::Object(change)) => {
                for (field, value) in change {
                    merged(into.entry(field).or_insert(Value::Null), value);
                }
            }
            (into, change) => into.clone_from(change),
        }
    }

    fn content(change: &Value) -> Content {
        let mut module = json!({
            "metadata": {"name": "web", "namespace": "fleet"},
            "spec": {"sync": {
                "source": {"git": {"url": "https://git.test/r", "version": {"tag": "v1"}}},
                "package": {"path": "./web"},
            }},
        });
        merged(&mut module, &json!({"spec": change}));
        let module: Module = serde_json::from_value(module).unwrap();
        Content::of(&module.spec)
    }

    #[test]
    fn what_is_applied_is_compared_and_nothing_else() {
        let plain = content(&json!({}));
        for same in [
            json!({"sync": {"package": {"path": "web/"}}}),
            json!({"sync": {"package": {"prune": false, "interval": "1h"}}}),
            json!({"sync": {"source": {"git": {"version": {"tag": "v2"}}}}}),
            json!({"selector": {}, "onDelete": "Orphan", "rollout": {"maxUnreadyClusters": 3}}),
        ] {
            assert_eq!(content(&same), plain, "{same}");
        }
        for other in [
            json!({"sync": {"source": {"git": {"url": "https://git.test/s"}}}}),
            json!({"sync": {"source": {"git": {"secretRef": {"name": "key"}}}}}),
            json!({"sync": {"package": {"path": "app"}}}),
            json!({"sync": {"package": {"targetNamespace": "web"}}}),
            json!({"sync": {"package": {"substitute": {"A": "1"}}}}),
            json!({"sync": {"bindings": [{"name": "A", "value": "1"}]}}),
            json!({"controlPlaneBindings": [{"name": "A", "value": "1"}]}),
        ] {
            assert_ne!(content(&other), plain, "{other}");
        }
    }

    fn labels(env: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("env".to_owned(), env.to_owned())])
    }

    fn successor(name: &str, selector: &Value, confirmed: Option<&[&str]>) -> Successor {
        let selector = serde_json::from_value(selector.clone()).unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Successor {
            address: format!("module/{name}"),
            selector: Matcher::new(Some(&selector)).ok(),
            standing: confirmed.map(|confirmed| {
                Arc::new(ModuleState {
                    confirmed: names(confirmed),
                    ..ModuleState::default()
                })
            }),
        }
    }

    #[test]
    fn a_cluster_waits_for_the_first_successor_that_has_its_objects() {
        let prod = json!({"matchLabels": {"env": "prod"}});
        let check = |successors: Vec<Successor>, moves: bool, waits_for: Option<&str>| {
            let successors = Successors::new(successors);
            assert_eq!(successors.take_over(&labels("prod")), moves);
            let message = successors.not_yet("eu-1", &labels("prod"));
            let expect = waits_for.map(|name| {
                format!(
                    "moves to module/{name}, not confirmed here; next: muster why module/{name} --cluster eu-1"
                )
            });
            assert_eq!(message, expect);
        };
        check(vec![], false, None);
        check(vec![successor("b", &prod, None)], true, Some("b"));
        check(vec![successor("b", &prod, Some(&["eu-2"]))], true, Some("b"));
        check(vec![successor("b", &prod, Some(&["eu-1"]))], true, None);
        check(
            vec![
                successor("b", &prod, None),
                successor("c", &prod, Some(&["eu-1"])),
            ],
            true,
            None,
        );
        // One that does not select the cluster neither takes over nor is waited for.
        let dev = json!({"matchLabels": {"env": "dev"}});
        check(vec![successor("b", &dev, Some(&["eu-1"]))], false, None);
        check(
            vec![
                successor("b", &dev, Some(&["eu-1"])),
                successor("c", &prod, Some(&[])),
            ],
            true,
            Some("c"),
        );
        let invalid = json!({"matchExpressions": [{"key": "env", "operator": "Like", "values": ["p"]}]});
        check(vec![successor("b", &invalid, None)], true, Some("b"));
    }

    #[test]
    fn an_object_that_only_waits_for_the_old_module_ends_the_wait() {
        let prod = json!({"matchLabels": {"env": "prod"}});
        let mut successor = successor("b", &prod, None);
        successor.standing = Some(Arc::new(ModuleState {
            shared: BTreeSet::from(["eu-1".to_owned()]),
            ..ModuleState::default()
        }));
        let successors = Successors::new(vec![successor]);
        assert_eq!(successors.not_yet("eu-1", &labels("prod")), None);
        assert!(successors.not_yet("eu-2", &labels("prod")).is_some());
    }
}
