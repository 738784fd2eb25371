//! The PlanRun of a Kustomization: the plan file, and the progress of the run.
//!
//! Read once by a process, and again after a refused write: nothing else writes its status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::{
    flux::Kustomization,
    labels::manager,
    plan::{PlanRun, PlanRunSpec, PlanRunStatus},
};
use serde_json::json;

use super::Writer;
use crate::kustomization::Error;
use crate::runtime::Api;
use crate::runtime::{Key, call, status::patch_if_changed};

/// The PlanRun as last read or written.
pub(super) struct Record {
    object: PlanRun,
    api: Api<PlanRun>,
}

impl Record {
    /// Reads the PlanRun that a Kustomization is applied by; `digest` is the value of its annotation. `Err` with the
    /// reason if the PlanRun has another spec.
    pub(super) async fn read(writer: &Writer, digest: &str) -> Result<Result<Self, String>, Error> {
        let owner = writer.object();
        let key = Key::of(owner);
        let api: Api<PlanRun> = Api::namespaced(writer.context().client.clone(), &key.namespace);
        let object = call(format!("reading PlanRun {key}"), api.get_opt(&key.name)).await?;
        let Some(object) = object else {
            return Ok(Err(format!(
                "PlanRun {key} does not exist, or its CRD is not installed (`muster crds --downstream`); nothing is applied until it exists"
            )));
        };
        if object.spec.digest() != digest {
            return Ok(Err(format!(
                "PlanRun {key} has another spec than annotation fleet.muster.dev/plan refers to; nothing is applied until they match"
            )));
        }
        let mut record = Self { object, api };
        record.adopt(owner).await?;
        Ok(Ok(record))
    }

    /// Reads the PlanRun of a Kustomization that is being deleted, whatever its spec says.
    pub(super) async fn find(writer: &Writer) -> Result<Option<Self>, Error> {
        let key = Key::of(writer.object());
        let api: Api<PlanRun> = Api::namespaced(writer.context().client.clone(), &key.namespace);
        let object = call(format!("reading PlanRun {key}"), api.get_opt(&key.name)).await?;
        Ok(object.map(|object| Self { object, api }))
    }

    pub(super) fn spec(&self) -> &PlanRunSpec {
        &self.object.spec
    }

    pub(super) fn status(&self) -> PlanRunStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// Writes the status over the version that was read last; sends nothing if nothing would change.
    pub(super) async fn store(&mut self, status: &PlanRunStatus) -> Result<(), Error> {
        let old = self.object.status.as_ref();
        let written = patch_if_changed(&self.api, &self.object, old, status, manager::CONTROLLER).await?;
        if let Some(written) = written {
            self.object = written;
        }
        Ok(())
    }

    /// Makes the PlanRun a dependent of its Kustomization, which did not exist when it was written.
    async fn adopt(&mut self, owner: &Kustomization) -> Result<(), Error> {
        let reference = OwnerReference {
            controller: None,
            block_owner_deletion: None,
            ..owner.owner_ref(&()).unwrap_or_default()
        };
        if self.object.owner_references().contains(&reference) {
            return Ok(());
        }
        let change = json!({"metadata": {
            "resourceVersion": self.object.resource_version(), "ownerReferences": [reference],
        }});
        let by = PatchParams {
            field_manager: Some(manager::CONTROLLER.to_owned()),
            ..PatchParams::default()
        };
        let name = self.object.name_any();
        let patch = Patch::Merge(&change);
        self.object = call(
            format!("adopting PlanRun {name}"),
            self.api.patch(&name, &by, &patch),
        )
        .await?;
        Ok(())
    }
}
