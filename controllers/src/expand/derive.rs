//! The objects of a row: one GitRepository that fetches its commit, and one Kustomization that applies it.
//!
//! Pure. Every field with a default in the CRDs is set, so that the live spec of an unchanged object equals the derived
//! one.
//!
//! Invariant: names are functions of full identities (`muster_api::names`); a source's name is derived from all of its
//! spec, so its spec never changes. Invariant: a Kustomization has `deletionPolicy: Orphan` while its row exists:
//! however it gets deleted, what it installed stays.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use muster_api::{
    assemblage::SyncRow,
    flux::{
        DeletionPolicy, GitRepository, GitRepositoryRef, GitRepositorySpec, HealthCheckExpressions,
        KubeConfigReference, Kustomization, KustomizationSpec, LocalObjectReference, ObjectReference,
        OciRepository, PostBuild, SourceReference,
    },
    labels::annotation,
    names,
    plan::{PlanRun, PlanRunSpec},
    sync::{FluxSource, GitSource, HealthCheck, HealthExpression, HealthTable, Package, PackagePlan, Source},
};
use muster_health::table::{self, Entry};
use serde_json::Value;

use super::{
    flux_object::FluxObject,
    labels,
    print::{Print, kustomization_print, source_object_print},
};

/// The interval of a source: a commit does not change, so this only repairs a lost artifact.
pub const SOURCE_INTERVAL: &str = "24h";
/// The timeout of one fetch: Flux's default.
const SOURCE_TIMEOUT: &str = "60s";

/// The target of the expansion of one assemblage.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpansionTarget {
    /// The namespace of the assemblage and of the derived objects.
    pub namespace: String,
    /// The assemblage's name.
    pub assemblage: String,
    /// The assemblage as the owner of its Kustomizations.
    pub owner: OwnerReference,
    /// The kubeconfig of the target cluster, if it is not this one.
    pub kube_config: Option<KubeConfigReference>,
}

/// The objects derived from a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The pinned commit.
    pub commit: String,
    /// The source of that commit.
    pub source: FluxObject,
    /// The fingerprint of the source.
    pub source_print: Print,
    /// The Kustomization that applies it.
    pub kustomization: Kustomization,
    /// The fingerprint of the Kustomization.
    pub kustomization_print: Print,
    /// The plan by which it is applied, if the row has one: created before the Kustomization refers to it.
    pub plan_run: Option<PlanRun>,
}

/// The commit of a row: the resolved one, or the one that its version names. A tag alone is not pinned.
pub fn commit(row: &SyncRow, source: &Source) -> Option<String> {
    row.commit.clone().or_else(|| source.version().commit)
}

/// Derives the objects of a row. `package` is the row's with all variables replaced.
pub fn derive(
    place: &ExpansionTarget,
    row: &SyncRow,
    source: &Source,
    commit: &str,
    package: &Package,
) -> Derived {
    let source = flux_object(place, source, commit);
    let name = names::kustomization(&place.namespace, &place.assemblage, &row.name);
    let plan_run = plan_run_spec(row, package).map(|spec| plan_run(place, &name, spec));
    let kustomization = Kustomization {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(place.namespace.clone()),
            labels: Some(labels::of_kustomization(&place.assemblage)),
            annotations: Some(annotations(row, package)).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![place.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: kustomization_spec(place, &source, package),
        status: None,
    };
    Derived {
        commit: commit.to_owned(),
        source_print: source_object_print(&source),
        source,
        kustomization_print: kustomization_print(&kustomization),
        kustomization,
        plan_run,
    }
}

fn flux_object(place: &ExpansionTarget, source: &Source, commit: &str) -> FluxObject {
    let metadata = ObjectMeta {
        name: Some(names::source_of(source, commit)),
        namespace: Some(place.namespace.clone()),
        labels: Some(labels::of_source()),
        ..ObjectMeta::default()
    };
    match source {
        Source::Git(git) => FluxObject::from(GitRepository {
            metadata,
            spec: source_spec(git, commit),
            status: None,
        }),
        Source::Flux(flux) => handed_through(metadata, flux, Some(commit), SOURCE_INTERVAL),
    }
}

/// The Flux source object, at a pinned version or at the requested one.
pub fn handed_through(
    metadata: ObjectMeta,
    source: &FluxSource,
    pinned: Option<&str>,
    interval: &str,
) -> FluxObject {
    let mut spec = source.flux_spec(pinned);
    spec.insert("interval".to_owned(), Value::from(interval));
    spec.insert("timeout".to_owned(), Value::from(SOURCE_TIMEOUT));
    let spec = Value::Object(spec);
    // Both types have the same fields: neither conversion can fail.
    match source {
        FluxSource::GitRepository(_) => FluxObject::from(GitRepository {
            metadata,
            spec: serde_json::from_value(spec).unwrap_or_default(),
            status: None,
        }),
        FluxSource::OciRepository(_) => FluxObject::from(OciRepository {
            metadata,
            spec: serde_json::from_value(spec).unwrap_or_default(),
            status: None,
        }),
    }
}

fn source_spec(git: &GitSource, commit: &str) -> GitRepositorySpec {
    let reference = |name: Option<&String>| name.map(|name| LocalObjectReference { name: name.clone() });
    GitRepositorySpec {
        url: git.url.clone(),
        interval: SOURCE_INTERVAL.to_owned(),
        reference: Some(GitRepositoryRef {
            commit: Some(commit.to_owned()),
            ..GitRepositoryRef::default()
        }),
        secret_ref: reference(git.secret_ref.as_ref().map(|secret| &secret.name)),
        proxy_secret_ref: reference(git.proxy_secret_ref.as_ref().map(|secret| &secret.name)),
        timeout: Some(SOURCE_TIMEOUT.to_owned()),
        ..GitRepositorySpec::default()
    }
}

/// The package fields that the built-in sync reads and Flux does not know.
fn annotations(row: &SyncRow, package: &Package) -> BTreeMap<String, String> {
    let settle = package.settle.map(|settle| settle.to_string());
    let assume = package.assume.map(|assume| assume.as_str().to_owned());
    let plan = plan_run_spec(row, package).map(|spec| spec.digest());
    [
        (annotation::SETTLE, settle),
        (annotation::ASSUME, assume),
        (annotation::PLAN, plan),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect()
}

/// The PlanRun of a Kustomization.
fn plan_run(place: &ExpansionTarget, kustomization: &str, spec: PlanRunSpec) -> PlanRun {
    PlanRun {
        metadata: ObjectMeta {
            name: Some(kustomization.to_owned()),
            namespace: Some(place.namespace.clone()),
            labels: Some(labels::of_kustomization(&place.assemblage)),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// What drives the plan of a row, if it has one.
fn plan_run_spec(row: &SyncRow, package: &Package) -> Option<PlanRunSpec> {
    let PackagePlan { file, keep, deadline } = package.plan.as_ref()?;
    Some(PlanRunSpec {
        file: file.clone(),
        keep: *keep,
        deadline: *deadline,
        attempt: row.attempt,
        control: row.plan_control.clone(),
    })
}

fn kustomization_spec(place: &ExpansionTarget, source: &FluxObject, package: &Package) -> KustomizationSpec {
    // Without `..`: a new field of a package must be handled here.
    let Package {
        path,
        substitute,
        target_namespace,
        prune,
        wait,
        timeout,
        // In annotations: the kind has no fields for them.
        settle: _,
        assume: _,
        interval,
        retry_interval,
        force,
        health_checks,
        health_expressions,
        health_table,
        // In the PlanRun, and its digest in an annotation.
        plan: _,
        flux,
    } = package;
    KustomizationSpec {
        other: flux.as_ref().map(|flux| flux.fields()).unwrap_or_default(),
        source_ref: SourceReference {
            kind: source.kind().to_owned(),
            name: source.name().to_owned(),
            ..SourceReference::default()
        },
        path: Some(path.clone()),
        prune: *prune,
        interval: interval.to_string(),
        retry_interval: Some(retry_interval.to_string()),
        timeout: Some(timeout.to_string()),
        // Flux ignores `healthChecks` if `wait` is set; in a package, they replace the check of all objects.
        wait: Some(*wait && health_checks.is_empty()),
        health_checks: health_checks.iter().map(health_check).collect(),
        health_check_exprs: health_check_exprs(health_expressions, *health_table),
        target_namespace: target_namespace.clone(),
        post_build: (!substitute.is_empty()).then(|| PostBuild {
            substitute: substitute.clone(),
            ..PostBuild::default()
        }),
        kube_config: place.kube_config.clone(),
        force: Some(*force),
        deletion_policy: Some(DeletionPolicy::Orphan),
        ..KustomizationSpec::default()
    }
}

/// The package's own expressions, and those of the table for all other kinds.
fn health_check_exprs(own: &[HealthExpression], table: Option<HealthTable>) -> Vec<HealthCheckExpressions> {
    let is_own = |entry: &Entry| {
        own.iter()
            .any(|of| of.group_kind() == (entry.group(), entry.kind))
    };
    let of_table = table.map_or(&[][..], table_entries).iter();
    let of_table = of_table.filter(|entry| !is_own(entry)).map(of_entry);
    own.iter().map(expressions).chain(of_table).collect()
}

/// The table of a version.
pub const fn table_entries(table: HealthTable) -> &'static [Entry] {
    match table {
        HealthTable::V1 => table::V1,
    }
}

fn of_entry(entry: &Entry) -> HealthCheckExpressions {
    HealthCheckExpressions {
        api_version: entry.api_version.to_owned(),
        kind: entry.kind.to_owned(),
        current: entry.current.to_owned(),
        in_progress: entry.in_progress.map(str::to_owned),
        failed: entry.failed.map(str::to_owned),
        ..HealthCheckExpressions::default()
    }
}

fn expressions(expression: &HealthExpression) -> HealthCheckExpressions {
    let HealthExpression {
        api_version,
        kind,
        current,
        in_progress,
        failed,
    } = expression;
    HealthCheckExpressions {
        api_version: api_version.clone(),
        kind: kind.clone(),
        current: current.clone(),
        in_progress: in_progress.clone(),
        failed: failed.clone(),
        ..HealthCheckExpressions::default()
    }
}

fn health_check(check: &HealthCheck) -> ObjectReference {
    let HealthCheck {
        api_version,
        kind,
        name,
        namespace,
    } = check;
    ObjectReference {
        api_version: Some(api_version.clone()),
        kind: kind.clone(),
        name: name.clone(),
        namespace: namespace.clone(),
    }
}
