//! Paths that two NodeModules both write. Pure functions; the controller checks actual nodes, `muster lint` checks the
//! manifests.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{content::NodePart, module::NodeModuleSpec, validate::parents};

/// The first path in `own` that equals a path in `theirs`, or is a parent or child of one.
pub fn meeting<'a>(own: &BTreeSet<&'a str>, theirs: &BTreeSet<&'a str>) -> Option<(&'a str, &'a str)> {
    for path in own {
        let above = std::iter::once(*path).chain(parents(path));
        if let Some(found) = above.into_iter().find_map(|at| theirs.get(at)) {
            return Some((path, found));
        }
    }
    let below = |path: &&'a str| parents(path).find_map(|at| own.get(at)).map(|own| (*own, *path));
    theirs.iter().find_map(below)
}

/// Conflicting paths of two NodeModules on nodes that both may select. The actual nodes are unknown: only selectors
/// that no set of labels can satisfy together are excluded.
pub fn overlap<'a>(own: &'a NodeModuleSpec, other: &'a NodeModuleSpec) -> Option<(&'a str, &'a str)> {
    // A NodeModule without a selector selects no node.
    let selectors = [own.selector.as_ref()?, other.selector.as_ref()?];
    let pairs = own.content.parts.iter().flat_map(|part| {
        let others = other.content.parts.iter();
        others.map(move |other| (part, other))
    });
    let mut met = pairs.filter_map(|(part, other)| {
        let of_parts = part.selector.iter().chain(other.selector.as_ref());
        let all: Vec<&LabelSelector> = selectors.into_iter().chain(of_parts).collect();
        let found = meeting(&paths(part), &paths(other))?;
        may_select(&all).then_some(found)
    });
    met.next()
}

fn paths(part: &NodePart) -> BTreeSet<&str> {
    part.files.iter().map(|file| file.path.as_str()).collect()
}

/// The allowed values of one label.
#[derive(Default)]
struct Allowed<'a> {
    /// The value must be one of these. `None`: any value.
    among: Option<BTreeSet<&'a str>>,
    /// The value must not be one of these.
    not: BTreeSet<&'a str>,
    exists: bool,
    absent: bool,
}

impl<'a> Allowed<'a> {
    fn one_of(&mut self, values: impl Iterator<Item = &'a str>) {
        let values: BTreeSet<&str> = values.collect();
        self.exists = true;
        self.among = Some(match self.among.take() {
            Some(known) => known.intersection(&values).copied().collect(),
            None => values,
        });
    }

    fn is_possible(&self) -> bool {
        let some = self.among.as_ref();
        let is_left = some.is_none_or(|some| some.difference(&self.not).next().is_some());
        is_left && !(self.exists && self.absent)
    }
}

/// Whether any set of labels satisfies all of these selectors.
fn may_select(selectors: &[&LabelSelector]) -> bool {
    let mut keys: BTreeMap<&str, Allowed<'_>> = BTreeMap::new();
    for selector in selectors {
        for (key, value) in selector.match_labels.iter().flatten() {
            keys.entry(key)
                .or_default()
                .one_of(std::iter::once(value.as_str()));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let allowed = keys.entry(&expression.key).or_default();
            let values = expression.values.iter().flatten().map(String::as_str);
            match expression.operator.as_str() {
                "In" => allowed.one_of(values),
                "NotIn" => allowed.not.extend(values),
                "Exists" => allowed.exists = true,
                "DoesNotExist" => allowed.absent = true,
                // An invalid selector is reported by the validation of its own NodeModule.
                _ => {}
            }
        }
    }
    keys.values().all(Allowed::is_possible)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(selector: &Value, part: &Value, path: &str) -> NodeModuleSpec {
        let mut part = json!({"selector": part, "files": [{"path": path, "content": ""}]});
        if part["selector"].is_null() {
            part.as_object_mut().unwrap().remove("selector");
        }
        serde_json::from_value(json!({"selector": selector, "parts": [part]})).unwrap()
    }

    fn check(own: (&Value, &Value), other: (&Value, &Value), meets: bool) {
        let (a, b) = (spec(own.0, own.1, "/etc/a"), spec(other.0, other.1, "/etc/a/b"));
        assert_eq!(overlap(&a, &b).is_some(), meets, "{own:?} {other:?}");
        assert_eq!(overlap(&b, &a).is_some(), meets, "{other:?} {own:?}");
    }

    #[test]
    fn paths_meet_on_nodes_that_both_may_select() {
        let (all, none) = (json!({}), Value::Null);
        let is = |value: &str| json!({"matchLabels": {"role": value}});
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "role", "operator": operator, "values": values}]});
        check((&all, &none), (&all, &none), true);
        check((&all, &none), (&none, &none), false);
        check(
            (&is("worker"), &none),
            (&json!({"matchLabels": {"zone": "a"}}), &none),
            true,
        );
        check((&is("worker"), &none), (&is("db"), &none), false);
        check((&is("worker"), &none), (&is("worker"), &is("db")), false);
        check((&all, &is("a")), (&all, &is("b")), false);
        check((&is("a"), &none), (&expression("In", &["a", "b"]), &none), true);
        check((&is("a"), &none), (&expression("NotIn", &["a"]), &none), false);
        check(
            (&is("a"), &none),
            (&expression("DoesNotExist", &[]), &none),
            false,
        );
        check(
            (&expression("Exists", &[]), &none),
            (&expression("NotIn", &["a"]), &none),
            true,
        );
        check(
            (&expression("Exists", &[]), &none),
            (&expression("DoesNotExist", &[]), &none),
            false,
        );
        check(
            (&expression("In", &["a", "b"]), &none),
            (&expression("NotIn", &["a", "b"]), &none),
            false,
        );
    }

    #[test]
    fn other_paths_meet_nowhere() {
        let all = json!({});
        let of = |path: &str| spec(&all, &Value::Null, path);
        assert_eq!(overlap(&of("/etc/a"), &of("/etc/ab")), None);
        assert_eq!(
            overlap(&of("/etc/a/b"), &of("/etc/a")),
            Some(("/etc/a/b", "/etc/a"))
        );
    }
}
