//! Controls that users set by annotations of a module or NodeModule: parsed, and evaluated at an instant. Pure.
//!
//! A level control (`paused`, `hold`, `pin`) is in effect until its annotation is removed or expires. A one-shot
//! control (`acknowledge-withdrawal`, `abandon`) is applied when first observed, and an event reports that once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use muster_api::{
    control::Control,
    digest,
    labels::{annotation, manager},
    plan::PlanControl,
    reasons::ObjectReason,
};
use muster_rollout::{ControlCommand, Revision, UnitId};

use super::{
    facts::Invalid,
    pins::{self, Entries, SHORTEST},
    reasons::Vocabulary,
};

/// One-shot controls that the engine applies.
const ONCE: [&str; 4] = [
    annotation::APPROVE,
    annotation::PROMOTE,
    annotation::ABORT,
    annotation::RETRY,
];

/// One entry of a one-shot control: a stage or a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Once {
    /// The annotation's key.
    pub key: &'static str,
    /// Who set it, and why.
    pub control: Control,
    /// The stage, for `approve` and `promote`.
    pub stage: Option<String>,
    /// The revision, or a prefix of its hash.
    pub revision: String,
}

impl Once {
    /// Identifies this entry among all present and past ones. 48 bits, so that every JSON reader represents it exactly.
    pub fn id(&self) -> u64 {
        let text = self.control.to_text();
        let stage = self.stage.as_deref().unwrap_or_default();
        let hash = digest::sha256_hex(&[self.key, &text, stage, &self.revision]);
        hash.get(..12)
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .unwrap_or_default()
    }

    /// The known revision with this prefix; otherwise the prefix padded, which matches no known revision.
    fn revision(&self, known: &BTreeSet<Revision>) -> Revision {
        let mut found = known
            .iter()
            .filter(|known| known.to_string().starts_with(&self.revision));
        let padded = format!("{:0<32}", self.revision);
        let unknown = || Revision::parse(&padded).unwrap_or(Revision::new([0; 16]));
        found.next().copied().unwrap_or_else(unknown)
    }

    /// The control in the engine's form.
    pub fn engine(&self, known: &BTreeSet<Revision>) -> muster_rollout::Control {
        let revision = self.revision(known);
        let stage = || self.stage.as_deref().unwrap_or_default().into();
        let command = match self.key {
            annotation::APPROVE => ControlCommand::Approve(revision, stage()),
            annotation::PROMOTE => ControlCommand::Promote(revision, stage()),
            annotation::ABORT => ControlCommand::Abort(revision),
            _ => ControlCommand::Retry(revision),
        };
        muster_rollout::Control {
            id: self.id(),
            says: command,
        }
    }
}

/// Manual controls of plan runs, by cluster.
type PlanRuns = (Control, Vec<(String, PlanControl)>);

/// The controls that are set on a module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controls {
    paused: Option<Control>,
    acknowledged: Option<Control>,
    abandoned: Option<Control>,
    released: Option<Control>,
    held: Option<Control>,
    pinned: Option<(Control, Entries)>,
    once: Vec<Once>,
    plan_runs: Option<PlanRuns>,
}

impl Controls {
    /// Reads the annotations of a module. While a module is being deleted, only controls of withdrawals are read.
    pub fn read(meta: &ObjectMeta, words: &'static Vocabulary) -> Result<Self, Invalid> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let deleting = meta.deletion_timestamp.is_some();
        let annotations = meta.annotations.as_ref().unwrap_or(&NONE);
        let control = |key: &str| parse(annotations, key, words);
        Ok(Self {
            paused: if deleting {
                None
            } else {
                control(annotation::PAUSED)?
            },
            acknowledged: control(annotation::ACKNOWLEDGE_WITHDRAWAL)?,
            abandoned: control(annotation::ABANDON)?,
            // Only nodes can vanish during a change.
            released: if *words == Vocabulary::NODES {
                control(annotation::RELEASE)?
            } else {
                None
            },
            held: if deleting {
                None
            } else {
                control(annotation::HOLD)?
            },
            pinned: if deleting {
                None
            } else {
                pinned(annotations, words)?
            },
            once: if deleting {
                Vec::new()
            } else {
                parse_one_shots(annotations, words)?
            },
            // Nodes have no plans.
            plan_runs: if *words == Vocabulary::CLUSTERS {
                plan_runs(annotations, words)?
            } else {
                None
            },
        })
    }

    /// Why the rollout is stopped, if a control would be in effect for implausibly long.
    pub fn too_long(&self, now: Timestamp, words: &Vocabulary) -> Option<Invalid> {
        let late = |(key, control): (&'static str, &Control)| {
            let error = control.clone().meant(now).err()?;
            Some(unreadable(key, &error.to_string(), words))
        };
        self.levels().find_map(late)
    }

    /// The level controls, including expired ones.
    pub fn levels(&self) -> impl Iterator<Item = (&'static str, &Control)> {
        let pinned = self.pinned.as_ref().map(|(control, _)| control);
        let all = [
            (annotation::PAUSED, self.paused.as_ref()),
            (annotation::HOLD, self.held.as_ref()),
            (annotation::PIN, pinned),
            (annotation::RELEASE, self.released.as_ref()),
        ];
        all.into_iter().filter_map(|(key, control)| Some((key, control?)))
    }

    /// Which clusters are pinned to which revision prefix, if the control is in effect.
    pub fn pinned(&self, now: Timestamp) -> Option<(&Control, &Entries)> {
        let (control, entries) = self.pinned.as_ref()?;
        control.holds(now).then_some((control, entries))
    }

    /// Which clusters are held, if the control is in effect.
    pub fn held(&self, now: Timestamp) -> Option<&Control> {
        self.held.as_ref().filter(|control| control.holds(now))
    }

    /// The one-shot controls that are in effect.
    pub fn one_shots(&self, now: Timestamp) -> impl Iterator<Item = &Once> {
        self.once.iter().filter(move |once| once.control.holds(now))
    }

    /// Manual controls of plan runs, by cluster.
    pub fn plan_runs(&self, now: Timestamp) -> impl Iterator<Item = &(String, PlanControl)> {
        let holds = self.plan_runs.as_ref().filter(|(control, _)| control.holds(now));
        holds.into_iter().flat_map(|(_, entries)| entries)
    }

    /// Who aborted the rollout of a revision, why and when, while the annotation exists; otherwise empty.
    pub fn aborted(&self, revision: &str) -> String {
        let abort = self
            .once
            .iter()
            .find(|once| once.key == annotation::ABORT && revision.starts_with(&once.revision));
        abort.map_or_else(String::new, |once| once.control.provenance())
    }

    /// The pause, if it is in effect.
    pub fn paused(&self, now: Timestamp) -> Option<&Control> {
        self.paused.as_ref().filter(|control| control.holds(now))
    }

    /// The acknowledgement of a withdrawal, if it is in effect.
    pub fn acknowledged(&self, now: Timestamp) -> Option<&Control> {
        self.acknowledged.as_ref().filter(|control| control.holds(now))
    }

    /// The `abandon` control, if it is in effect.
    pub fn abandoned(&self, now: Timestamp) -> Option<&Control> {
        self.abandoned.as_ref().filter(|control| control.holds(now))
    }

    /// The clusters to abandon.
    pub fn given_up(&self, now: Timestamp) -> BTreeSet<UnitId> {
        let control = self.abandoned(now);
        control
            .into_iter()
            .flat_map(Control::names)
            .map(UnitId::from)
            .collect()
    }

    /// Whether the rollout no longer waits for this unit, which vanished during its change.
    pub fn is_released(&self, unit: &str, now: Timestamp) -> bool {
        let released = self.released.as_ref().filter(|control| control.holds(now));
        released.is_some_and(|control| control.names().contains(unit))
    }

    /// When the first of these controls expires.
    pub fn end(&self, now: Timestamp) -> Option<Timestamp> {
        let all = [
            self.paused(now),
            self.acknowledged(now),
            self.abandoned(now),
            self.held(now),
            self.pinned(now).map(|(control, _)| control),
        ];
        let once = self.one_shots(now).map(|once| &once.control);
        all.into_iter()
            .flatten()
            .chain(once)
            .filter_map(|control| control.until)
            .min()
    }
}

fn parse(
    annotations: &BTreeMap<String, String>,
    key: &str,
    words: &Vocabulary,
) -> Result<Option<Control>, Invalid> {
    let text = annotations.get(key);
    let control = text.map(|text| Control::parse(text)).transpose();
    control.map_err(|error| unreadable(key, &error.to_string(), words))
}

fn unreadable(key: &str, problem: &str, words: &Vocabulary) -> Invalid {
    Invalid {
        reason: ObjectReason::InvalidControl,
        message: format!(
            "annotation {key} cannot be read: {problem}; this {} is not rolled out until that is fixed or removed",
            words.module
        ),
    }
}

/// The pinned units, each with its revision.
fn pinned(
    annotations: &BTreeMap<String, String>,
    words: &'static Vocabulary,
) -> Result<Option<(Control, Entries)>, Invalid> {
    let Some(control) = parse(annotations, annotation::PIN, words)? else {
        return Ok(None);
    };
    let entries = pins::pin_entries(&control, words);
    let entries = entries.map_err(|problem| unreadable(annotation::PIN, &problem, words))?;
    Ok(Some((control, entries)))
}

/// The one-shot controls: `approve` and `promote` name stages as `canary@1a2b3c4d`, `abort` and `retry` revisions,
/// separated by commas.
fn parse_one_shots(annotations: &BTreeMap<String, String>, words: &Vocabulary) -> Result<Vec<Once>, Invalid> {
    let mut all = Vec::new();
    for key in ONCE {
        let Some(control) = parse(annotations, key, words)? else {
            continue;
        };
        if control.what.is_empty() {
            return Err(unreadable(key, "it does not say what it is for", words));
        }
        for name in control.names() {
            let (stage, revision) = match name.split_once('@') {
                Some((stage, revision)) => (Some(stage.to_owned()), revision),
                None => (None, name),
            };
            let about_stage = [annotation::APPROVE, annotation::PROMOTE].contains(&key);
            if about_stage != stage.is_some() {
                let form = if about_stage { "STAGE@REVISION" } else { "REVISION" };
                let problem = format!("{name:?} is not of the form {form}");
                return Err(unreadable(key, &problem, words));
            }
            let hex = revision.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !hex || !(SHORTEST..=64).contains(&revision.len()) {
                let problem = format!(
                    "{revision:?} is not a revision: write {SHORTEST} or more digits of its hash (kubectl get {} -o wide)",
                    words.resource
                );
                return Err(unreadable(key, &problem, words));
            }
            all.push(Once {
                key,
                control: control.clone(),
                stage,
                revision: revision.to_ascii_lowercase(),
            });
        }
    }
    Ok(all)
}

/// Parses the manual controls of plan runs, by cluster.
fn plan_runs(
    annotations: &BTreeMap<String, String>,
    words: &Vocabulary,
) -> Result<Option<PlanRuns>, Invalid> {
    let Some(control) = parse(annotations, annotation::PLAN_RUN, words)? else {
        return Ok(None);
    };
    let set_at = control.at.map(|at| at.to_string()).unwrap_or_default();
    let reason = Some(control.provenance()).filter(|text| !text.is_empty());
    let entry = |name: &str| {
        let (cluster, what) = name.split_once('@')?;
        let read = PlanControl::parse(what, &set_at, reason.clone())?;
        Some((cluster.to_owned(), read))
    };
    let mut entries: Vec<(String, PlanControl)> = Vec::new();
    for name in control.names().into_iter().filter(|name| *name != "false") {
        let problem = match entry(name) {
            None => {
                "is not of the form CLUSTER@start/PLAN, CLUSTER@abort/RUN, CLUSTER@retry/RUN/PHASE/STEP or CLUSTER@skip/RUN/PHASE/STEP"
            }
            Some((cluster, _)) if entries.iter().any(|(other, _)| *other == cluster) => {
                "is the second one for its cluster: only one at a time is allowed"
            }
            Some(entry) => {
                entries.push(entry);
                continue;
            }
        };
        return Err(unreadable(
            annotation::PLAN_RUN,
            &format!("{name:?} {problem}"),
            words,
        ));
    }
    Ok(Some((control, entries)))
}

/// The field manager that wrote a control, if Flux applies the object and will remove the control from that manager.
pub(crate) fn at_risk<'a>(managed: &'a [ManagedFieldsEntry], key: &str) -> Option<&'a str> {
    const FLUX: &str = "kustomize-controller";
    let by = |entry: &'a ManagedFieldsEntry| entry.manager.as_deref().unwrap_or_default();
    if !managed.iter().any(|entry| by(entry) == FLUX) {
        return None;
    }
    let field = format!("f:{key}");
    let owns = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let annotations = fields.and_then(|fields| fields.get("f:metadata")?.get("f:annotations"));
        annotations.is_some_and(|annotations| annotations.get(&field).is_some())
    };
    let kubectl = managed
        .iter()
        .filter(|entry| by(entry).starts_with(manager::KUBECTL_PREFIX));
    kubectl.filter(owns).map(by).next()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn meta(annotations: &Value, deleting: bool) -> ObjectMeta {
        let mut meta = json!({"name": "web", "namespace": "fleet", "annotations": annotations});
        if deleting {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(meta).unwrap()
    }

    #[test]
    fn what_holds_at_an_instant() {
        let controls = Controls::read(
            &meta(
                &json!({
                    "fleet.muster.dev/paused": r#"{"by": "ann", "until": "1970-01-01T00:01:00Z"}"#,
                    "fleet.muster.dev/acknowledge-withdrawal": "0a1b",
                    "fleet.muster.dev/abandon": r#"{"for": "eu-2, eu-1", "until": "1970-01-01T00:02:00Z"}"#,
                }),
                false,
            ),
            &Vocabulary::CLUSTERS,
        )
        .unwrap();
        let check = |second: i64, expect: (bool, bool, &[&str], Option<i64>)| {
            let now = at(second);
            let given_up: Vec<String> = controls.given_up(now).iter().map(ToString::to_string).collect();
            let (paused, acknowledged) = (controls.paused(now), controls.acknowledged(now));
            assert_eq!(
                (paused.is_some(), acknowledged.is_some(), controls.end(now)),
                (expect.0, expect.1, expect.3.map(at))
            );
            assert_eq!(given_up, expect.2, "{second}");
        };
        check(59, (true, true, &["eu-1", "eu-2"], Some(60)));
        check(60, (false, true, &["eu-1", "eu-2"], Some(120)));
        check(120, (false, true, &[], None));
    }

    #[test]
    fn what_cannot_be_read_or_is_not_built_is_named() {
        let check = |annotations: Value, deleting: bool, reason: ObjectReason, expect: &str| {
            let invalid = Controls::read(&meta(&annotations, deleting), &Vocabulary::CLUSTERS).unwrap_err();
            assert_eq!(invalid.reason, reason, "{}", invalid.message);
            assert!(invalid.message.starts_with(expect), "{}", invalid.message);
        };
        for key in ["paused", "acknowledge-withdrawal", "abandon", "hold", "pin"] {
            let key = format!("fleet.muster.dev/{key}");
            let message = format!("annotation {key} cannot be read: it begins with {{ but is not valid JSON");
            check(
                json!({&key: "{nonsense"}),
                false,
                ObjectReason::InvalidControl,
                &message,
            );
        }
        for (pin, problem) in [
            ("true", "\"true\" is not of the form CLUSTER@REVISION"),
            ("", "it does not say what it is for"),
            (
                "eu-1@1234567",
                "\"1234567\" is not a revision: write 8 or more digits",
            ),
            ("eu-1@v1.0.0-rc", "\"v1.0.0-rc\" is not a revision"),
            (
                "eu-1@01234567,eu-2@01234567,eu-1@89abcdef",
                "it names cluster eu-1 twice",
            ),
        ] {
            let message = format!("annotation fleet.muster.dev/pin cannot be read: {problem}");
            let pin = json!({"fleet.muster.dev/pin": pin});
            check(pin, false, ObjectReason::InvalidControl, &message);
        }
        let deleted = json!({"fleet.muster.dev/paused": "{", "fleet.muster.dev/pin": ""});
        assert_eq!(
            Controls::read(&meta(&deleted, true), &Vocabulary::CLUSTERS),
            Ok(Controls::default())
        );
        check(
            json!({"fleet.muster.dev/abandon": "{"}),
            true,
            ObjectReason::InvalidControl,
            "annotation fleet.muster.dev/abandon",
        );
    }

    #[test]
    fn what_holds_for_centuries_is_not_meant() {
        for (key, what) in [("paused", "true"), ("hold", "eu-1"), ("pin", "eu-1@01234567")] {
            let key = format!("fleet.muster.dev/{key}");
            let until = |until: &str| json!({&key: json!({"for": what, "until": until}).to_string()});
            let check = |until_: &str, expect: Option<&str>| {
                let controls = Controls::read(&meta(&until(until_), false), &Vocabulary::CLUSTERS).unwrap();
                let invalid = controls
                    .too_long(at(0), &Vocabulary::CLUSTERS)
                    .map(|invalid| invalid.message);
                assert_eq!(invalid.is_some(), expect.is_some(), "{invalid:?}");
                assert!(
                    invalid
                        .unwrap_or_default()
                        .starts_with(expect.unwrap_or_default())
                );
            };
            check("1969-01-01T00:00:00Z", None);
            check("1971-01-02T00:00:00Z", None);
            let message = format!(
                "annotation {key} cannot be read: until is 2270-01-01T00:00:00Z, more than a year from now"
            );
            check("2270-01-01T00:00:00Z", Some(&message));
        }
    }

    #[test]
    fn only_what_kubectl_wrote_on_what_flux_applies_is_at_risk() {
        let entry = |manager: &str, annotation: &str| -> ManagedFieldsEntry {
            let fields = json!({"f:metadata": {"f:annotations": {format!("f:{annotation}"): {}}}});
            serde_json::from_value(json!({"manager": manager, "operation": "Update", "fieldsV1": fields}))
                .unwrap()
        };
        let check = |managed: &[ManagedFieldsEntry], expect: Option<&str>| {
            assert_eq!(at_risk(managed, "fleet.muster.dev/paused"), expect, "{managed:?}");
        };
        let (flux, control) = (entry("kustomize-controller", "other"), "fleet.muster.dev/paused");
        check(&[], None);
        check(&[entry("kubectl-annotate", control)], None);
        check(
            &[flux.clone(), entry("kubectl-annotate", control)],
            Some("kubectl-annotate"),
        );
        check(&[flux.clone(), entry("kubectl-annotate", "other")], None);
        check(&[flux, entry("muster-cli", control)], None);
    }
}
