//! The spec, parsed once: the settings, or the names of unsupported fields. Pure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_api::{
    Duration as GoDuration,
    flux::{
        DeletionPolicy, DependencyReference, HealthCheckExpressions, KustomizationSpec, ObjectReference,
        SubstituteReference,
    },
    labels::annotation,
    sync::{Assume, SETTLE},
};
use muster_health::Expressions;

/// The minimum time for applying and for health, each, if the spec has no timeout; Flux's.
const TIMEOUT_MIN: Duration = Duration::from_secs(30);

/// How much less than the interval the timeout is if the spec has none; Flux's.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);

/// A supported spec, parsed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    pub path: String,
    pub prune: bool,
    pub force: bool,
    pub wait: bool,
    pub target_namespace: Option<String>,
    pub interval: Duration,
    pub retry_interval: Duration,
    pub timeout: Duration,
    /// How long an object must be healthy if its controller gives no evidence.
    pub settle: Duration,
    /// Whether such an object may be assumed healthy.
    pub assumes: bool,
    pub health_checks: Vec<ObjectReference>,
    pub expressions: ByKind,
    pub depends_on: Vec<DependencyReference>,
    pub substitute: BTreeMap<String, String>,
    pub substitute_from: Vec<SubstituteReference>,
    pub remote: Option<RemoteTarget>,
    pub deletion_policy: DeletionPolicy,
    /// The digest of the spec of the PlanRun that it is applied by, if it has a plan.
    pub plan: Option<String>,
}

impl Settings {
    /// Whether the health of any object is waited for.
    pub(super) fn checks_health(&self) -> bool {
        self.wait || !self.health_checks.is_empty()
    }
}

/// The CEL expressions that judge objects, by group and kind.
pub(super) type ByKind = BTreeMap<(String, String), Arc<Expressions>>;

/// The cluster of a Kustomization that is applied remotely.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RemoteTarget {
    pub secret: String,
    pub key: Option<String>,
}

/// Why a spec is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnsupportedSpec {
    pub reason: &'static str,
    pub message: String,
}

/// Parses a spec of a Kustomization in `namespace`, and its annotations.
pub(super) fn parse_settings(
    spec: &KustomizationSpec,
    annotations: &BTreeMap<String, String>,
    namespace: &str,
) -> Result<Settings, UnsupportedSpec> {
    let unsupported = unsupported(spec, namespace);
    if !unsupported.is_empty() {
        return Err(UnsupportedSpec {
            reason: "Unsupported",
            message: format!(
                "{} cannot be used with the built-in sync; remove it, or run Flux in this cluster",
                unsupported.join(", ")
            ),
        });
    }
    let interval = duration("spec.interval", &spec.interval)?;
    let optional =
        |field: &str, text: &Option<String>| text.as_deref().map(|text| duration(field, text)).transpose();
    let post_build = spec.post_build.clone().unwrap_or_default();
    let timeout = optional("spec.timeout", &spec.timeout)?
        .unwrap_or_else(|| interval.saturating_sub(TIMEOUT_MARGIN).max(TIMEOUT_MIN));
    Ok(Settings {
        path: path(spec),
        prune: spec.prune,
        force: spec.force.unwrap_or_default(),
        wait: spec.wait.unwrap_or_default(),
        target_namespace: spec.target_namespace.clone(),
        interval,
        retry_interval: optional("spec.retryInterval", &spec.retry_interval)?.unwrap_or(interval),
        timeout,
        settle: settle(annotations, timeout)?,
        assumes: assumes(annotations)?,
        health_checks: spec.health_checks.clone(),
        expressions: expressions(&spec.health_check_exprs)?,
        depends_on: spec.depends_on.clone(),
        substitute: post_build.substitute,
        substitute_from: post_build.substitute_from,
        remote: remote(spec),
        deletion_policy: spec.deletion_policy.unwrap_or_default(),
        plan: annotations.get(annotation::PLAN).cloned(),
    })
}

/// Parses the expressions of each kind.
fn expressions(each: &[HealthCheckExpressions]) -> Result<ByKind, UnsupportedSpec> {
    let mut by_kind = ByKind::new();
    for (index, of) in each.iter().enumerate() {
        let refusal = |message: String| UnsupportedSpec {
            reason: "InvalidSpec",
            message: format!(
                "spec.healthCheckExprs[{index}]: {} {}: {message}",
                of.api_version, of.kind
            ),
        };
        let parsed = Expressions::parse(&of.current, of.in_progress.as_deref(), of.failed.as_deref());
        let parsed = parsed.map_err(|error| refusal(error.to_string()))?;
        let group = of.api_version.split_once('/').map_or("", |(group, _)| group);
        if by_kind
            .insert((group.to_owned(), of.kind.clone()), Arc::new(parsed))
            .is_some()
        {
            return Err(refusal("the kind has two sets of expressions".to_owned()));
        }
    }
    Ok(by_kind)
}

/// How long an object must be healthy if its controller gives no evidence.
fn settle(annotations: &BTreeMap<String, String>, timeout: Duration) -> Result<Duration, UnsupportedSpec> {
    let Some(text) = annotations.get(annotation::SETTLE) else {
        return Ok(SETTLE.to_std().min(timeout / 2));
    };
    let field = format!("metadata.annotations[{}]", annotation::SETTLE);
    let settle = duration(&field, text)?;
    if settle < timeout {
        return Ok(settle);
    }
    Err(UnsupportedSpec {
        reason: "InvalidSpec",
        message: format!("{field}: {text} is not shorter than spec.timeout"),
    })
}

/// Whether such an object may be assumed healthy.
fn assumes(annotations: &BTreeMap<String, String>) -> Result<bool, UnsupportedSpec> {
    match annotations.get(annotation::ASSUME).map(String::as_str) {
        None => Ok(true),
        Some(word) if word == Assume::Never.as_str() => Ok(false),
        Some(word) => Err(UnsupportedSpec {
            reason: "InvalidSpec",
            message: format!(
                "metadata.annotations[{}]: {word:?} is not Never",
                annotation::ASSUME
            ),
        }),
    }
}

/// The path below the root of the source. As in Flux, a leading slash has no meaning.
fn path(spec: &KustomizationSpec) -> String {
    let path = spec.path.as_deref().unwrap_or_default();
    path.trim_start_matches('/').to_owned()
}

/// The cluster that a spec names, if it is a remote one.
pub(super) fn remote(spec: &KustomizationSpec) -> Option<RemoteTarget> {
    let secret = spec.kube_config.as_ref()?.secret_ref.as_ref()?;
    Some(RemoteTarget {
        secret: secret.name.clone(),
        key: secret.key.clone(),
    })
}

/// The paths of the fields that are set and not supported.
fn unsupported(spec: &KustomizationSpec, namespace: &str) -> Vec<String> {
    let mut fields: Vec<String> = spec.other.keys().map(|field| format!("spec.{field}")).collect();
    let source = &spec.source_ref;
    if source.kind != "GitRepository" {
        fields.push(format!("spec.sourceRef.kind {:?}", source.kind));
    }
    if source
        .namespace
        .as_deref()
        .is_some_and(|other| other != namespace)
    {
        fields.push("spec.sourceRef.namespace other than its own".to_owned());
    }
    for expressions in &spec.health_check_exprs {
        fields.extend(
            expressions
                .other
                .keys()
                .map(|field| format!("spec.healthCheckExprs.{field}")),
        );
    }
    for dependency in &spec.depends_on {
        fields.extend(
            dependency
                .other
                .keys()
                .map(|field| format!("spec.dependsOn.{field}")),
        );
        if dependency
            .namespace
            .as_deref()
            .is_some_and(|other| other != namespace)
        {
            fields.push("spec.dependsOn.namespace other than its own".to_owned());
        }
    }
    if let Some(post_build) = &spec.post_build {
        fields.extend(
            post_build
                .other
                .keys()
                .map(|field| format!("spec.postBuild.{field}")),
        );
    }
    if let Some(kube_config) = &spec.kube_config {
        fields.extend(
            kube_config
                .other
                .keys()
                .map(|field| format!("spec.kubeConfig.{field}")),
        );
        if kube_config.secret_ref.is_none() && kube_config.other.is_empty() {
            fields.push("spec.kubeConfig without secretRef".to_owned());
        }
    }
    fields
}

fn duration(field: &str, text: &str) -> Result<Duration, UnsupportedSpec> {
    text.parse::<GoDuration>()
        .map(GoDuration::to_std)
        .map_err(|error| UnsupportedSpec {
            reason: "InvalidSpec",
            message: format!("{field}: {error}"),
        })
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(extra: Value) -> KustomizationSpec {
        let mut spec =
            json!({"interval": "10m", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "s"}});
        spec.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn times_that_are_not_given_follow_from_the_interval() {
        for (extra, retry, timeout) in [
            (json!({}), 600, 570),
            (json!({"interval": "40s"}), 40, 30),
            (json!({"retryInterval": "1m", "timeout": "5m"}), 60, 300),
        ] {
            let settings = parse_settings(&spec(extra.clone()), &BTreeMap::new(), "ns").unwrap();
            let got = (settings.retry_interval.as_secs(), settings.timeout.as_secs());
            assert_eq!(got, (retry, timeout), "{extra}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_its_name() {
        for (extra, fields) in [
            (
                json!({"decryption": {}, "images": []}),
                "spec.decryption, spec.images",
            ),
            (
                json!({"sourceRef": {"kind": "Bucket", "name": "s"}}),
                "spec.sourceRef.kind \"Bucket\"",
            ),
            (
                json!({"sourceRef": {"kind": "GitRepository", "name": "s", "namespace": "other"}}),
                "spec.sourceRef.namespace other than its own",
            ),
            (
                json!({"dependsOn": [{"name": "a", "readyExpr": "true"}]}),
                "spec.dependsOn.readyExpr",
            ),
            (
                json!({"dependsOn": [{"name": "a", "namespace": "b"}]}),
                "spec.dependsOn.namespace other than its own",
            ),
            (
                json!({"postBuild": {"substituteStrategy": "Always"}}),
                "spec.postBuild.substituteStrategy",
            ),
            (
                json!({"kubeConfig": {"configMapRef": {"name": "a"}}}),
                "spec.kubeConfig.configMapRef",
            ),
            (json!({"kubeConfig": {}}), "spec.kubeConfig without secretRef"),
        ] {
            let refusal = parse_settings(&spec(extra), &BTreeMap::new(), "ns").unwrap_err();
            assert_eq!(refusal.reason, "Unsupported");
            let rest = " cannot be used with the built-in sync; remove it, or run Flux in this cluster";
            assert_eq!(refusal.message, format!("{fields}{rest}"));
        }
        assert_eq!(
            parse_settings(&spec(json!({"timeout": "soon"})), &BTreeMap::new(), "ns")
                .unwrap_err()
                .reason,
            "InvalidSpec"
        );
    }

    #[test]
    fn expressions_of_each_kind() {
        let widgets = |api_version: &str, current: &str| json!({"apiVersion": api_version, "kind": "Widget", "current": current});
        let parse =
            |list: Value| parse_settings(&spec(json!({"healthCheckExprs": list})), &BTreeMap::new(), "ns");
        let settings = parse(json!([widgets("a.test/v1", "true"), widgets("v1", "false")])).unwrap();
        let kinds: Vec<_> = settings
            .expressions
            .keys()
            .map(|(group, kind)| format!("{group}/{kind}"))
            .collect();
        assert_eq!(kinds, ["/Widget", "a.test/Widget"]);
        let mut unknown = widgets("a.test/v1", "true");
        unknown["waiting"] = "true".into();
        for (list, expect) in [
            (
                json!([widgets("a.test/v1", "true"), widgets("a.test/v2", "true")]),
                "InvalidSpec spec.healthCheckExprs[1]: a.test/v2 Widget: the kind has two sets of expressions",
            ),
            (
                json!([widgets("a.test/v1", "status.phase ==")]),
                "InvalidSpec spec.healthCheckExprs[0]: a.test/v1 Widget: current \"status.phase ==\": does not parse: 1:16: mismatched \
                 input '<EOF>'",
            ),
            (
                json!([widgets("a.test/v1", "")]),
                "InvalidSpec spec.healthCheckExprs[0]: a.test/v1 Widget: current \"\": must not be empty",
            ),
            (
                json!([unknown]),
                "Unsupported spec.healthCheckExprs.waiting cannot be used with the built-in sync; remove it, or run Flux in this \
                 cluster",
            ),
        ] {
            let refusal = parse(list).unwrap_err();
            assert_eq!(format!("{} {}", refusal.reason, refusal.message), expect);
        }
    }

    #[test]
    fn how_long_health_must_stand_without_evidence() {
        for (timeout, annotations, expect) in [
            ("5m", json!({}), "30s true"),
            ("30s", json!({}), "15s true"),
            (
                "5m",
                json!({"fleet.muster.dev/settle": "4m", "fleet.muster.dev/assume": "Never"}),
                "240s false",
            ),
            ("5m", json!({"fleet.muster.dev/settle": "0s"}), "0s true"),
            (
                "1m",
                json!({"fleet.muster.dev/settle": "60s"}),
                "metadata.annotations[fleet.muster.dev/settle]: 60s is not shorter than spec.timeout",
            ),
            (
                "1m",
                json!({"fleet.muster.dev/settle": "soon"}),
                "metadata.annotations[fleet.muster.dev/settle]: \"soon\" is not a duration: write numbers with the units h, m, s or ms, \
                 such as 5m or 1h30m",
            ),
            (
                "1m",
                json!({"fleet.muster.dev/assume": "Always"}),
                "metadata.annotations[fleet.muster.dev/assume]: \"Always\" is not Never",
            ),
        ] {
            let annotations = serde_json::from_value(annotations).unwrap();
            let got = match parse_settings(&spec(json!({"timeout": timeout})), &annotations, "ns") {
                Ok(settings) => format!("{}s {}", settings.settle.as_secs(), settings.assumes),
                Err(refusal) => refusal.message,
            };
            assert_eq!(got, expect);
        }
    }
}
