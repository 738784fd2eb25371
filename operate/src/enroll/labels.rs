//! The labels of an enrolled Cluster, which may exist already: existing labels stay, unless they are set again. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kube::{ResourceExt, core::DynamicObject};
use muster_api::labels::manager;
use serde_json::Value;

/// Merges existing labels with those from flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    before: BTreeMap<String, String>,
    /// The labels that the command applies. Omitting one of its own would remove it; one of another manager stays
    /// either way.
    pub written: BTreeMap<String, String>,
    /// The labels after that: what modules select by.
    pub after: BTreeMap<String, String>,
}

impl Labels {
    /// Merges the labels of the existing Cluster, if any, with those of the flags.
    pub(crate) fn of(cluster: Option<&DynamicObject>, named: &[(String, String)]) -> Self {
        let before = cluster
            .map(|cluster| cluster.labels().clone())
            .unwrap_or_default();
        let own = cluster.map(own).unwrap_or_default();
        let mut after = before.clone();
        after.extend(named.iter().cloned());
        let mut written = before.clone();
        written.retain(|key, _| own.contains(key));
        written.extend(named.iter().cloned());
        Self {
            before,
            written,
            after,
        }
    }

    /// The labels as `-l` flags: `env=prod,region=eu`.
    pub(crate) fn flag(named: &[(String, String)]) -> String {
        let named: Vec<String> = named
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if named.is_empty() {
            String::new()
        } else {
            format!(" -l {}", named.join(","))
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.after.is_empty() {
            return f.write_str("without labels");
        }
        f.write_str("labelled")?;
        for (key, value) in &self.after {
            write!(f, " {key}={value}")?;
            if let Some(before) = self.before.get(key).filter(|before| *before != value) {
                write!(f, " (was {before})")?;
            }
        }
        Ok(())
    }
}

/// The keys of the labels that the command applied before.
fn own(cluster: &DynamicObject) -> BTreeSet<String> {
    let applied = cluster.managed_fields().iter().filter(|entry| {
        entry.manager.as_deref() == Some(manager::CLI) && entry.operation.as_deref() == Some("Apply")
    });
    let keys = applied
        .filter_map(|entry| entry.fields_v1.as_ref())
        .filter_map(|fields| {
            fields
                .0
                .pointer("/f:metadata/f:labels")
                .and_then(Value::as_object)
        })
        .flat_map(|labels| labels.keys());
    keys.filter_map(|key| key.strip_prefix("f:"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(named: &str, written: &str, expected: &str) {
        let cluster: DynamicObject = serde_json::from_value(json!({"metadata": {
            "name": "eu-2",
            "labels": {"env": "prod", "team": "blue"},
            "managedFields": [
                {"manager": "muster-cli", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:env": {}}}}},
                {"manager": "kubectl-label", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:team": {}}}}},
            ],
        }}))
        .unwrap();
        let named: Vec<(String, String)> = named
            .split_terminator(',')
            .map(|label| label.split_once('=').unwrap())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let labels = Labels::of(Some(&cluster), &named);
        let wrote: Vec<(String, String)> = labels.written.clone().into_iter().collect();
        assert_eq!(
            (&*Labels::flag(&wrote), &*labels.to_string()),
            (written, expected),
            "{named:?}"
        );
    }

    #[test]
    fn labels_not_given_keep_their_values_and_owners() {
        check("", " -l env=prod", "labelled env=prod team=blue");
        check("env=dev", " -l env=dev", "labelled env=dev (was prod) team=blue");
        check(
            "region=eu",
            " -l env=prod,region=eu",
            "labelled env=prod region=eu team=blue",
        );
        assert_eq!(Labels::of(None, &[]).to_string(), "without labels");
    }
}
