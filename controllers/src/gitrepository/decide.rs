//! Whether a fetch is due, and of what. Pure.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::{
    Duration as GoDuration,
    flux::{GitRepositoryRef, GitRepositorySpec, GitRepositoryVerification},
};
use muster_sync::source::{CommitId, VerifyMode, Want};
use serde_json::Value;

use super::observe::Observed;

/// The default timeout of a fetch; Flux's.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The default branch; Flux's.
const BRANCH: &str = "master";

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The object is being deleted; `held`: the finalizer must be removed.
    Leave { held: bool },
    /// Suspended, or reconciled by Flux: do nothing and report nothing.
    Suspended,
    /// Nothing is due before this time.
    Rest { until: Timestamp },
    /// The spec is not supported.
    Refuse(UnsupportedSource),
    /// Fetch.
    Fetch(Fetch),
}

/// Why a spec is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnsupportedSource {
    pub reason: &'static str,
    pub message: String,
}

/// A fetch that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetch {
    pub want: Want,
    /// Which signatures are required.
    pub verify: Option<Verification>,
    pub interval: Duration,
    pub timeout: Duration,
    /// The reconcile request that this fetch handles.
    pub requested: Option<String>,
    /// Consecutive failures so far.
    pub failures: u32,
    /// Whether the spec changed since the last attempt.
    pub spec_changed: bool,
}

/// What must be signed, and with which keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verification {
    pub mode: VerifyMode,
    /// The Secret with the public keys.
    pub secret: String,
}

/// The reference that a spec asks for.
struct FetchSpec {
    want: Want,
    verify: Option<Verification>,
    interval: Duration,
    timeout: Duration,
}

pub(super) fn decide(observed: &Observed<'_>) -> Decision {
    if observed.flux {
        return Decision::Suspended;
    }
    if let Some(held) = observed.deleting {
        return Decision::Leave { held };
    }
    if observed.spec.suspend == Some(true) {
        return Decision::Suspended;
    }
    let last = observed.attempt.as_ref().filter(|last| last.uid == observed.uid);
    let same_spec = last.filter(|last| last.generation == observed.generation);
    let answered = same_spec.filter(|last| last.requested == observed.requested);
    if let Some(last) = answered
        && observed.now < last.due
    {
        return Decision::Rest { until: last.due };
    }
    match fetch_spec(observed.spec) {
        Err(refusal) => Decision::Refuse(refusal),
        Ok(spec) => Decision::Fetch(Fetch {
            want: spec.want,
            verify: spec.verify,
            interval: spec.interval,
            timeout: spec.timeout,
            requested: observed.requested.clone(),
            failures: same_spec.map_or(0, |last| last.failures),
            spec_changed: same_spec.is_none(),
        }),
    }
}

/// What the spec asks for, if it is supported.
fn fetch_spec(spec: &GitRepositorySpec) -> Result<FetchSpec, UnsupportedSource> {
    let asking = spec
        .other
        .iter()
        .filter(|(field, value)| !asks_nothing(field, value));
    let fields: Vec<String> = asking.map(|(field, _)| format!("spec.{field}")).collect();
    if !fields.is_empty() {
        return Err(UnsupportedSource::unsupported(format!(
            "{} cannot be used with the built-in sync; remove it, or run Flux in this cluster",
            fields.join(", ")
        )));
    }
    let want = want(spec.reference.as_ref())?;
    let interval = duration("spec.interval", &spec.interval)?;
    let timeout = spec
        .timeout
        .as_deref()
        .map_or(Ok(TIMEOUT), |timeout| duration("spec.timeout", timeout))?;
    let verify = spec.verify.as_ref().map(|verify| verification(verify, &want));
    Ok(FetchSpec {
        verify: verify.transpose()?,
        want,
        interval,
        timeout,
    })
}

/// What must be signed, in Flux's terms.
fn verification(verify: &GitRepositoryVerification, want: &Want) -> Result<Verification, UnsupportedSource> {
    let mode = match verify.mode.as_deref() {
        None | Some("HEAD" | "head") => VerifyMode::Commit,
        Some("Tag") => VerifyMode::Tag,
        Some("TagAndHEAD") => VerifyMode::TagAndCommit,
        Some(other) => {
            return Err(UnsupportedSource::invalid(format!(
                "spec.verify.mode: {other:?} is not a mode; write HEAD, Tag or TagAndHEAD"
            )));
        }
    };
    if mode.tag() && !matches!(want, Want::Tag(_)) {
        return Err(UnsupportedSource::invalid(format!(
            "spec.verify.mode: a tag must be signed, and {want} is not one; set spec.ref.tag alone, or use mode HEAD"
        )));
    }
    let name = verify.secret_ref.as_ref().map(|reference| reference.name.clone());
    let secret = name.filter(|name| !name.is_empty()).ok_or_else(|| {
        UnsupportedSource::invalid(
            "spec.verify.secretRef: it is missing; name the Secret with the public keys",
        )
    })?;
    Ok(Verification { mode, secret })
}

/// Whether an unsupported field has the value that means the same as its absence.
fn asks_nothing(field: &str, value: &Value) -> bool {
    match field {
        "provider" => value == "generic" || value == "github",
        "recurseSubmodules" => value == false,
        "include" | "sparseCheckout" => value.as_array().is_some_and(Vec::is_empty),
        _ => value.is_null(),
    }
}

fn want(reference: Option<&GitRepositoryRef>) -> Result<Want, UnsupportedSource> {
    let Some(reference) = reference else {
        return Ok(Want::Branch(BRANCH.to_owned()));
    };
    if let Some(commit) = &reference.commit {
        return commit
            .parse::<CommitId>()
            .map(Want::Commit)
            .map_err(|error| UnsupportedSource::invalid(format!("spec.ref.commit: {error}")));
    }
    if reference.name.is_some() {
        return Err(UnsupportedSource::unsupported(
            "spec.ref.name cannot be used with the built-in sync; use a branch, a tag or a commit",
        ));
    }
    Ok(match (&reference.semver, &reference.tag, &reference.branch) {
        (Some(range), _, _) => Want::Semver(range.clone()),
        (None, Some(tag), _) => Want::Tag(tag.clone()),
        (None, None, Some(branch)) => Want::Branch(branch.clone()),
        (None, None, None) => Want::Branch(BRANCH.to_owned()),
    })
}

fn duration(field: &str, text: &str) -> Result<Duration, UnsupportedSource> {
    text.parse::<GoDuration>()
        .map(GoDuration::to_std)
        .map_err(|error| UnsupportedSource::invalid(format!("{field}: {error}")))
}

impl UnsupportedSource {
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self {
            reason: "Unsupported",
            message: message.into(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self {
            reason: "InvalidSpec",
            message: message.into(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use muster_api::flux::GitRepository;
    use serde_json::json;

    use super::super::attempts::Attempt;
    use super::*;

    const NOW: &str = "2026-11-21T12:00:00Z";

    /// Decides about a spec after an attempt that is next due at a time; shows the decision in short.
    #[track_caller]
    fn check(spec: Value, requested: Option<&str>, last: Option<(i64, Option<&str>, &str)>, expect: &str) {
        let object: GitRepository = serde_json::from_value(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": "r"}, "spec": spec,
        }))
        .unwrap();
        let attempt = last.map(|(generation, requested, due)| Attempt {
            uid: "u".into(),
            generation,
            requested: requested.map(str::to_owned),
            failures: 3,
            due: due.parse().unwrap(),
        });
        let decision = decide(&Observed {
            uid: "u".into(),
            generation: 2,
            spec: &object.spec,
            flux: false,
            requested: requested.map(str::to_owned),
            deleting: None,
            attempt,
            now: NOW.parse().unwrap(),
        });
        let got = match decision {
            Decision::Leave { held } => format!("leave held={held}"),
            Decision::Suspended => "suspended".to_owned(),
            Decision::Rest { until } => format!("rest until {until}"),
            Decision::Refuse(refusal) => format!("{}: {}", refusal.reason, refusal.message),
            Decision::Fetch(fetch) => {
                let verify = fetch.verify.map_or_else(String::new, |verify| {
                    format!(" verify={:?} by {}", verify.mode, verify.secret)
                });
                format!(
                    "fetch {} within {:?} new={} failures={}{verify}",
                    fetch.want, fetch.timeout, fetch.spec_changed, fetch.failures
                )
            }
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn when_a_fetch_is_due() {
        let spec = || json!({"url": "https://git.test/r", "interval": "10m", "ref": {"tag": "v1"}});
        let later = "2026-11-21T12:00:01Z";
        check(
            spec(),
            None,
            None,
            r#"fetch tag "v1" within 60s new=true failures=0"#,
        );
        check(
            spec(),
            None,
            Some((2, None, later)),
            "rest until 2026-11-21T12:00:01Z",
        );
        check(
            spec(),
            None,
            Some((2, None, NOW)),
            r#"fetch tag "v1" within 60s new=false failures=3"#,
        );
        check(
            spec(),
            None,
            Some((1, None, later)),
            r#"fetch tag "v1" within 60s new=true failures=0"#,
        );
        check(
            spec(),
            Some("a"),
            Some((2, None, later)),
            r#"fetch tag "v1" within 60s new=false failures=3"#,
        );
        check(
            spec(),
            Some("a"),
            Some((2, Some("a"), later)),
            "rest until 2026-11-21T12:00:01Z",
        );
        let mut suspended = spec();
        suspended["suspend"] = json!(true);
        check(suspended, Some("a"), None, "suspended");
    }

    #[test]
    fn what_is_wanted() {
        let with = |reference: Value| json!({"url": "https://git.test/r", "interval": "10m", "timeout": "20s", "ref": reference});
        let commit = "0123456789012345678901234567890123456789";
        check(
            with(json!({"branch": "b", "commit": commit})),
            None,
            None,
            &format!("fetch commit {commit} within 20s new=true failures=0"),
        );
        check(
            with(json!({"branch": "b", "tag": "t"})),
            None,
            None,
            r#"fetch tag "t" within 20s new=true failures=0"#,
        );
        check(
            with(json!({})),
            None,
            None,
            r#"fetch branch "master" within 20s new=true failures=0"#,
        );
        check(
            with(json!({"semver": "1.x", "tag": "t"})),
            None,
            None,
            r#"fetch semver range "1.x" within 20s new=true failures=0"#,
        );
        check(
            with(json!({"commit": "0123456"})),
            None,
            None,
            r#"InvalidSpec: spec.ref.commit: "0123456" is not a commit: 40 (or 64) hex digits are needed, an abbreviation is ambiguous"#,
        );
        check(
            with(json!({"name": "refs/pull/1/head"})),
            None,
            None,
            "Unsupported: spec.ref.name cannot be used with the built-in sync; use a branch, a tag or a commit",
        );
    }

    #[test]
    fn what_must_be_signed() {
        let with = |reference: Value, verify: Value| {
            let spec =
                json!({"url": "https://git.test/r", "interval": "10m", "ref": reference, "verify": verify});
            move |expect: &str| check(spec, None, None, expect)
        };
        let keys = json!({"name": "keys"});
        let tag = || json!({"tag": "v1"});
        let fetched = r#"fetch tag "v1" within 60s new=true failures=0 verify="#;
        with(tag(), json!({"secretRef": keys}))(&format!("{fetched}Commit by keys"));
        with(tag(), json!({"mode": "HEAD", "secretRef": keys}))(&format!("{fetched}Commit by keys"));
        with(tag(), json!({"mode": "head", "secretRef": keys}))(&format!("{fetched}Commit by keys"));
        with(tag(), json!({"mode": "Tag", "secretRef": keys}))(&format!("{fetched}Tag by keys"));
        with(tag(), json!({"mode": "TagAndHEAD", "secretRef": keys}))(&format!(
            "{fetched}TagAndCommit by keys"
        ));
        with(tag(), json!({"mode": "tag", "secretRef": keys}))(
            "InvalidSpec: spec.verify.mode: \"tag\" is not a mode; write HEAD, Tag or TagAndHEAD",
        );
        with(
            json!({"branch": "main"}),
            json!({"mode": "Tag", "secretRef": keys}),
        )(
            "InvalidSpec: spec.verify.mode: a tag must be signed, and branch \"main\" is not one; set spec.ref.tag alone, or use mode HEAD",
        );
        with(tag(), json!({}))(
            "InvalidSpec: spec.verify.secretRef: it is missing; name the Secret with the public keys",
        );
        with(tag(), json!({"secretRef": {"name": ""}}))(
            "InvalidSpec: spec.verify.secretRef: it is missing; name the Secret with the public keys",
        );
    }

    #[test]
    fn what_is_not_supported_is_refused_by_its_name() {
        check(
            json!({"url": "https://git.test/r", "interval": "10m", "provider": "azure", "recurseSubmodules": true}),
            None,
            None,
            "Unsupported: spec.provider, spec.recurseSubmodules cannot be used with the built-in sync; remove it, or run Flux in this cluster",
        );
        check(
            json!({"url": "https://git.test/r", "interval": "10m", "provider": "azure", "include": [{}]}),
            None,
            None,
            "Unsupported: spec.include, spec.provider cannot be used with the built-in sync; remove it, or run Flux in this cluster",
        );
        check(
            json!({"url": "https://git.test/r", "interval": "10m", "provider": "generic", "recurseSubmodules": false, "include": []}),
            None,
            None,
            r#"fetch branch "master" within 60s new=true failures=0"#,
        );
        check(
            json!({"url": "https://git.test/r", "interval": "soon"}),
            None,
            None,
            "InvalidSpec: spec.interval: \"soon\" is not a duration: write numbers with the units h, m, s or ms, such as 5m or 1h30m",
        );
    }
}
