//! Pins of clusters or nodes to revisions: by an annotation of the Cluster or Node, or of the module. Pure.
//!
//! A pin names a revision that has a ModuleRevision or NodeRevision. The unit gets that revision, with its present
//! values, in its turn. An invalid pin leaves the unit unchanged.

use std::{cell::LazyCell, collections::BTreeMap, fmt};

use jiff::Timestamp;
use muster_api::{
    control::{Control, ControlError},
    labels::annotation,
    revision::Verdict,
};
use muster_rollout::{Decision, Memory, Revision, UnitId};
use thiserror::Error;

use super::{
    command::{ModuleAddress, command},
    reasons::{self, Vocabulary},
    unit::Unit,
};

/// The shortest prefix of a hash that names a revision: the length shown in messages.
pub(crate) const SHORTEST: usize = 8;
/// The length of a full hash.
const LONGEST: usize = 64;

/// Why a pin has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PinError {
    /// The annotation cannot be parsed, or its times are implausible.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] ControlError),
    /// The value is not a revision.
    #[error(
        "{value:?} is not a revision: write {SHORTEST} or more digits of its hash (kubectl get {} -o wide)",
        words.revisions
    )]
    NoRevision {
        /// What units are called in messages.
        words: &'static Vocabulary,
        /// The value of the annotation.
        value: String,
    },
    /// No such revision is recorded.
    #[error("this {} has no revision {prefix}, no longer or not yet (kubectl get {})", words.module, words.revisions)]
    Unknown {
        /// What units are called in messages.
        words: &'static Vocabulary,
        /// The prefix in the annotation.
        prefix: String,
    },
    /// Several revisions have this prefix.
    #[error("{count} revisions of this {} begin with {prefix}: write more digits", words.module)]
    Ambiguous {
        /// What units are called in messages.
        words: &'static Vocabulary,
        /// The prefix in the annotation.
        prefix: String,
        /// How many revisions match.
        count: usize,
    },
    /// The revision is known bad and never assigned again.
    #[error("revision {prefix} is known bad and is not assigned: pin another revision, or retry this one")]
    KnownBad {
        /// The prefix in the annotation.
        prefix: String,
    },
    /// The annotations of the unit and of the module name different revisions.
    #[error("the {} says {of_unit}, and the {} says {of_module}", words.kind, words.module)]
    Disagree {
        /// What units are called in messages.
        words: &'static Vocabulary,
        /// The revision in the annotation of the Cluster or Node, shortened.
        of_unit: String,
        /// The revision in the annotation of the module, shortened.
        of_module: String,
    },
}

/// A pin of one unit that is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    /// Key of the annotation.
    pub key: String,
    /// What units are called in messages.
    pub words: &'static Vocabulary,
    /// Whether the annotation is on the Cluster or Node; otherwise it is on the module.
    pub on_unit: bool,
    /// The full revision, or why the unit stays unchanged.
    pub revision: Result<String, PinError>,
    /// Who set it, why, since and until when.
    pub provenance: String,
    /// When it expires; `None` if it does not.
    pub until: Option<Timestamp>,
    /// The command that removes it.
    pub unpin: String,
}

impl Pin {
    /// The message for a pin that has no effect.
    pub(crate) fn problem(&self, unit: &str, error: &PinError) -> String {
        let Vocabulary { kind, module, .. } = self.words;
        let on = if self.on_unit {
            format!(" on {kind} {unit}")
        } else {
            String::new()
        };
        format!(
            "annotation {}{on}: {error}; nothing of this {module} is changed there until it is fixed or removed: {}",
            self.key, self.unpin
        )
    }

    /// Why the pin has no effect on a unit whose revision was not found. A unit that is not selected is withdrawn
    /// whether it is pinned or not, unless the pin is invalid.
    pub(crate) fn hindrance(&self, selected: bool) -> Option<PinError> {
        match &self.revision {
            Err(error) => Some(error.clone()),
            Ok(revision) => selected.then(|| PinError::Unknown {
                words: self.words,
                prefix: short_hash(revision),
            }),
        }
    }

    /// The message for a pin in effect.
    pub(crate) fn message(&self, version: &str, revision: &str) -> String {
        let revision = revision.get(..SHORTEST).unwrap_or(revision);
        format!(
            "pinned to {version} (revision {revision}){}; to unpin it: {}",
            self.provenance, self.unpin
        )
    }

    /// The message for a pin in effect whose revision has only a hash, no version.
    pub(crate) fn says_revision(&self, revision: &str) -> String {
        let revision = revision.get(..SHORTEST).unwrap_or(revision);
        format!(
            "pinned to revision {revision}{}; to unpin it: {}",
            self.provenance, self.unpin
        )
    }
}

/// The prefix of a revision, by unit.
pub(crate) type Entries = BTreeMap<String, String>;

/// The known revisions of a module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownRevisions<'a, R> {
    /// The recorded revisions, each with its verdict.
    pub revisions: R,
    /// The engine's memory.
    pub memory: &'a Memory,
}

/// The annotation of a Cluster or Node that pins it for a module: key and value.
pub(crate) fn annotated<'a>(unit: &Unit<'a>, module: &ModuleAddress<'_>) -> Option<(&'a str, &'a str)> {
    let name = module
        .module
        .split_once('/')
        .map_or(module.module, |(_, name)| name);
    let mut annotations = unit.annotations.iter();
    let (key, text) = annotations.find(|(key, _)| key.strip_prefix(annotation::PIN_PREFIX) == Some(name))?;
    Some((key, text))
}

/// Parses the module's annotation that pins units: `eu-1@1a2b3c4d`, separated by commas; each unit once.
pub(crate) fn pin_entries(control: &Control, words: &'static Vocabulary) -> Result<Entries, String> {
    let unit = words.unit;
    let mut entries = BTreeMap::new();
    for entry in control
        .what
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (name, revision) = entry
            .split_once('@')
            .ok_or_else(|| format!("{entry:?} is not of the form {}@REVISION", unit.to_uppercase()))?;
        let revision = spelled(revision, words).map_err(|error| error.to_string())?;
        if entries.insert(name.to_owned(), revision).is_some() {
            return Err(format!("it names {unit} {name} twice"));
        }
    }
    if entries.is_empty() {
        return Err("it does not say what it is for".to_owned());
    }
    Ok(entries)
}

/// The pin of a unit for a module, if one is in effect.
pub(crate) fn pin_of_unit<'r, R>(
    unit: &Unit<'_>,
    module: &ModuleAddress<'_>,
    module_pin: Option<(&Control, &Entries)>,
    known: &KnownRevisions<'_, R>,
    now: Timestamp,
) -> Option<Pin>
where
    R: Iterator<Item = (&'r str, Option<Verdict>)> + Clone,
{
    let by_module = by_module(unit, module, module_pin, known);
    let Some(mut pin) = by_unit(unit, module, known, now) else {
        return by_module;
    };
    if let (Ok(of_unit), Some(Ok(of_module))) = (&pin.revision, by_module.map(|pin| pin.revision))
        && *of_unit != of_module
    {
        let [of_unit, of_module] = [of_unit, &of_module].map(short_hash);
        pin.revision = Err(PinError::Disagree {
            words: unit.words,
            of_unit,
            of_module,
        });
    }
    Some(pin)
}

fn by_unit<'r, R>(
    unit: &Unit<'_>,
    module: &ModuleAddress<'_>,
    known: &KnownRevisions<'_, R>,
    now: Timestamp,
) -> Option<Pin>
where
    R: Iterator<Item = (&'r str, Option<Verdict>)> + Clone,
{
    let (key, text) = annotated(unit, module)?;
    let control = Control::parse(text).and_then(|control| control.meant(now));
    if control.as_ref().is_ok_and(|control| !control.holds(now)) {
        return None;
    }
    let (provenance, until) = control.as_ref().map_or((String::new(), None), |control| {
        (control.provenance(), control.until)
    });
    let revision = control
        .map_err(PinError::from)
        .and_then(|control| spelled(&control.what, unit.words))
        .and_then(|prefix| found(&prefix, unit.words, known));
    let address = ModuleAddress {
        namespace: module.namespace,
        module: &unit.object(),
    };
    Some(Pin {
        unpin: command(&address, key, None),
        key: key.to_owned(),
        words: unit.words,
        on_unit: true,
        revision,
        provenance,
        until,
    })
}

fn by_module<'r, R>(
    unit: &Unit<'_>,
    module: &ModuleAddress<'_>,
    module_pin: Option<(&Control, &Entries)>,
    known: &KnownRevisions<'_, R>,
) -> Option<Pin>
where
    R: Iterator<Item = (&'r str, Option<Verdict>)> + Clone,
{
    let (control, entries) = module_pin?;
    let prefix = entries.get(unit.name)?;
    let others = entries.iter().filter(|(name, _)| *name != unit.name);
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
        words: unit.words,
        on_unit: false,
        revision: found(prefix, unit.words, known),
        provenance: control.provenance(),
        until: control.until,
        unpin: command(module, annotation::PIN, rest.as_deref()),
    })
}

/// Validates a revision prefix, and converts it to lower case.
fn spelled(text: &str, words: &'static Vocabulary) -> Result<String, PinError> {
    let text = text.trim();
    let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex && (SHORTEST..=LONGEST).contains(&text.len()) {
        return Ok(text.to_ascii_lowercase());
    }
    let value = text.chars().take(LONGEST).collect();
    Err(PinError::NoRevision { words, value })
}

/// The only revision with this prefix, unless it is known bad.
fn found<'r, R>(
    prefix: &str,
    words: &'static Vocabulary,
    known: &KnownRevisions<'_, R>,
) -> Result<String, PinError>
where
    R: Iterator<Item = (&'r str, Option<Verdict>)> + Clone,
{
    let all = known.revisions.clone();
    let mut begin = all.filter(|(revision, _)| revision.starts_with(prefix));
    let prefix = prefix.to_owned();
    let Some((revision, verdict)) = begin.next() else {
        return Err(PinError::Unknown { words, prefix });
    };
    let count = 1 + begin.count();
    if count > 1 {
        return Err(PinError::Ambiguous { words, prefix, count });
    }
    if is_bad(revision, verdict, known.memory) {
        return Err(PinError::KnownBad { prefix });
    }
    Ok(revision.to_owned())
}

/// A revision that is being retried is not bad, even if its recorded verdict still says so.
fn is_bad(revision: &str, verdict: Option<Verdict>, memory: &Memory) -> bool {
    let Some(revision) = Revision::parse(revision) else {
        return false;
    };
    let rolls = memory.run.is_some_and(|run| run.target == revision);
    memory.is_bad(revision) || verdict == Some(Verdict::Bad) && !rolls
}

/// A unit that is pinned to a recorded revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PinnedUnit<'a> {
    /// Name of the unit.
    pub unit: &'a str,
    /// Who pinned it, why, until when, and how the pin ends.
    pub message: &'a str,
    /// Whether its row has that revision.
    pub carries: bool,
}

/// The message for each pinned unit: who pinned it, to what, and whether it has that revision.
pub(crate) fn pin_messages<'a>(
    words: &Vocabulary,
    decision: &Decision,
    placed: impl Iterator<Item = PinnedUnit<'a>>,
) -> BTreeMap<String, String> {
    let changes = || {
        let all = decision.memory.in_flight.iter();
        all.filter(|(_, change)| change.counts())
    };
    let limit = decision.summary.limit;
    let turn = LazyCell::new(|| {
        let holders: Vec<UnitId> = changes().map(|(unit, _)| unit.clone()).collect();
        if u32::try_from(holders.len()).is_ok_and(|held| held < limit) {
            return "it waits for its turn".to_owned();
        }
        reasons::waiting_message(words, &holders, limit, "it")
    });
    let messages = placed.map(|placed| {
        let change = decision.memory.in_flight.get(placed.unit);
        let step = match change {
            Some(change) if change.counts() => "; it is on its way there".to_owned(),
            _ if placed.carries => String::new(),
            _ => format!("; {}", *turn),
        };
        (placed.unit.to_owned(), format!("{}{step}", placed.message))
    });
    messages.collect()
}

fn short_hash(revision: impl fmt::Display) -> String {
    revision.to_string().chars().take(SHORTEST).collect()
}

#[cfg(test)]
mod tests {
    use muster_api::Module;
    use muster_rollout::{Evidence, Millis};
    use serde_json::{Value, json};

    use super::*;
    use crate::module::controls::Controls;

    const MODULE: ModuleAddress<'_> = ModuleAddress {
        namespace: "fleet",
        module: "module/web",
    };

    fn revision(begin: &str) -> String {
        format!("{begin:0<64}")
    }

    fn controls(pin: &Value) -> Controls {
        let module = json!({
            "metadata": {"name": "web", "annotations": {"fleet.muster.dev/pin": pin}},
            "spec": {"sync": {"source": {"git": {"url": "https://git.test/r", "version": {"tag": "v1"}}}}},
        });
        let module: Module = serde_json::from_value(module).unwrap();
        Controls::read(&module.metadata, &Vocabulary::CLUSTERS).unwrap()
    }

    fn pin_of(of_cluster: &Value, of_module: &Value) -> Option<Pin> {
        let mut memory = Memory::default();
        let evidence = Evidence::new("eu-2".into(), "no image", Millis(0));
        memory
            .bad
            .insert(Revision::parse(&revision("bad00000")).unwrap(), evidence);
        let revisions = [
            (revision("aaaaaaaa1"), Some(Verdict::Good)),
            (revision("aaaaaaaa2"), None),
            (revision("bad00000"), Some(Verdict::Bad)),
            (revision("bad11111"), Some(Verdict::Bad)),
            (revision("cccccccc"), Some(Verdict::Superseded)),
        ];
        let known = KnownRevisions {
            revisions: revisions
                .iter()
                .map(|(revision, verdict)| (revision.as_str(), *verdict)),
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
        let annotations = serde_json::from_value(annotations).unwrap();
        let unit = Unit {
            words: &Vocabulary::CLUSTERS,
            name: "eu-1",
            annotations: &annotations,
        };
        pin_of_unit(&unit, &MODULE, controls.pinned(now), &known, now)
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
        for (text, expect) in [
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
            check(&json!(text), &none, Some(Err(expect)));
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
        let pin = pin_of(&json!(r#"{"for": "cccccccc", "by": "ann"}"#), &Value::Null).unwrap();
        assert_eq!(
            pin.message("v1", &revision("cccccccc")),
            "pinned to v1 (revision cccccccc) by ann; to unpin it: kubectl annotate --namespace fleet --field-manager=muster-cli cluster/eu-1 \
             fleet.muster.dev/pin.web-"
        );
        let pin = pin_of(
            &Value::Null,
            &json!(r#"{"for": "eu-1@dddddddd,eu-2@cccccccc", "by": "ann"}"#),
        )
        .unwrap();
        let error = pin.revision.clone().unwrap_err();
        assert_eq!(
            pin.problem("eu-1", &error),
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
