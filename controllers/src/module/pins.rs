//! What clusters are pinned to: by an annotation of the Cluster, or by one of the module. Pure.
//!
//! A pin names a revision of which there is a ModuleRevision; the cluster gets that one, with its values of today, in its turn. What
//! cannot be meant moves nothing there.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use muster_api::{
    control::{Control, ControlError},
    labels::{annotation, manager},
    revision::Verdict,
};
use muster_rollout::{Memory, Revision};
use thiserror::Error;

use super::{
    command::{Address, command},
    facts::RevisionRow,
};
use crate::registry::ClusterRow;

/// Digits of a hash that name a revision: as many as messages show.
pub const SHORTEST: usize = 8;
/// Digits of a hash.
const LONGEST: usize = 64;

/// Why a pin cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PinError {
    /// The annotation cannot be read, or is not meant.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] ControlError),
    /// It names no revision.
    #[error(
        "{said:?} is not a revision: write {SHORTEST} or more digits of its hash (kubectl get modulerevisions -o wide)"
    )]
    NoRevision {
        /// What stands there.
        said: String,
    },
    /// Nobody knows that revision.
    #[error("this module has no revision {said}, no longer or not yet (kubectl get modulerevisions)")]
    Unknown {
        /// How its hash begins.
        said: String,
    },
    /// Several begin so.
    #[error("{count} revisions of this module begin with {said}: write more digits")]
    Ambiguous {
        /// How their hashes begin.
        said: String,
        /// How many there are.
        count: usize,
    },
    /// It is never assigned again.
    #[error("revision {said} is known bad and is not assigned: pin another revision, or retry this one")]
    KnownBad {
        /// How its hash begins.
        said: String,
    },
    /// The Cluster and the module say different things.
    #[error("the Cluster says {of_cluster}, and the module says {of_module}")]
    Disagree {
        /// What the Cluster's annotation says.
        of_cluster: String,
        /// What the module's says.
        of_module: String,
    },
}

/// A pin, as far as it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The annotation.
    pub key: String,
    /// The Cluster has it; else the module.
    pub on_cluster: bool,
    /// The revision in full, or why nothing is changed there.
    pub revision: Result<String, PinError>,
    /// Who, why, since and until when.
    pub told: String,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// The command that takes it away.
    pub unpin: String,
}

impl Pin {
    /// What is said of a pin that cannot be carried out.
    pub fn problem(&self, cluster: &str, error: &PinError) -> String {
        let place = if self.on_cluster {
            format!(" on Cluster {cluster}")
        } else {
            String::new()
        };
        format!(
            "annotation {}{place}: {error}; nothing of this module is changed there until it is fixed or removed: {}",
            self.key, self.unpin
        )
    }

    /// Why it cannot be carried out in a cluster for which its revision was not found. One that is not selected is withdrawn from,
    /// pinned or not, unless nobody knows what the pin means.
    pub fn hindrance(&self, selected: bool) -> Option<PinError> {
        match &self.revision {
            Err(error) => Some(error.clone()),
            Ok(revision) => selected.then(|| PinError::Unknown {
                said: short(revision),
            }),
        }
    }

    /// What is said of one that is.
    pub fn says(&self, version: &str, revision: &str) -> String {
        let revision = revision.get(..SHORTEST).unwrap_or(revision);
        format!(
            "pinned to {version} (revision {revision}){}; to unpin it: {}",
            self.told, self.unpin
        )
    }
}

/// How the hash of a revision begins, by cluster.
pub type Entries = BTreeMap<String, String>;

/// What is known of a module's revisions.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Those on record, by name of the ModuleRevision.
    pub revisions: &'a BTreeMap<String, RevisionRow>,
    /// What the engine remembers.
    pub memory: &'a Memory,
}

/// The annotation of a Cluster that pins it for a module, if it has it: key and text.
pub fn annotated<'a>(cluster: &'a ClusterRow, module: &Address<'_>) -> Option<(&'a str, &'a str)> {
    let name = module
        .module
        .split_once('/')
        .map_or(module.module, |(_, name)| name);
    let mut annotations = cluster.annotations.iter();
    let (key, text) = annotations.find(|(key, _)| key.strip_prefix(annotation::PIN_PREFIX) == Some(name))?;
    Some((key, text))
}

/// The annotation of a module that pins clusters: `eu-1@1a2b3c4d`, by comma; each cluster once.
pub fn entries(control: &Control) -> Result<Entries, String> {
    let mut entries = BTreeMap::new();
    for entry in control
        .what
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (cluster, revision) = entry
            .split_once('@')
            .ok_or_else(|| format!("{entry:?} is not of the form CLUSTER@REVISION"))?;
        let revision = spelled(revision).map_err(|error| error.to_string())?;
        if entries.insert(cluster.to_owned(), revision).is_some() {
            return Err(format!("it names cluster {cluster} twice"));
        }
    }
    if entries.is_empty() {
        return Err("it does not say what it is for".to_owned());
    }
    Ok(entries)
}

/// The pin of a cluster for a module, if there is one that is not over.
pub fn of(
    cluster: &ClusterRow,
    module: &Address<'_>,
    said: Option<(&Control, &Entries)>,
    known: Known<'_>,
    now: Timestamp,
) -> Option<Pin> {
    let by_module = by_module(&cluster.name, module, said, known);
    let Some(mut pin) = by_cluster(cluster, module, known, now) else {
        return by_module;
    };
    if let (Ok(of_cluster), Some(Ok(of_module))) = (&pin.revision, by_module.map(|pin| pin.revision))
        && *of_cluster != of_module
    {
        let [of_cluster, of_module] = [of_cluster, &of_module].map(short);
        pin.revision = Err(PinError::Disagree {
            of_cluster,
            of_module,
        });
    }
    Some(pin)
}

fn by_cluster(cluster: &ClusterRow, module: &Address<'_>, known: Known<'_>, now: Timestamp) -> Option<Pin> {
    let (key, text) = annotated(cluster, module)?;
    let control = Control::parse(text).and_then(|control| control.meant(now));
    if control.as_ref().is_ok_and(|control| !control.holds(now)) {
        return None;
    }
    let (told, until) = control
        .as_ref()
        .map_or((String::new(), None), |control| (control.told(), control.until));
    let revision = control
        .map_err(PinError::from)
        .and_then(|control| spelled(&control.what))
        .and_then(|said| found(&said, known));
    Some(Pin {
        unpin: format!(
            "kubectl annotate --namespace {} --field-manager={} cluster/{} {key}-",
            module.namespace,
            manager::CLI,
            cluster.name
        ),
        key: key.to_owned(),
        on_cluster: true,
        revision,
        told,
        until,
    })
}

fn by_module(
    cluster: &str,
    module: &Address<'_>,
    said: Option<(&Control, &Entries)>,
    known: Known<'_>,
) -> Option<Pin> {
    let (control, entries) = said?;
    let said = entries.get(cluster)?;
    let others = entries.iter().filter(|(name, _)| *name != cluster);
    let others: Vec<String> = others
        .map(|(name, revision)| format!("{name}@{revision}"))
        .collect();
    let rest = (!others.is_empty()).then(|| {
        let what = others.join(",");
        Control {
            what,
            ..control.clone()
        }
        .to_text()
    });
    Some(Pin {
        key: annotation::PIN.to_owned(),
        on_cluster: false,
        revision: found(said, known),
        told: control.told(),
        until: control.until,
        unpin: command(module, annotation::PIN, rest.as_deref()),
    })
}

/// The digits of a revision, as hashes are written.
fn spelled(text: &str) -> Result<String, PinError> {
    let text = text.trim();
    let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex && (SHORTEST..=LONGEST).contains(&text.len()) {
        return Ok(text.to_ascii_lowercase());
    }
    let said = text.chars().take(LONGEST).collect();
    Err(PinError::NoRevision { said })
}

/// The one revision that begins so, unless it is known to be bad.
fn found(said: &str, known: Known<'_>) -> Result<String, PinError> {
    let mut rows = known
        .revisions
        .values()
        .filter(|row| row.revision.starts_with(said));
    let said = || said.to_owned();
    let row = rows.next().ok_or_else(|| PinError::Unknown { said: said() })?;
    let more = rows.count();
    if more > 0 {
        return Err(PinError::Ambiguous {
            said: said(),
            count: more + 1,
        });
    }
    if is_bad(row, known.memory) {
        return Err(PinError::KnownBad { said: said() });
    }
    Ok(row.revision.clone())
}

/// What is tried again is not bad any more, though its story may still say so.
fn is_bad(row: &RevisionRow, memory: &Memory) -> bool {
    let Some(revision) = Revision::parse(&row.revision) else {
        return false;
    };
    let rolls = memory.run.is_some_and(|run| run.target == revision);
    memory.is_bad(revision) || row.status.verdict == Some(Verdict::Bad) && !rolls
}

fn short(revision: impl fmt::Display) -> String {
    revision.to_string().chars().take(SHORTEST).collect()
}

#[cfg(test)]
mod tests {
    use muster_api::{Module, revision::ModuleRevisionStatus};
    use muster_rollout::{Evidence, Millis};
    use serde_json::{Value, json};

    use super::*;
    use crate::module::controls::Controls;
    use crate::registry::ClusterState;

    const MODULE: Address<'_> = Address {
        namespace: "fleet",
        module: "module/web",
    };

    fn row(revision: &str, verdict: Option<Verdict>) -> (String, RevisionRow) {
        let row = RevisionRow {
            module: "web".to_owned(),
            revision: revision.to_owned(),
            uid: String::new(),
            created: None,
            status: ModuleRevisionStatus {
                verdict,
                ..ModuleRevisionStatus::default()
            },
        };
        (format!("web-{revision}"), row)
    }

    fn revision(begin: &str) -> String {
        format!("{begin:0<64}")
    }

    fn cluster(annotations: &Value) -> ClusterRow {
        ClusterRow {
            api_version: String::new(),
            name: "eu-1".to_owned(),
            uid: String::new(),
            labels: BTreeMap::new(),
            annotations: serde_json::from_value(annotations.clone()).unwrap(),
            state: ClusterState::Ready,
            since: Timestamp::UNIX_EPOCH,
            last_contact: None,
            identity: None,
            leads_elsewhere: false,
        }
    }

    fn controls(pin: &Value) -> Controls {
        let module = json!({
            "metadata": {"name": "web", "annotations": {"fleet.muster.dev/pin": pin}},
            "spec": {"sync": {"source": {"git": {"url": "https://git.test/r", "version": {"tag": "v1"}}}}},
        });
        let module: Module = serde_json::from_value(module).unwrap();
        Controls::read(&module.metadata).unwrap()
    }

    fn pin_of(of_cluster: &Value, of_module: &Value) -> Option<Pin> {
        let mut memory = Memory::default();
        let evidence = Evidence::new("eu-2".into(), "no image", Millis(0));
        memory
            .bad
            .insert(Revision::parse(&revision("bad00000")).unwrap(), evidence);
        let revisions: BTreeMap<String, RevisionRow> = [
            row(&revision("aaaaaaaa1"), Some(Verdict::Good)),
            row(&revision("aaaaaaaa2"), None),
            row(&revision("bad00000"), Some(Verdict::Bad)),
            row(&revision("bad11111"), Some(Verdict::Bad)),
            row(&revision("cccccccc"), Some(Verdict::Superseded)),
        ]
        .into();
        let known = Known {
            revisions: &revisions,
            memory: &memory,
        };
        let annotations = match of_cluster {
            Value::Null => json!({}),
            text => json!({"fleet.muster.dev/pin.web": text, "fleet.muster.dev/pin.other": "cccccccc"}),
        };
        let now = Timestamp::from_second(60).unwrap();
        let controls = if of_module.is_null() {
            Controls::default()
        } else {
            controls(of_module)
        };
        of(&cluster(&annotations), &MODULE, controls.pinned(now), known, now)
    }

    fn check(of_cluster: &Value, of_module: &Value, expect: Option<Result<&str, &str>>) {
        let found = pin_of(of_cluster, of_module).map(|pin| pin.revision);
        let expect = expect.map(|expect| expect.map(revision));
        match (&found, &expect) {
            (Some(Err(error)), Some(Err(says))) => assert!(error.to_string().starts_with(says), "{error}"),
            _ => assert_eq!(
                format!("{found:?}"),
                format!("{expect:?}"),
                "{of_cluster} {of_module}"
            ),
        }
    }

    #[test]
    fn what_a_pin_means() {
        let none = Value::Null;
        check(&none, &none, None);
        check(&json!("CCCCCCCC"), &none, Some(Ok("cccccccc")));
        check(&json!("aaaaaaaa1"), &none, Some(Ok("aaaaaaaa1")));
        check(
            &json!(r#"{"for": "cccccccc00", "by": "ann"}"#),
            &none,
            Some(Ok("cccccccc")),
        );
        check(&none, &json!("eu-2@aaaaaaaa1"), None);
        check(
            &none,
            &json!("eu-1@cccccccc, eu-2@aaaaaaaa1"),
            Some(Ok("cccccccc")),
        );
        check(&json!("cccccccc"), &json!("eu-1@cccccccc0"), Some(Ok("cccccccc")));
        check(
            &json!(r#"{"for": "cccccccc", "until": "1970-01-01T00:01:00Z"}"#),
            &none,
            None,
        );
        check(&json!("false"), &none, None);
        let over = json!(r#"{"for": "aaaaaaaa1", "until": "1970-01-01T00:00:01Z"}"#);
        check(&over, &json!("eu-1@cccccccc"), Some(Ok("cccccccc")));
    }

    #[test]
    fn what_cannot_be_meant_says_why() {
        let none = Value::Null;
        for (text, says) in [
            ("", "\"\" is not a revision"),
            ("v1.0.0", "\"v1.0.0\" is not a revision: write 8 or more digits"),
            ("ccccccc", "\"ccccccc\" is not a revision"),
            ("{", "it cannot be read: it begins with {"),
            (
                r#"{"for": "cccccccc", "until": "2270-01-01T00:00:00Z"}"#,
                "it cannot be read: until is 2270-01-01T00:00:00Z, more than a year",
            ),
            ("dddddddd", "this module has no revision dddddddd"),
            (
                "aaaaaaaa",
                "2 revisions of this module begin with aaaaaaaa: write more digits",
            ),
            ("bad00000", "revision bad00000 is known bad"),
            ("bad11111", "revision bad11111 is known bad"),
        ] {
            check(&json!(text), &none, Some(Err(says)));
        }
        check(
            &none,
            &json!("eu-1@bad00000"),
            Some(Err("revision bad00000 is known bad")),
        );
        check(
            &json!("cccccccc"),
            &json!("eu-1@aaaaaaaa1"),
            Some(Err("the Cluster says cccccccc, and the module says aaaaaaaa")),
        );
    }

    #[test]
    fn what_ends_it_is_a_command() {
        let said = pin_of(&json!(r#"{"for": "cccccccc", "by": "ann"}"#), &Value::Null).unwrap();
        assert_eq!(
            said.says("v1", &revision("cccccccc")),
            "pinned to v1 (revision cccccccc) by ann; to unpin it: kubectl annotate --namespace fleet --field-manager=muster-cli cluster/eu-1 \
             fleet.muster.dev/pin.web-"
        );
        let said = pin_of(
            &Value::Null,
            &json!(r#"{"for": "eu-1@dddddddd,eu-2@cccccccc", "by": "ann"}"#),
        )
        .unwrap();
        let error = said.revision.clone().unwrap_err();
        assert_eq!(
            said.problem("eu-1", &error),
            "annotation fleet.muster.dev/pin: this module has no revision dddddddd, no longer or not yet (kubectl get modulerevisions); \
             nothing of this module is changed there until it is fixed or removed: kubectl annotate --namespace fleet --field-manager=muster-cli \
             module/web --overwrite fleet.muster.dev/pin='{\"for\":\"eu-2@cccccccc\",\"by\":\"ann\"}'"
        );
        let alone = pin_of(&Value::Null, &json!("eu-1@cccccccc")).unwrap();
        assert!(
            alone.unpin.ends_with("module/web fleet.muster.dev/pin-"),
            "{}",
            alone.unpin
        );
    }
}
