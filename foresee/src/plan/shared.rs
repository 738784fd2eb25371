//! Objects that more than one module declares in a cluster, as far as local clones of their repositories are given.
//! Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use muster_api::assemblage::SyncRow;
use muster_sync::build::Identity;

use super::{model::ModulePlan, objects::Objects, words};

/// The most clusters that are compared. More take time, and are mostly equal to the first.
const CLUSTERS_MAX: usize = 100;

/// Cluster-scoped kinds that modules usually share.
const OF_THE_CLUSTER: [&str; 10] = [
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "PriorityClass",
    "IngressClass",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
];

/// The rows of each cluster, by module.
pub(crate) type Rows = BTreeMap<String, BTreeMap<String, SyncRow>>;

/// An object of two modules, and the fields that differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shared {
    object: String,
    other: String,
    differs: bool,
}

/// Adds a warning to the plan of each module that shares objects with another one. `built` returns the objects of a
/// row, if they are known.
pub(crate) fn warn(
    modules: &mut [ModulePlan],
    rows: &Rows,
    mut built: impl FnMut(&SyncRow) -> Option<Arc<Objects>>,
) {
    let mut found: BTreeMap<String, BTreeMap<Shared, Vec<String>>> = BTreeMap::new();
    let changing: BTreeSet<&str> = modules.iter().map(|module| module.module.as_str()).collect();
    for (cluster, rows) in rows.iter().take(CLUSTERS_MAX) {
        let all: BTreeMap<&str, Arc<Objects>> = rows
            .iter()
            .filter_map(|(module, row)| Some((module.as_str(), by_cluster_identity(row, &built(row)?))))
            .collect();
        for (module, objects) in all.iter().filter(|(module, _)| changing.contains(**module)) {
            for (other, others) in all.iter().filter(|(other, _)| *other != module) {
                let both = objects
                    .iter()
                    .filter_map(|(id, object)| Some((id, object, others.get(id)?)));
                for (id, object, others) in both {
                    let shared = Shared {
                        object: id.to_string(),
                        other: (*other).to_owned(),
                        differs: object != others,
                    };
                    let clusters = found
                        .entry((*module).to_owned())
                        .or_default()
                        .entry(shared)
                        .or_default();
                    clusters.push(cluster.clone());
                }
            }
        }
    }
    for module in modules {
        let shared = found.remove(&module.module).unwrap_or_default();
        let warnings = shared
            .into_iter()
            .map(|(shared, clusters)| sentence(&shared, &clusters));
        module.warnings.extend(warnings);
    }
}

/// The objects of a row by their identity in the cluster.
fn by_cluster_identity(row: &SyncRow, objects: &Arc<Objects>) -> Arc<Objects> {
    let package = row.package.as_ref();
    let Some(namespace) = package.and_then(|package| package.target_namespace.as_ref()) else {
        return Arc::clone(objects);
    };
    let place = |id: &Identity| {
        if OF_THE_CLUSTER.contains(&id.kind.as_str()) {
            return id.clone();
        }
        Identity {
            namespace: namespace.clone(),
            ..id.clone()
        }
    };
    Arc::new(
        objects
            .iter()
            .map(|(id, object)| (place(id), object.clone()))
            .collect(),
    )
}

fn sentence(shared: &Shared, clusters: &[String]) -> String {
    let Shared {
        object,
        other,
        differs,
    } = shared;
    let follows = if *differs {
        "differently: only one of them applies it, and the other one is not confirmed (SharedObject)"
    } else {
        "identically: only one of them applies it, and it is removed with the last of them"
    };
    format!(
        "{object} is declared by {other}, too, on {}, and {follows}",
        words::who(clusters)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::model::Change;

    fn plan(module: &str) -> ModulePlan {
        ModulePlan {
            module: module.to_owned(),
            namespace: "fleet".to_owned(),
            loses: Vec::new(),
            place: None,
            change: Change::Changed,
            from: None,
            to: None,
            fields: Vec::new(),
            selected: Vec::new(),
            joins: Vec::new(),
            leaves: Vec::new(),
            moves: Vec::new(),
            order: Vec::new(),
            objects: Vec::new(),
            skipped: Vec::new(),
            warnings: Vec::new(),
            digests: BTreeMap::new(),
            took: None,
        }
    }

    fn row(name: &str, package: &Value) -> SyncRow {
        serde_json::from_value(json!({"name": name, "package": package})).unwrap()
    }

    fn object(kind: &str, namespace: &str, name: &str, value: &str) -> (Identity, Value) {
        let id = Identity {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        (id, json!({"data": value}))
    }

    #[test]
    fn both_modules_of_an_object_are_named() {
        let of = |row: &SyncRow| -> Option<Arc<Objects>> {
            let objects = match row.name.as_str() {
                "web" => vec![
                    object("Namespace", "", "web", "x"),
                    object("ConfigMap", "web", "c", "one"),
                    object("ConfigMap", "web", "own", "x"),
                ],
                "shop" => vec![
                    object("Namespace", "", "web", "x"),
                    object("ConfigMap", "", "c", "two"),
                ],
                _ => return None,
            };
            Some(Arc::new(objects.into_iter().collect()))
        };
        let package = json!({"path": "apps"});
        let rows: Rows = ["eu-1", "us-1"]
            .into_iter()
            .map(|cluster| {
                let rows = [
                    ("module/web".to_owned(), row("web", &package)),
                    (
                        "module/shop".to_owned(),
                        row("shop", &json!({"path": "apps", "targetNamespace": "web"})),
                    ),
                    ("module/far".to_owned(), row("far", &package)),
                ];
                (cluster.to_owned(), rows.into_iter().collect())
            })
            .collect();
        let mut plans = [plan("module/web"), plan("module/far")];
        warn(&mut plans, &rows, of);
        assert_eq!(
            plans[0].warnings,
            [
                "ConfigMap web/c is declared by module/shop, too, on eu-1, us-1, and differently: only one of them applies it, and the other one is \
                 not confirmed (SharedObject)",
                "Namespace web is declared by module/shop, too, on eu-1, us-1, and identically: only one of them applies it, and it is removed with the last of them",
            ]
        );
        assert_eq!(plans[1].warnings, [""; 0]);
    }
}
