//! The status of a proxy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    Assemblage, ProxyAssemblage,
    assemblage::{AssemblageStatus, SyncState},
    cluster::NotReady,
    conditions::{Conditions, REACHABLE, Status, bounded, find},
    labels::manager,
    reasons::{EventReason, ObjectReason, Reason},
};

use super::{Mirroring, ProxyError, copy, mirror::Proxy, mirror::unclaimed_rows, values::Rows};
use crate::runtime::Api;
use crate::{
    expand::{decide::Away, status as expanded},
    runtime::{CallError, Event, call::explain, status::patch_if_changed},
};

/// The longest request to reconcile that is echoed.
const MAX_REQUEST: usize = 256;

impl Mirroring {
    /// What the cluster reports.
    pub(super) async fn report(
        &self,
        proxy: &ProxyAssemblage,
        view: &Proxy<'_>,
        rows: &Rows,
        live: Option<&Assemblage>,
        foreign: Option<&str>,
    ) -> Result<(), ProxyError> {
        if let Some(origin) = foreign {
            return self.report_conflict(proxy, origin).await;
        }
        let unclaimed = live.map(|live| unclaimed_rows(view, live)).unwrap_or_default();
        let reported = copy::states(&proxy.spec.syncs, &rows.refused, &unclaimed, live);
        let conditions =
            expanded::conditions(&reported).with(REACHABLE, Status::True, ObjectReason::Answering, "");
        let handled = live
            .and_then(|live| live.status.as_ref())
            .and_then(|status| status.last_handled_reconcile_at.as_deref());
        let status = AssemblageStatus {
            last_handled_reconcile_at: handled.map(|at| bounded(at, MAX_REQUEST).into_owned()),
            ..self.status(proxy, reported, &conditions)
        };
        self.write(proxy, &status).await
    }

    /// Another origin's Assemblage has the name.
    async fn report_conflict(&self, proxy: &ProxyAssemblage, origin: &str) -> Result<(), ProxyError> {
        let origin = if origin.is_empty() {
            "nobody's proxy (it has no origin)"
        } else {
            origin
        };
        let message = format!(
            "the Assemblage of this name in the cluster belongs to {origin}; nothing is written to it; to take it over, annotate this object with fleet.muster.dev/adopt=<that origin>"
        );
        let states = held(proxy).into_iter().map(|state| SyncState {
            reason: Some(Reason::NameConflict.into()),
            message: Some(bounded(&message, muster_api::schema::MAX_MESSAGE).into_owned()),
            ..state
        });
        let conditions = Conditions::ready(Status::False, Reason::NameConflict, &*message).with(
            REACHABLE,
            Status::True,
            ObjectReason::Answering,
            "",
        );
        let before = proxy
            .status
            .as_ref()
            .and_then(|status| find(&status.conditions, "Ready"))
            .map(|ready| ready.reason.as_str());
        let is_new = before != Some(Reason::NameConflict.as_str());
        self.write(proxy, &self.status(proxy, states.collect(), &conditions))
            .await?;
        if is_new {
            self.context
                .events
                .publish(
                    proxy,
                    Event::warning(EventReason::NameConflict, "Mirror", message),
                )
                .await;
        }
        Ok(())
    }

    /// The cluster cannot be worked on: what it reported stays.
    pub(super) async fn report_away(&self, proxy: &ProxyAssemblage, away: &Away) -> Result<(), ProxyError> {
        let reachable = match away.reason.parse() {
            Ok(Reason::Unreachable | Reason::CredentialsRejected) => Status::False,
            Ok(Reason::KindMissing) => Status::True,
            // Nothing is asked of a cluster that is paused, going, or without a usable kubeconfig.
            Ok(_) | Err(_) => Status::Unknown,
        };
        self.report_unknown(proxy, reachable, &away.reason, &away.message)
            .await
    }

    /// A call failed: what the cluster reported stays.
    pub(super) async fn report_failure(
        &self,
        proxy: &ProxyAssemblage,
        error: &CallError,
    ) -> Result<(), ProxyError> {
        let message = explain(error);
        if error.is_unreachable() {
            return self
                .report_unknown(proxy, Status::False, NotReady::Unreachable.as_str(), &message)
                .await;
        }
        self.report_unknown(proxy, Status::True, ObjectReason::WriteFailed.as_str(), &message)
            .await
    }

    async fn report_unknown(
        &self,
        proxy: &ProxyAssemblage,
        reachable: Status,
        reason: &str,
        message: &str,
    ) -> Result<(), ProxyError> {
        let answering = reachable == Status::True;
        let (word, said) = if answering {
            (ObjectReason::Answering.as_str(), "")
        } else {
            (reason, message)
        };
        let conditions =
            Conditions::ready(Status::Unknown, reason, message).with(REACHABLE, reachable, word, said);
        let row = proxy
            .spec
            .cluster_ref
            .as_ref()
            .and_then(|cluster| self.context.registry.get(&cluster.name));
        let last_contact = row
            .and_then(|row| row.last_contact)
            .filter(|_| reachable == Status::False)
            .map(Time);
        let status = AssemblageStatus {
            last_contact,
            ..self.status(proxy, held(proxy), &conditions)
        };
        self.write(proxy, &status).await
    }

    fn status(
        &self,
        proxy: &ProxyAssemblage,
        states: Vec<SyncState>,
        conditions: &Conditions,
    ) -> AssemblageStatus {
        let old = proxy.status.as_ref();
        let handled = old.and_then(|old| old.last_handled_reconcile_at.as_ref());
        expanded::status(
            states,
            conditions,
            old,
            proxy.metadata.generation.unwrap_or_default(),
            handled,
            self.context.clock.now(),
        )
    }

    async fn write(&self, proxy: &ProxyAssemblage, status: &AssemblageStatus) -> Result<(), ProxyError> {
        let api: Api<ProxyAssemblage> = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        // The semaphore is never closed, so there always comes a permit.
        let _turn = self.writers.acquire().await.ok();
        patch_if_changed(&api, proxy, proxy.status.as_ref(), status, manager::CONTROLLER).await?;
        Ok(())
    }
}

/// The states as last reported; of rows that were never reported, that they were not.
fn held(proxy: &ProxyAssemblage) -> Vec<SyncState> {
    let reported = proxy
        .status
        .as_ref()
        .map(|status| status.syncs.clone())
        .unwrap_or_default();
    copy::completed(reported, &proxy.spec.syncs)
}
