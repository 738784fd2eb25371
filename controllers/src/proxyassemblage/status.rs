//! The status of a proxy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    Assemblage, ProxyAssemblage, Shared,
    assemblage::{Agent, AssemblageStatus, SyncState},
    cluster::NotReady,
    conditions::{AGENT_OUTDATED, Conditions, REACHABLE, Status, bounded, find},
    reasons::{EventReason, ObjectReason, Reason},
};

use super::{Mirroring, ProxyError, copy, mirror::Proxy, mirror::unclaimed_rows, values::Rows, versions};
use crate::runtime::Api;
use crate::{
    expand::{status as expanded, view::Away},
    runtime::{CallError, Event, call::error_chain},
};

/// The maximum length of a reconcile request that is reported back.
const MAX_REQUEST: usize = 256;

impl Mirroring {
    /// Writes the cluster's report to the status. Returns whether something was written.
    pub(super) async fn report(
        &self,
        proxy: &ProxyAssemblage,
        view: &Proxy<'_>,
        rows: &Rows,
        live: Option<&Assemblage>,
        foreign: Option<&str>,
    ) -> Result<bool, ProxyError> {
        if let Some(origin) = foreign {
            return self.report_conflict(proxy, origin).await;
        }
        let unclaimed = live.map(|live| unclaimed_rows(view, live)).unwrap_or_default();
        let reported = copy::states(&proxy.spec.syncs, &rows.refused, &unclaimed, live);
        let conditions = expanded::summary_conditions(&reported).with(
            REACHABLE,
            Status::True,
            ObjectReason::Answering,
            "",
        );
        let handled = live
            .and_then(|live| live.status.as_ref())
            .and_then(|status| status.last_handled_reconcile_at.as_deref());
        let agent = live.and_then(super::agent).map(copy::mirrored_agent);
        let conditions = match live.and_then(|live| outdated(live, agent.as_ref())) {
            Some(message) => conditions.with(AGENT_OUTDATED, Status::True, ObjectReason::OlderAgent, message),
            None => conditions,
        };
        let status = AssemblageStatus {
            agent,
            last_handled_reconcile_at: handled.map(|at| bounded(at, MAX_REQUEST).into_owned()),
            ..self.status(proxy, reported, &conditions)
        };
        self.write(proxy, &status).await
    }

    /// An Assemblage of another origin has the name.
    async fn report_conflict(&self, proxy: &ProxyAssemblage, origin: &str) -> Result<bool, ProxyError> {
        let origin = if origin.is_empty() {
            "no proxy (it has no origin)"
        } else {
            origin
        };
        let message = format!(
            "the Assemblage of this name in the cluster belongs to {origin}; nothing is written to it; to take it over, annotate this object with fleet.muster.dev/adopt=<that origin>"
        );
        let states = held(proxy).into_iter().map(|mut state| {
            state.reason = Some(Reason::NameConflict.into());
            state.message = Some(bounded(&message, muster_api::schema::MAX_MESSAGE).into_owned());
            state
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
        let is_written = self
            .write(proxy, &self.status(proxy, states.collect(), &conditions))
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
        Ok(is_written)
    }

    /// The cluster cannot be worked on: its last report stays.
    pub(super) async fn report_away(&self, proxy: &ProxyAssemblage, away: &Away) -> Result<bool, ProxyError> {
        let reachable = match away.reason.parse() {
            Ok(Reason::Unreachable | Reason::CredentialsRejected) => Status::False,
            Ok(Reason::KindMissing) => Status::True,
            // A cluster that is paused, being deleted, or without a usable kubeconfig gets no calls.
            Ok(_) | Err(_) => Status::Unknown,
        };
        self.report_unknown(proxy, reachable, &away.reason, &away.message)
            .await
    }

    /// A call failed: the cluster's last report stays.
    pub(super) async fn report_failure(
        &self,
        proxy: &ProxyAssemblage,
        error: &CallError,
    ) -> Result<bool, ProxyError> {
        let message = error_chain(error);
        if error.is_unreachable() {
            return self
                .report_unknown(proxy, Status::False, NotReady::Unreachable.as_str(), &message)
                .await;
        }
        self.report_unknown(proxy, Status::True, Reason::WriteFailed.as_str(), &message)
            .await
    }

    async fn report_unknown(
        &self,
        proxy: &ProxyAssemblage,
        reachable: Status,
        reason: &str,
        message: &str,
    ) -> Result<bool, ProxyError> {
        let answering = reachable == Status::True;
        let (word, detail) = if answering {
            (ObjectReason::Answering.as_str(), "")
        } else {
            (reason, message)
        };
        let conditions =
            Conditions::ready(Status::Unknown, reason, message).with(REACHABLE, reachable, word, detail);
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
            agent: proxy.status.as_ref().and_then(|status| status.agent.clone()),
            ..self.status(proxy, held(proxy), &conditions)
        };
        self.write(proxy, &status).await
    }

    fn status(
        &self,
        proxy: &ProxyAssemblage,
        states: Vec<Shared<SyncState>>,
        conditions: &Conditions,
    ) -> AssemblageStatus {
        let old = proxy.status.as_ref();
        let handled = old.and_then(|old| old.last_handled_reconcile_at.as_ref());
        expanded::assemblage_status(
            states,
            conditions,
            old,
            proxy.metadata.generation.unwrap_or_default(),
            handled,
            self.context.clock.now(),
        )
    }

    async fn write(&self, proxy: &ProxyAssemblage, status: &AssemblageStatus) -> Result<bool, ProxyError> {
        let api: Api<ProxyAssemblage> = Api::namespaced(self.context.client.clone(), &self.context.namespace);
        // The semaphore is never closed, so a permit always arrives.
        let _turn = self.writers.acquire().await.ok();
        let old = proxy.status.as_ref();
        Ok(self.reports.write(&api, proxy, old, status).await?)
    }
}

/// The message about an agent that is older than this controller. One that has reported nothing at all may be starting.
fn outdated(live: &Assemblage, agent: Option<&Agent>) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    live.status.as_ref()?;
    let problem = match agent {
        None => "its agent reports no version".to_owned(),
        Some(agent) if versions::is_older(&agent.version, own) => {
            format!("its agent has version {}", agent.version)
        }
        Some(_) => return None,
    };
    Some(format!(
        "{problem}, this controller is {own}: rows with features that it does not support are not assigned; next: upgrade it (muster check)"
    ))
}

/// The states as last reported; rows without a report are marked as such.
fn held(proxy: &ProxyAssemblage) -> Vec<Shared<SyncState>> {
    let reported = proxy
        .status
        .as_ref()
        .map(|status| status.syncs.clone())
        .unwrap_or_default();
    copy::completed(reported, &proxy.spec.syncs)
}
