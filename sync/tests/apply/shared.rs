//! Objects that two Kustomizations declare: one holds the object, the other compares, and deleting either one keeps it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use muster_sync::{
    apply::{self, ApplyError, ApplyOutcome, Declarers, Owner, Pruned, Successor},
    inventory::ObjectId,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{Bed, config_map, namespace, secret};

const A: &str = "/api/v1/namespaces/default/configmaps/a";

/// Another Kustomization of the cluster, given its inventory.
#[derive(Default)]
struct Others(Mutex<BTreeMap<String, Vec<String>>>);

impl Others {
    fn with(name: &str, ids: &[&str]) -> Self {
        let others = Self::default();
        others.declare(name, ids);
        others
    }

    fn declare(&self, name: &str, ids: &[&str]) {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        self.0.lock().insert(name.to_owned(), ids);
    }

    fn has(&self, name: &str, id: &ObjectId) -> bool {
        self.0
            .lock()
            .get(name)
            .is_some_and(|ids| ids.contains(&id.to_string()))
    }
}

#[async_trait]
impl Declarers for Others {
    async fn holder(&self, id: &ObjectId, live: &Value) -> Result<Option<String>, String> {
        let owner = Owner::of(live).map(|owner| owner.name);
        Ok(owner
            .filter(|owner| self.has(owner, id))
            .map(|owner| format!("Kustomization flux/{owner}")))
    }

    async fn heir(&self, id: &ObjectId) -> Result<Option<Successor>, String> {
        let heir = self.0.lock().iter().find_map(|(name, ids)| {
            let declares = ids.contains(&id.to_string());
            declares.then(|| name.clone())
        });
        Ok(heir.map(|name| Successor {
            owner: owner(&name),
            in_cluster: true,
        }))
    }
}

/// Declarers that cannot be determined.
struct Unknown;

#[async_trait]
impl Declarers for Unknown {
    async fn holder(&self, _id: &ObjectId, _live: &Value) -> Result<Option<String>, String> {
        Ok(None)
    }

    async fn heir(&self, _id: &ObjectId) -> Result<Option<Successor>, String> {
        Err("Kustomization flux/other cannot be read".to_owned())
    }
}

fn owner(name: &str) -> Owner {
    Owner {
        name: name.to_owned(),
        namespace: "flux".to_owned(),
    }
}

/// A cluster in which `base` applied these objects.
async fn bed_of_base(manifests: &[Value]) -> Bed {
    let mut bed = Bed::new();
    bed.options.owner = owner("base");
    bed.applied(manifests).await;
    bed.options.owner = owner("app");
    bed.api.recorder().clear();
    bed
}

async fn apply_beside(
    bed: &Bed,
    others: &Others,
    manifests: &[Value],
) -> Result<Vec<(String, ApplyOutcome)>, ApplyError> {
    let plan = bed.plan(manifests).await;
    let applied = apply::run(&bed.cluster, &plan, &bed.ledger, others).await?;
    let outcomes = applied.outcomes.into_iter();
    Ok(outcomes.map(|(id, outcome)| (id.to_string(), outcome)).collect())
}

async fn prune_beside(bed: &Bed, others: &dyn Declarers, manifests: &[Value]) -> Pruned {
    let all = bed.plan(manifests).await.inventory().pruned_by(&apply_nothing());
    apply::prune(&bed.cluster, &bed.options.owner, &all, others).await
}

fn apply_nothing() -> muster_sync::inventory::Inventory {
    muster_sync::inventory::Inventory::default()
}

fn owner_of(object: &Value) -> &Value {
    &object["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"]
}

#[tokio::test]
async fn what_another_one_holds_is_compared_and_not_written() {
    let base = config_map("a", &json!({"x": "1", "y": "2"}));
    let bed = bed_of_base(&[base]).await;
    let others = Others::with("base", &["ConfigMap/default/a"]);
    let before = bed.read(A).await.unwrap();
    // All fields, or only some of them.
    for data in [json!({"x": "1", "y": "2"}), json!({"y": "2"})] {
        let outcomes = apply_beside(&bed, &others, &[config_map("a", &data)])
            .await
            .unwrap();
        assert_eq!(
            outcomes,
            [("ConfigMap/default/a".to_owned(), ApplyOutcome::Shared)]
        );
    }
    assert_eq!(bed.read(A).await.unwrap(), before);
    assert_eq!(owner_of(&before), "base");
}

#[tokio::test]
async fn one_field_that_differs_is_named_with_the_holder_and_holds_up_no_later_stage() {
    let bed = bed_of_base(&[namespace("web")]).await;
    let others = Others::with("base", &["Namespace/web"]);
    let mut other = namespace("web");
    other["metadata"]["labels"] = json!({"team": "red"});
    let before = bed.read("/api/v1/namespaces/web").await.unwrap();
    let error = apply_beside(&bed, &others, &[other, config_map("a", &json!({"x": "1"}))]).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "Namespace/web is managed by Kustomization flux/base, and metadata.labels.team is declared differently there: declare the same in both, or \
         remove the object from one of them"
    );
    assert_eq!(bed.read("/api/v1/namespaces/web").await.unwrap(), before);
    assert!(bed.read(A).await.is_some(), "what follows is applied");
}

#[tokio::test]
async fn of_a_secret_that_differs_no_value_is_said() {
    let bed = bed_of_base(&[secret("a", &json!({"token": "hunter2"}))]).await;
    let others = Others::with("base", &["Secret/default/a"]);
    let error = apply_beside(&bed, &others, &[secret("a", &json!({"token": "hunter3"}))]).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("data.token") && !error.contains("hunter"),
        "{error}"
    );
}

#[tokio::test]
async fn a_field_that_cannot_be_changed_differs_too() {
    let immutable = |value: &str| {
        let mut config = config_map("a", &json!({"x": value}));
        config["immutable"] = json!(true);
        config
    };
    let mut bed = bed_of_base(&[immutable("1")]).await;
    bed.options.force = true;
    let others = Others::with("base", &["ConfigMap/default/a"]);
    let before = bed.read(A).await.unwrap();
    let error = apply_beside(&bed, &others, &[immutable("2")]).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is managed by Kustomization flux/base, and data is"),
        "{error}"
    );
    assert_eq!(bed.read(A).await.unwrap(), before, "and nothing is created again");
}

#[tokio::test]
async fn what_is_held_by_none_any_more_is_taken_over() {
    let bed = bed_of_base(&[config_map("a", &json!({"x": "1"}))]).await;
    let outcomes = apply_beside(&bed, &Others::default(), &[config_map("a", &json!({"x": "2"}))]).await;
    assert_eq!(
        outcomes.unwrap(),
        [("ConfigMap/default/a".to_owned(), ApplyOutcome::Configured)]
    );
    let object = bed.read(A).await.unwrap();
    assert_eq!(
        (owner_of(&object), &object["data"]["x"]),
        (&json!("app"), &json!("2"))
    );
}

#[tokio::test]
async fn what_another_one_declares_is_handed_over_and_not_deleted() {
    let bed = Bed::new();
    let config = config_map("a", &json!({"x": "1"}));
    bed.applied(std::slice::from_ref(&config)).await;
    let uid = bed.read(A).await.unwrap()["metadata"]["uid"].clone();
    let others = Others::with("base", &["ConfigMap/default/a"]);
    let pruned = prune_beside(&bed, &others, std::slice::from_ref(&config)).await;
    assert_eq!(pruned.released.len(), 1, "{pruned:?}");
    assert_eq!(pruned.heirs, [owner("base")]);
    let object = bed.read(A).await.unwrap();
    assert_eq!(
        (owner_of(&object), &object["metadata"]["uid"]),
        (&json!("base"), &uid)
    );
    // The heir applies it as its own: fields that only the other one declared are removed.
    let mut heir = Bed::new();
    heir.options.owner = owner("base");
    let heir = Bed {
        cluster: bed.cluster.clone(),
        ..heir
    };
    heir.applied(&[config_map("a", &json!({"y": "2"}))]).await;
    assert_eq!(bed.read(A).await.unwrap()["data"], json!({"y": "2"}));
    let again = heir.applied(&[config_map("a", &json!({"y": "2"}))]).await;
    assert_eq!(again["ConfigMap/default/a"], ApplyOutcome::Unchanged);
}

#[tokio::test]
async fn nothing_is_deleted_while_other_declarations_are_unknown() {
    let bed = Bed::new();
    let config = config_map("a", &json!({"x": "1"}));
    bed.applied(std::slice::from_ref(&config)).await;
    let pruned = prune_beside(&bed, &Unknown, std::slice::from_ref(&config)).await;
    assert_eq!(
        pruned.failures[0].to_string(),
        "ConfigMap/default/a was not deleted: Kustomization flux/other cannot be read"
    );
    assert!(bed.read(A).await.is_some());
}

#[tokio::test]
async fn the_mark_of_where_it_was_applied_from_is_the_syncs_alone() {
    let bed = Bed::new();
    let label = "fleet.muster.dev/applied-from";
    let mut config = config_map("a", &json!({"x": "1"}));
    config["metadata"]["labels"] = json!({label: "forged"});
    bed.applied(std::slice::from_ref(&config)).await;
    assert_eq!(
        bed.read(A).await.unwrap()["metadata"]["labels"][label],
        Value::Null
    );
    let plan = bed
        .plan(std::slice::from_ref(&config))
        .await
        .applied_from("there");
    apply::run(&bed.cluster, &plan, &bed.ledger, &apply::Alone)
        .await
        .unwrap();
    assert_eq!(bed.read(A).await.unwrap()["metadata"]["labels"][label], "there");
}

/// The object changes each time between the read and the deletion: it is read again, and kept if that does not end.
#[tokio::test]
async fn what_is_changed_meanwhile_is_read_again_before_it_is_deleted() {
    for (changes, stays) in [(2, false), (100, true)] {
        let bed = Bed::new();
        let config = config_map("a", &json!({"x": "1"}));
        bed.applied(std::slice::from_ref(&config)).await;
        let left = std::sync::Arc::new(Mutex::new(changes));
        let bed = {
            let inner = bed.api.client();
            let client = crate::support::hooked(inner, move |request, client| {
                let left = std::sync::Arc::clone(&left);
                async move {
                    let change = request.method() == http::Method::DELETE && {
                        let mut left = left.lock();
                        *left -= 1;
                        *left >= 0
                    };
                    if change {
                        let patch = http::Request::patch(format!("{A}?fieldManager=other"))
                            .header("content-type", "application/merge-patch+json")
                            .body(kube::client::Body::from(
                                json!({"data": {"n": left.lock().to_string()}})
                                    .to_string()
                                    .into_bytes(),
                            ))?;
                        client.send(patch).await?;
                    }
                    crate::support::pass(request, client).await
                }
            });
            bed.through(client)
        };
        let pruned = prune_beside(&bed, &apply::Alone, std::slice::from_ref(&config)).await;
        assert_eq!(bed.read(A).await.is_some(), stays);
        assert_eq!(pruned.waiting.len(), usize::from(stays), "{pruned:?}");
        let deletes = bed
            .writes()
            .iter()
            .filter(|write| write.starts_with("DELETE"))
            .count();
        assert_eq!(deletes, if stays { 5 } else { 3 });
    }
}
