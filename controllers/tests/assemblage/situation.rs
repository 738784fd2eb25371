//! Situations of a row: the row and its live objects, for tables of decisions.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, FieldsV1, ManagedFieldsEntry, OwnerReference, Time,
};
use kube::ResourceExt;
use muster_api::{
    assemblage::{SyncRow, SyncState, Withdraw},
    flux::{Artifact, GitRepository, GitRepositoryStatus, Kustomization, KustomizationStatus},
    sync::{GitSource, GitVersion, Package, Source},
};
use muster_controllers::expand::{
    decide,
    derive::{Derived, ExpansionTarget, derive},
    flux_object::FluxObject,
    observed::{KustomizationRow, SourceRow},
    plan::{Plan, Write},
    view::{DesiredRow, Live, Scope, View},
};
use serde_json::json;

pub(crate) const OLD: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
pub(crate) const NEW: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
pub(crate) const US: &str = "muster-agent";

pub(crate) fn row(commit: &str, token: u64) -> SyncRow {
    let git = GitSource {
        url: "https://git.example/web".to_owned(),
        version: GitVersion {
            tag: Some("v1".to_owned()),
            commit: None,
        },
        secret_ref: None,
        proxy_secret_ref: None,
        verify: None,
    };
    SyncRow {
        name: "web".to_owned(),
        source: Some(Source::Git(git)),
        commit: Some(commit.to_owned()),
        digest: Some(format!("sha256:{commit}")),
        token: Some(token),
        ..SyncRow::default()
    }
}

pub(crate) fn derived(row: &SyncRow) -> Derived {
    let package = Package {
        substitute: BTreeMap::from([("REGION".to_owned(), "eu".to_owned())]),
        ..Package::default()
    };
    derived_with(row, &package)
}

pub(crate) fn expansion_target() -> ExpansionTarget {
    ExpansionTarget {
        namespace: "muster-system".to_owned(),
        assemblage: "eu-1".to_owned(),
        owner: OwnerReference {
            api_version: "fleet.muster.dev/v1alpha1".to_owned(),
            kind: "Assemblage".to_owned(),
            name: "eu-1".to_owned(),
            uid: "u-1".to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        },
        kube_config: None,
    }
}

pub(crate) fn derived_with(row: &SyncRow, package: &Package) -> Derived {
    let source = row.source.as_ref().unwrap();
    derive(
        &expansion_target(),
        row,
        source,
        row.commit.as_deref().unwrap(),
        package,
    )
}

pub(crate) fn fields(manager: &str, fields: serde_json::Value) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some("Update".to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        ..ManagedFieldsEntry::default()
    }
}

pub(crate) fn condition(status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(1),
        last_transition_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
    }
}

/// The Kustomization as read from an API server, applied.
pub(crate) fn live(derived: &Derived) -> Kustomization {
    let mut live = derived.kustomization.clone();
    live.metadata.uid = Some("k-1".to_owned());
    live.metadata.resource_version = Some("7".to_owned());
    live.metadata.generation = Some(1);
    live.metadata.managed_fields = Some(vec![fields(
        US,
        json!({"f:spec": {"f:path": {}, "f:sourceRef": {}}}),
    )]);
    live.status = Some(KustomizationStatus {
        observed_generation: Some(1),
        conditions: vec![condition("True", "ReconciliationSucceeded", "Applied revision")],
        last_applied_revision: Some(format!("v1@sha1:{}", derived.commit)),
        ..KustomizationStatus::default()
    });
    live
}

pub(crate) fn live_source(derived: &Derived) -> GitRepository {
    let FluxObject::Git(source) = &derived.source else {
        panic!("muster reads it");
    };
    let mut live = (**source).clone();
    live.metadata.uid = Some("s-1".to_owned());
    live.metadata.generation = Some(1);
    live.metadata.managed_fields = Some(vec![fields(US, json!({"f:spec": {"f:url": {}}}))]);
    live.status = Some(GitRepositoryStatus {
        observed_generation: Some(1),
        conditions: vec![condition("True", "Succeeded", "stored artifact")],
        artifact: Some(Artifact {
            revision: format!("sha1:{}", derived.commit),
            digest: None,
            size: None,
            last_update_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
            path: String::new(),
            url: String::new(),
        }),
        ..GitRepositoryStatus::default()
    });
    live
}

fn scope() -> Scope {
    Scope {
        kind: "Assemblage".to_owned(),
        assemblage: "eu-1".to_owned(),
        manager: US.to_owned(),
        away: None,
        flux_at: None,
    }
}

/// One situation: the live objects of a row.
pub(crate) struct Case {
    pub row: SyncRow,
    pub wish: DesiredRow,
    pub kustomization: Option<Kustomization>,
    pub source: Option<GitRepository>,
    pub scope: Scope,
    pub said: Option<SyncState>,
}

impl Case {
    pub(crate) fn carry(row: SyncRow) -> Self {
        let wish = DesiredRow::Carry(Box::new(derived(&row)));
        Self {
            row,
            wish,
            kustomization: None,
            source: None,
            scope: scope(),
            said: None,
        }
    }

    pub(crate) fn withdraw(how: Withdraw) -> Self {
        Self {
            row: SyncRow::withdrawal("web", 9, how),
            wish: DesiredRow::Withdraw(how),
            ..Self::carry(row(OLD, 1))
        }
    }

    pub(crate) fn with(mut self, kustomization: Kustomization) -> Self {
        self.kustomization = Some(kustomization);
        self
    }

    pub(crate) fn source(mut self, source: GitRepository) -> Self {
        self.source = Some(source);
        self
    }

    pub(crate) fn plan(self) -> Plan {
        let kustomization = self.kustomization.map_or(Live::Absent, |live| {
            Live::Differs(KustomizationRow::of(&live), Box::new(live))
        });
        let source = self.source.map_or(Live::Absent, |live| {
            Live::Differs(SourceRow::of(&live), Box::new(live.into()))
        });
        decide::decide_row(
            &self.scope,
            &View {
                row: &self.row,
                desired: &self.wish,
                reported: self.said.as_ref(),
                kustomization,
                source,
                was_away: false,
            },
        )
    }
}

/// The plan in one line: the writes, the state, the reason.
fn line(plan: &Plan) -> String {
    let writes: Vec<String> = plan
        .writes
        .iter()
        .map(|write| match write {
            Write::CreateSource(_) => "create source".to_owned(),
            Write::ReplaceSource(_) => "replace source".to_owned(),
            Write::Create(_) => "create".to_owned(),
            Write::Replace(next) => format!("replace at {}", next.resource_version().unwrap_or_default()),
            Write::PutPlanRun(_) => "put plan run".to_owned(),
            Write::ControlPlanRun { name, control } => format!("control {name} by {}", control.id),
            Write::Ask { uid, request, .. } => format!("ask {uid} for {request}"),
            Write::Delete {
                uid,
                resource_version,
                ..
            } => format!("delete {uid} at {resource_version}"),
        })
        .collect();
    format!(
        "[{}] {:?} {}",
        writes.join(", "),
        plan.state.state,
        plan.state.reason.as_deref().unwrap_or_default()
    )
}

#[track_caller]
pub(crate) fn check(case: Case, expect: &str) -> Plan {
    let plan = case.plan();
    assert_eq!(line(&plan), expect, "{:?}", plan.state);
    plan
}
