//! Whether what a Kustomization depends on is there: Ready, at its present generation, and at the same revision where the
//! source is the same. Pure.

use muster_api::{
    conditions::{READY, is_true},
    flux::{DependencyReference, Kustomization, commit_of},
};

use super::source;
use crate::runtime::Key;

/// The first dependency that is not ready, in Flux's words; `find` gives the Kustomization of a name.
pub(super) fn not_ready<D: AsRef<Kustomization>>(
    namespace: &str,
    source: &Key,
    revision: &str,
    dependencies: &[DependencyReference],
    find: impl Fn(&Key) -> Option<D>,
) -> Option<String> {
    dependencies.iter().find_map(|reference| {
        let key = Key::new(
            reference
                .namespace
                .clone()
                .unwrap_or_else(|| namespace.to_owned()),
            reference.name.clone(),
        );
        let Some(dependency) = find(&key) else {
            return Some(format!("dependency '{key}' not found"));
        };
        let dependency = dependency.as_ref();
        let Some(status) = &dependency.status else {
            return Some(format!("dependency '{key}' is not ready"));
        };
        let current = status.observed_generation == dependency.metadata.generation;
        if dependency.metadata.deletion_timestamp.is_some() || !current || !is_true(&status.conditions, READY)
        {
            return Some(format!("dependency '{key}' is not ready"));
        }
        let applied = status.last_applied_revision.as_deref().unwrap_or_default();
        let behind = source::key_of(dependency) == *source && commit_of(applied) != commit_of(revision);
        behind.then(|| format!("dependency '{key}' revision is not up to date"))
    })
}

#[cfg(test)]
#[allow(clippy::unnecessary_wraps, reason = "cases stand beside `None`")]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(dependency: Option<Value>, expect: Option<&str>) {
        let dependency: Option<Kustomization> =
            dependency.map(|object| serde_json::from_value(object).unwrap());
        let reference = DependencyReference {
            name: "base".into(),
            ..DependencyReference::default()
        };
        let source = Key::new("ns", "src");
        let found = not_ready("ns", &source, "main@sha1:b", &[reference], |key| {
            assert_eq!(key.to_string(), "ns/base");
            dependency.clone().map(Arc::new)
        });
        assert_eq!(found.as_deref(), expect);
    }

    fn base(source: &str, generation: i64, observed: i64, ready: &str, revision: &str) -> Option<Value> {
        Some(json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "base", "namespace": "ns", "generation": generation},
            "spec": {"interval": "1m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": source}},
            "status": {"observedGeneration": observed, "lastAppliedRevision": revision, "conditions": [
                {"type": "Ready", "status": ready, "reason": "R", "message": "", "lastTransitionTime": "2026-11-21T12:00:00Z"}]},
        }))
    }

    #[test]
    fn ready_means_ready_now_and_at_this_revision() {
        check(None, Some("dependency 'ns/base' not found"));
        check(base("src", 2, 2, "True", "sha1:b"), None);
        check(
            base("src", 2, 2, "True", "sha1:a"),
            Some("dependency 'ns/base' revision is not up to date"),
        );
        check(base("other", 2, 2, "True", "sha1:a"), None);
        check(
            base("src", 2, 1, "True", "sha1:b"),
            Some("dependency 'ns/base' is not ready"),
        );
        check(
            base("src", 2, 2, "False", "sha1:b"),
            Some("dependency 'ns/base' is not ready"),
        );
        let mut silent = base("src", 1, 1, "True", "sha1:b").unwrap();
        silent.as_object_mut().unwrap().remove("status");
        check(Some(silent), Some("dependency 'ns/base' is not ready"));
    }
}
