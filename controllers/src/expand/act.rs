//! Applies plans: the only writes of this module. Each has the resourceVersion or the uid it was decided on as a
//! precondition, or requires that the object does not exist.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use muster_api::{
    Shared,
    assemblage::{FailureClass, SyncPhase, SyncState},
    flux::Kustomization,
    labels::annotation::RECONCILE_REQUESTED_AT,
    plan::PlanRun,
    reasons::Reason,
};
use serde_json::json;
use tracing::info;

use super::{
    expander::Expander,
    flux_object::{FluxObject, SourceKind},
    observed::{KustomizationRow, SourceRow},
    plan::{Plan, Write},
};
use crate::runtime::{Api, CallError, Index, call, call::error_chain, strict};

/// Concurrent writes at most: an API server handles about eight writers well.
const WRITERS: usize = 8;

/// The status code of a strict write with fields that the installed CRD does not know.
const BAD_REQUEST: u16 = 400;
/// The advice for that error.
const OLDER: &str = "; the kind Kustomization of this cluster is older than muster needs: update Flux there, or without Flux apply \
                     `muster crds --downstream`";

/// The result of applying plans.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The states of the rows, as decided or as changed by a failed write.
    pub states: Vec<Shared<SyncState>>,
    /// There was a conflict, or a write failed: reconcile again.
    pub again: bool,
}

impl Expander {
    /// Applies plans. A write that fails affects only its row.
    pub(super) async fn apply_plans(&self, plans: Vec<Plan>) -> Done {
        let mut sources = BTreeSet::new();
        let plans = plans
            .into_iter()
            .map(|plan| deduplicate_source_writes(plan, &mut sources))
            .collect::<Vec<_>>();
        let results: Vec<(SyncState, bool)> = stream::iter(plans)
            .map(|plan| self.one(plan))
            .buffered(WRITERS)
            .collect()
            .await;
        let again = results.iter().any(|(_, again)| *again);
        Done {
            states: results.into_iter().map(|(state, _)| state.into()).collect(),
            again,
        }
    }

    async fn one(&self, plan: Plan) -> (SyncState, bool) {
        let Plan {
            writes,
            state,
            again,
            after: _,
        } = plan;
        for write in writes {
            if let Err(error) = self.write(write).await {
                return if error.is_conflict() {
                    (state, true)
                } else {
                    (refused(state, &error), true)
                };
            }
        }
        (state, again)
    }

    async fn write(&self, write: Write) -> Result<(), CallError> {
        let by = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let kustomizations: Api<Kustomization> = self.api();
        match write {
            Write::CreateSource(FluxObject::Git(source)) => {
                self.create(&self.sources, &by, &*source).await?;
            }
            Write::CreateSource(FluxObject::Oci(source)) => {
                self.create(&self.artifacts, &by, &*source).await?;
            }
            Write::ReplaceSource(FluxObject::Git(source)) => {
                self.replace(&self.sources, &by, &*source).await?;
            }
            Write::ReplaceSource(FluxObject::Oci(source)) => {
                self.replace(&self.artifacts, &by, &*source).await?;
            }
            Write::Create(wanted) => {
                let written = call(
                    format!("creating Kustomization {}", wanted.name_any()),
                    strict::create(&kustomizations, &by, &wanted),
                )
                .await?;
                self.wrote(&written, "created");
            }
            Write::Replace(wanted) => {
                let name = wanted.name_any();
                let written = call(
                    format!("changing Kustomization {name}"),
                    strict::replace_object(&kustomizations, &by, &wanted),
                )
                .await?;
                self.wrote(&written, "changed");
            }
            Write::PutPlanRun(wanted) => {
                let name = wanted.name_any();
                let by = PatchParams::apply(self.manager).force();
                let runs: Api<PlanRun> = self.api();
                call(
                    format!("writing PlanRun {name}"),
                    runs.patch(&name, &by, &Patch::Apply(&*wanted)),
                )
                .await?;
            }
            Write::ControlPlanRun { name, control } => {
                let by = PatchParams {
                    field_manager: Some(self.manager.to_owned()),
                    ..PatchParams::default()
                };
                let runs: Api<PlanRun> = self.api();
                let patch = Patch::Merge(json!({"spec": {"control": control}}));
                call(format!("writing PlanRun {name}"), runs.patch(&name, &by, &patch)).await?;
            }
            Write::Ask { name, uid, request } => {
                let patch =
                    json!({"metadata": {"uid": uid, "annotations": {RECONCILE_REQUESTED_AT: request}}});
                let by = PatchParams {
                    field_manager: Some(self.manager.to_owned()),
                    ..PatchParams::default()
                };
                let written = call(
                    format!("requesting a reconcile of Kustomization {name}"),
                    kustomizations.patch(&name, &by, &Patch::Merge(patch)),
                )
                .await?;
                self.wrote(&written, "requested a reconcile of");
            }
            Write::Delete {
                name,
                uid,
                resource_version,
            } => {
                let exactly = Preconditions {
                    uid: Some(uid),
                    resource_version: Some(resource_version),
                };
                let parameters = DeleteParams {
                    preconditions: Some(exactly),
                    ..DeleteParams::background()
                };
                info!(
                    kustomization = name,
                    "deleting a Kustomization: its row is withdrawn"
                );
                call(
                    format!("deleting Kustomization {name}"),
                    kustomizations.delete(&name, &parameters),
                )
                .await?;
            }
        }
        Ok(())
    }

    async fn create<S: SourceKind>(
        &self,
        index: &Index<S, SourceRow>,
        by: &PostParams,
        source: &S,
    ) -> Result<(), CallError> {
        let api: Api<S> = self.api();
        let creating = format!("creating {} {}", S::KIND, source.name_any());
        index.written(&call(creating, api.create(by, source)).await?);
        Ok(())
    }

    async fn replace<S: SourceKind>(
        &self,
        index: &Index<S, SourceRow>,
        by: &PostParams,
        source: &S,
    ) -> Result<(), CallError> {
        let (api, name): (Api<S>, String) = (self.api(), source.name_any());
        let changing = format!("changing {} {name}", S::KIND);
        index.written(&call(changing, api.replace(&name, by, source)).await?);
        Ok(())
    }

    fn wrote(&self, written: &Kustomization, what: &str) {
        let name = written.name_any();
        info!(
            kustomization = name,
            source = written.spec.source_ref.name,
            "{what} a Kustomization"
        );
        self.memory.written(&name, &KustomizationRow::of(written));
        self.kustomizations.written(written);
    }
}

/// Two rows may need the same source: it is written once.
fn deduplicate_source_writes(mut plan: Plan, sources: &mut BTreeSet<String>) -> Plan {
    plan.writes.retain(|write| match write {
        Write::CreateSource(source) | Write::ReplaceSource(source) => {
            sources.insert(source.name().to_owned())
        }
        Write::Create(_)
        | Write::Replace(_)
        | Write::PutPlanRun(_)
        | Write::ControlPlanRun { .. }
        | Write::Ask { .. }
        | Write::Delete { .. } => true,
    });
    plan
}

/// The state of a row whose write failed.
fn refused(state: SyncState, error: &CallError) -> SyncState {
    let unknown_field = error.code() == Some(BAD_REQUEST);
    let ours = error.is_invalid() || error.is_refused_credential() || unknown_field;
    let mut message = error_chain(error);
    if unknown_field {
        message += OLDER;
    }
    let phase = match state.state {
        SyncPhase::Withdrawing => SyncPhase::Withdrawing,
        _ if ours => SyncPhase::Failed,
        _ => SyncPhase::Updating,
    };
    SyncState {
        state: phase,
        class: Some(if ours {
            FailureClass::Unit
        } else {
            FailureClass::Infra
        }),
        terminal: false,
        reason: Some(Reason::WriteFailed.into()),
        message: Some(
            muster_api::conditions::bounded(&message, muster_api::schema::MAX_MESSAGE).into_owned(),
        ),
        ..state
    }
}
