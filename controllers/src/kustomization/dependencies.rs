//! Whether the dependencies of a Kustomization are met: Ready, at the current generation, and at the same revision if
//! the source is the same; and whether it depends on itself. Pure.

use std::collections::BTreeSet;

use muster_api::{
    conditions::{READY, is_true},
    flux::{DependencyReference, Kustomization, commit_of},
};

use super::source;
use crate::runtime::Key;

/// The dependency cycle of a Kustomization, as text; `find` returns the Kustomization of a name.
///
/// Flux does not detect cycles: its Kustomizations in a cycle wait for each other forever after the next revision.
pub(super) fn circle<D: AsRef<Kustomization>>(
    own: &Key,
    dependencies: &[DependencyReference],
    find: impl Fn(&Key) -> Option<D>,
) -> Option<String> {
    // Each key once, with the path to it: the path is no longer than the number of Kustomizations.
    let mut visited = BTreeSet::from([own.clone()]);
    let mut open = vec![(vec![own.clone()], dependencies.to_vec())];
    while let Some((way, dependencies)) = open.pop() {
        for reference in dependencies.iter().rev() {
            let key = key_of(reference, &own.namespace);
            let way: Vec<Key> = way.iter().cloned().chain([key.clone()]).collect();
            if key == *own {
                let names: Vec<String> = way.iter().map(ToString::to_string).collect();
                let circle = names.join(" -> ");
                return Some(format!("dependencies form a cycle: {circle}; remove one of them"));
            }
            if let (true, Some(next)) = (visited.insert(key.clone()), find(&key)) {
                open.push((way, next.as_ref().spec.depends_on.clone()));
            }
        }
    }
    None
}

fn key_of(reference: &DependencyReference, namespace: &str) -> Key {
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    Key::new(namespace, reference.name.clone())
}

/// The first dependency that is not ready, in Flux's terms; `find` returns the Kustomization of a name.
pub(super) fn first_unready_dependency<D: AsRef<Kustomization>>(
    namespace: &str,
    source: &Key,
    revision: &str,
    dependencies: &[DependencyReference],
    find: impl Fn(&Key) -> Option<D>,
) -> Option<String> {
    dependencies.iter().find_map(|reference| {
        let key = key_of(reference, namespace);
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
#[allow(clippy::unnecessary_wraps, reason = "cases are listed next to `None`")]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

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
        let found = first_unready_dependency("ns", &source, "main@sha1:b", &[reference], |key| {
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

    /// Kustomizations as `a: b c` (a depends on b and c); the cycle that is found from the first one.
    #[track_caller]
    fn check_circle(lines: &[&str], expect: Option<&str>) {
        let all: BTreeMap<Key, Arc<Kustomization>> = lines
            .iter()
            .map(|line| {
                let (name, dependencies) = line.split_once(':').unwrap();
                let mut object = base("src", 1, 1, "True", "sha1:b").unwrap();
                object["metadata"]["name"] = name.into();
                let dependencies = dependencies.split_whitespace().map(|name| json!({"name": name}));
                object["spec"]["dependsOn"] = dependencies.collect();
                (
                    Key::new("ns", name),
                    Arc::new(serde_json::from_value(object).unwrap()),
                )
            })
            .collect();
        let own = Key::new("ns", lines[0].split_once(':').unwrap().0);
        let found = circle(&own, &all[&own].spec.depends_on, |key| all.get(key).cloned());
        let expect = expect.map(|circle| format!("dependencies form a cycle: {circle}; remove one of them"));
        assert_eq!(found, expect);
    }

    #[test]
    fn a_circle_is_named_from_where_one_stands() {
        check_circle(&["a: a"], Some("ns/a -> ns/a"));
        check_circle(&["a: b", "b: c", "c: a"], Some("ns/a -> ns/b -> ns/c -> ns/a"));
        check_circle(&["a: b c", "b: d", "c: d", "d:"], None);
        check_circle(&["a: b c", "b: d", "c: a", "d:"], Some("ns/a -> ns/c -> ns/a"));
        // A Kustomization that waits for a cycle is not in it.
        check_circle(&["a: b", "b: c", "c: b"], None);
        check_circle(&["a: gone"], None);
    }
}
