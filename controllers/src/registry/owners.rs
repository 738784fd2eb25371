//! Owner references to Clusters name the version at which Clusters are read. The garbage collector looks up an owner at
//! that version; when Cluster API no longer serves it, the owner is not found, and our objects would remain forever
//! after their Cluster is deleted.

use std::collections::BTreeSet;

use k8s_openapi::{Resource as _, api::core::v1::ConfigMap};
use kube::{
    Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use muster_api::{
    assemblage::{ProxyAssemblage, RemoteAssemblage},
    cluster::{GROUP, Version},
    labels::{MUSTER, label, manager},
};
use serde_json::json;
use tracing::info;

use crate::runtime::{Api, CallError, call};

/// Objects per page of a list: assemblages may be large.
const PAGE: u32 = 100;

/// Updates the owner references of all our objects to this version, for existing Clusters; references to other owners
/// are left alone. A failed write does not stop the others; the first error is returned.
pub(super) async fn renew(
    client: Client,
    namespace: &str,
    version: Version,
    known: &BTreeSet<String>,
) -> Result<(), CallError> {
    let mut outcome = Ok(());
    for kind in [
        ApiResource::erase::<ProxyAssemblage>(&()),
        ApiResource::erase::<RemoteAssemblage>(&()),
        ApiResource::erase::<ConfigMap>(&()),
    ] {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        match renew_kind(&api, &kind, version, known).await {
            // The kind does not exist, so there are no objects of it.
            Err(error) if error.is_not_found() => {}
            result => outcome = outcome.and(result),
        }
    }
    outcome
}

async fn renew_kind(
    api: &Api<DynamicObject>,
    kind: &ApiResource,
    version: Version,
    known: &BTreeSet<String>,
) -> Result<(), CallError> {
    let ours = format!("{}={MUSTER}", label::MANAGED_BY);
    let mut page = ListParams::default().labels(&ours).limit(PAGE);
    let mut outcome = Ok(());
    loop {
        let list = call(format!("listing {}", kind.plural), api.list(&page)).await?;
        for mut object in list.items {
            if name_at(&mut object, version, known) {
                outcome = outcome.and(write(api, kind, &object, version).await);
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return outcome,
        }
    }
}

/// Writes exactly the version that was read: the RBAC rules allow replacing a record and patching an assemblage.
async fn write(
    api: &Api<DynamicObject>,
    kind: &ApiResource,
    object: &DynamicObject,
    version: Version,
) -> Result<(), CallError> {
    let (name, version) = (object.name_any(), version.as_str());
    let what = format!(
        "updating the owner reference of {} {name} at {version}",
        kind.kind
    );
    let field_manager = Some(manager::CONTROLLER.to_owned());
    let written = if kind.kind == ConfigMap::KIND {
        let by = PostParams {
            field_manager,
            ..PostParams::default()
        };
        call(what, api.replace(&name, &by, object)).await
    } else {
        let by = PatchParams {
            field_manager,
            ..PatchParams::default()
        };
        let (version, owners) = (object.resource_version(), object.owner_references());
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
        call(what, api.patch(&name, &by, &Patch::Merge(patch))).await
    };
    match written {
        Ok(_) => {
            info!(
                kind = kind.kind,
                name, version, "it names its Cluster at the version that is read"
            );
            Ok(())
        }
        // It was deleted meanwhile.
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sets the version in owner references to known Clusters. Returns whether something changed.
fn name_at(object: &mut DynamicObject, version: Version, known: &BTreeSet<String>) -> bool {
    let wanted = version.api_resource().api_version;
    let mut any = false;
    for owner in object.owner_references_mut() {
        let is_cluster = owner.kind == "Cluster" && owner.api_version.split('/').next() == Some(GROUP);
        if is_cluster && known.contains(&owner.uid) && owner.api_version != wanted {
            owner.api_version.clone_from(&wanted);
            any = true;
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_references_to_known_clusters_at_another_version_change() {
        let owner = |api_version: &str, kind: &str, uid: &str| json!({"apiVersion": api_version, "kind": kind, "name": "a", "uid": uid});
        let object = |owners: serde_json::Value| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": owners}});
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        let known = BTreeSet::from(["u".to_owned()]);
        let (older, newer) = ("cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2");
        let others = [
            owner("other.x-k8s.io/v1beta1", "Cluster", "u"),
            owner(older, "Machine", "u"),
            owner(older, "Cluster", "gone"),
        ];
        let with = |first: serde_json::Value| object([vec![first], others.to_vec()].concat().into());
        let mut mixed = with(owner(older, "Cluster", "u"));
        assert!(name_at(&mut mixed, Version::V1Beta2, &known));
        assert_eq!(mixed, with(owner(newer, "Cluster", "u")));
        assert!(!name_at(&mut mixed, Version::V1Beta2, &known));
        assert!(name_at(&mut mixed, Version::V1Beta1, &known));
        assert!(!name_at(&mut object(json!([])), Version::V1Beta1, &known));
    }
}
