//! What people say by annotations of a module: read, weighed at an instant, and what git would make of them. Pure.
//!
//! A level control (`paused`) holds until its annotation goes or its time is over. A one-shot control (`acknowledge-withdrawal`,
//! `abandon`) is taken when first seen; that it was is told by an event, once.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use muster_api::{
    control::Control,
    labels::{annotation, manager},
    module::ModuleObject,
    reasons::ObjectReason,
    validate::unsupported_message,
};
use muster_rollout::UnitId;

use super::observe::Invalid;

/// Controls of a module whose behaviour is not built yet.
const UNSUPPORTED: [&str; 5] = [
    annotation::HOLD,
    annotation::PIN,
    annotation::APPROVE,
    annotation::ABORT,
    annotation::RETRY,
];

/// The controls that are set on a module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controls {
    paused: Option<Control>,
    acknowledged: Option<Control>,
    abandoned: Option<Control>,
}

impl Controls {
    /// Reads the annotations of a module. What is being deleted is withdrawn from, paused or not: then only what concerns
    /// withdrawals is read.
    pub fn read<K: ModuleObject>(module: &K) -> Result<Self, Invalid> {
        let deleting = module.meta().deletion_timestamp.is_some();
        let annotations = module.annotations();
        let unsupported: Vec<String> = UNSUPPORTED
            .iter()
            .filter(|key| !deleting && annotations.contains_key(**key))
            .map(|key| format!("annotation {key}"))
            .collect();
        if !unsupported.is_empty() {
            let names: Vec<&str> = unsupported.iter().map(String::as_str).collect();
            return Err(Invalid {
                reason: ObjectReason::Unsupported,
                message: unsupported_message(&names),
            });
        }
        let control = |key: &str| {
            let text = annotations.get(key);
            text.map(|text| Control::parse(text)).transpose().map_err(|error| Invalid {
                reason: ObjectReason::InvalidControl,
                message: format!(
                    "annotation {key} cannot be read: {error}; nothing of this module moves until it is mended or removed"
                ),
            })
        };
        Ok(Self {
            paused: if deleting {
                None
            } else {
                control(annotation::PAUSED)?
            },
            acknowledged: control(annotation::ACKNOWLEDGE_WITHDRAWAL)?,
            abandoned: control(annotation::ABANDON)?,
        })
    }

    /// The pause, if one holds.
    pub fn paused(&self, now: Timestamp) -> Option<&Control> {
        self.paused.as_ref().filter(|control| control.holds(now))
    }

    /// The acknowledgement of a withdrawal, if one holds.
    pub fn acknowledged(&self, now: Timestamp) -> Option<&Control> {
        self.acknowledged.as_ref().filter(|control| control.holds(now))
    }

    /// The giving up of clusters, if it holds.
    pub fn abandoned(&self, now: Timestamp) -> Option<&Control> {
        self.abandoned.as_ref().filter(|control| control.holds(now))
    }

    /// The clusters that are given up.
    pub fn given_up(&self, now: Timestamp) -> BTreeSet<UnitId> {
        let control = self.abandoned(now);
        control
            .into_iter()
            .flat_map(Control::names)
            .map(UnitId::from)
            .collect()
    }

    /// When the first of them ends by itself.
    pub fn end(&self, now: Timestamp) -> Option<Timestamp> {
        let all = [self.paused(now), self.acknowledged(now), self.abandoned(now)];
        all.into_iter()
            .flatten()
            .filter_map(|control| control.until)
            .min()
    }
}

/// The command that writes a control so that Flux leaves it alone; without a value, the one that removes it.
pub fn command(address: &Address<'_>, key: &str, value: Option<&str>) -> String {
    let Address { namespace, module } = address;
    let begin = format!(
        "kubectl annotate --namespace {namespace} --field-manager={} {module}",
        manager::CLI
    );
    match value {
        Some(value) => format!("{begin} --overwrite {key}={}", quoted(value)),
        None => format!("{begin} {key}-"),
    }
}

/// A module as kubectl takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Kind and name: `module/web`.
    pub module: &'a str,
}

/// As a shell takes it for one word.
fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._,:/".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// The manager by which a control was written, if Flux applies the object and will take the control away from that manager.
pub fn at_risk<'a>(managed: &'a [ManagedFieldsEntry], key: &str) -> Option<&'a str> {
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
    use muster_api::Module;
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn module(annotations: &Value, deleting: bool) -> Module {
        let mut module = json!({
            "metadata": {"name": "web", "namespace": "fleet", "annotations": annotations},
            "spec": {"sync": {"source": {"git": {"url": "https://git.test/r", "version": {"tag": "v1"}}}}},
        });
        if deleting {
            module["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(module).unwrap()
    }

    #[test]
    fn what_holds_at_an_instant() {
        let controls = Controls::read(&module(
            &json!({
                "fleet.muster.dev/paused": r#"{"by": "ann", "until": "1970-01-01T00:01:00Z"}"#,
                "fleet.muster.dev/acknowledge-withdrawal": "0a1b",
                "fleet.muster.dev/abandon": r#"{"for": "eu-2, eu-1", "until": "1970-01-01T00:02:00Z"}"#,
            }),
            false,
        ))
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
        let check = |annotations: Value, deleting: bool, reason: ObjectReason, says: &str| {
            let invalid = Controls::read(&module(&annotations, deleting)).unwrap_err();
            assert_eq!(invalid.reason, reason, "{}", invalid.message);
            assert!(invalid.message.starts_with(says), "{}", invalid.message);
        };
        for key in ["paused", "acknowledge-withdrawal", "abandon"] {
            let key = format!("fleet.muster.dev/{key}");
            let says = format!("annotation {key} cannot be read: it begins with {{ and is no JSON");
            check(
                json!({&key: "{nonsense"}),
                false,
                ObjectReason::InvalidControl,
                &says,
            );
        }
        for key in ["hold", "pin", "approve", "abort", "retry"] {
            let key = format!("fleet.muster.dev/{key}");
            let says = format!("annotation {key} is not supported by this version of muster: remove it");
            check(json!({&key: "true"}), false, ObjectReason::Unsupported, &says);
        }
        let deleted = json!({"fleet.muster.dev/paused": "{", "fleet.muster.dev/hold": ""});
        assert_eq!(Controls::read(&module(&deleted, true)), Ok(Controls::default()));
        check(
            json!({"fleet.muster.dev/abandon": "{"}),
            true,
            ObjectReason::InvalidControl,
            "annotation fleet.muster.dev/abandon",
        );
    }

    #[test]
    fn a_command_is_one_that_a_shell_takes() {
        let address = Address {
            namespace: "fleet",
            module: "module/web",
        };
        let check = |value: Option<&str>, expect: &str| {
            let expect =
                format!("kubectl annotate --namespace fleet --field-manager=muster-cli module/web {expect}");
            assert_eq!(command(&address, "k", value), expect);
        };
        check(None, "k-");
        check(Some("eu-1,eu-2"), "--overwrite k=eu-1,eu-2");
        check(Some(""), "--overwrite k=''");
        check(
            Some("{\"by\": \"o'neil $(x)\"}"),
            r#"--overwrite k='{"by": "o'\''neil $(x)"}'"#,
        );
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
