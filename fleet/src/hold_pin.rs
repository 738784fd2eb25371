//! Holds and pins: keep clusters or nodes as they are, or at a revision, until that is removed.

use std::{collections::BTreeSet, fmt, str::FromStr};

use anyhow::{Context as _, bail};
use kube::{Client, ResourceExt, core::DynamicObject};
use muster_api::{
    control::Control,
    labels::annotation::{HOLD, PIN, PIN_PREFIX},
    schema::MAX_LABEL,
};
use muster_dashboard::{Kind, RevisionOutcome};
use serde_json::{Value, json};

use crate::{
    ObjectAddress, Reporter,
    control::{self, ControlWrite, DryRun, Term, control_write},
    history,
    name::ModuleName,
    nodes::{self, NodeError},
    read,
};

/// The object that has the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// A cluster, for all modules.
    Cluster(String),
    /// A node, for all NodeModules.
    Node(String),
    /// A module, for some clusters.
    Module(ModuleName),
}

impl FromStr for Held {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some(("cluster" | "clusters", "")) => Err("the name is missing: write CLUSTER".to_owned()),
            Some(("cluster" | "clusters", name)) => Ok(Self::Cluster(name.to_owned())),
            None => Ok(Self::Cluster(text.to_owned())),
            Some(("node" | "nodes" | "no", "")) => Err("the name is missing: write --node NAME".to_owned()),
            Some(("node" | "nodes" | "no", name)) => Ok(Self::Node(name.to_owned())),
            Some(_) => text.parse().map(Self::Module),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => f.write_str(name),
            Self::Node(name) => write!(f, "--node {name}"),
            Self::Module(module) => module.fmt(f),
        }
    }
}

impl Held {
    /// Resolves a name and the units given by flags: the object, and the units of it that are meant.
    pub fn meant(
        top: Option<&Self>,
        clusters: &[String],
        nodes: &[String],
    ) -> anyhow::Result<(Self, Vec<String>)> {
        match (top, nodes) {
            (None, [only]) => Ok((Self::Node(only.clone()), Vec::new())),
            (None, several) => bail!(
                "for all NodeModules, name only one Node at a time; next: name one of {} with --node",
                several.join(", ")
            ),
            (Some(Self::Module(module)), _) if module.is_of_nodes() && !clusters.is_empty() => {
                let module = module.clone();
                bail!(NodeError::NotClusters { module })
            }
            (Some(Self::Module(module)), nodes) if module.is_of_nodes() => {
                Ok((Self::Module(module.clone()), nodes.to_vec()))
            }
            (Some(what), []) => Ok((what.clone(), clusters.to_vec())),
            (Some(what), _) => {
                let what = what.to_string();
                bail!(NodeError::NotNodes { what })
            }
        }
    }

    /// The address of a Cluster or Node and its name in messages; `None` for a module.
    async fn unit(&self, client: &Client, namespace: &str) -> anyhow::Result<Option<(ObjectAddress, &str)>> {
        Ok(match self {
            Self::Cluster(name) => Some((ObjectAddress::of_cluster(client, namespace, name).await?, name)),
            Self::Node(name) => Some((ObjectAddress::of_node(client, name), name)),
            Self::Module(_) => None,
        })
    }

    /// The kind that rolls over the unit, and the word for the unit.
    const fn kind_and_unit(&self) -> (&'static str, &'static str) {
        match self {
            Self::Node(_) => ("NodeModule", "node"),
            Self::Cluster(_) | Self::Module(_) => ("module", "cluster"),
        }
    }
}

/// The flag for units of a module.
const fn flag(module: &ModuleName) -> &'static str {
    match module.kind {
        Kind::NodeModule => "--node",
        Kind::Module | Kind::BootstrapModule | Kind::ClusterUpgrade => "--clusters",
    }
}

/// Holds clusters or nodes.
pub async fn hold(
    (client, namespace): (&Client, &str),
    (top, units): (&Held, &[String]),
    term: &Term,
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    match top {
        Held::Cluster(name) if !units.is_empty() => {
            bail!(
                "--clusters is for modules: write muster hold {name}, or muster hold module/NAME --clusters {name}"
            )
        }
        Held::Module(module) if units.is_empty() => bail!(
            "name the {}s that {module} should leave alone: {} A,B (to stop it everywhere: muster rollout pause {module})",
            module.kind.unit(),
            flag(module)
        ),
        Held::Module(module) => hold_of((client, namespace), module, units, term, dry_run, reporter).await?,
        unit => {
            let Some((address, _)) = unit.unit(client, namespace).await? else {
                return Ok(());
            };
            let address = address.or_module("hold", " --clusters CLUSTERS");
            let object = address.get().await?;
            let wanted = term.control(client, "true").await?;
            let verb = match control_write(annotated(&object, HOLD), wanted, control::now(), |_| true) {
                ControlWrite::Stands(control) => format!("is already held{}", control.provenance()),
                ControlWrite::Write(control) => {
                    control::annotate(&address, HOLD, &json!(control.to_text()), dry_run).await?;
                    format!("held{}", control.provenance())
                }
            };
            reporter.line(&control::done(&address, &verb, dry_run))?;
            let (module, kind) = unit.kind_and_unit();
            reporter.line(&format!(
                "No {module} will change this {kind}. To release it: muster release {unit}"
            ))?;
        }
    }
    Ok(())
}

/// Holds some units of a module.
async fn hold_of(
    (client, namespace): (&Client, &str),
    module: &ModuleName,
    units: &[String],
    term: &Term,
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let address = ObjectAddress::of(client, namespace, module);
    let object = address.get().await?;
    are_there(client, namespace, module, units).await?;
    let wanted = term.control(client, &units.join(",")).await?;
    let verb = match joined(annotated(&object, HOLD), wanted, module)? {
        ControlWrite::Stands(control) => format!("already holds {}{}", control.what, control.provenance()),
        ControlWrite::Write(control) => {
            let text = json!(control.to_text());
            control::replace(&address, &object, HOLD, &text, dry_run).await?;
            format!("holds {}{}", control.what, control.provenance())
        }
    };
    reporter.line(&control::done(&address, &verb, dry_run))?;
    reporter.line(&format!(
        "To release: muster release {module} {} {}",
        flag(module),
        units.join(",")
    ))
}

/// Fails if one of these does not exist; a node must be one of the NodeModule.
async fn are_there(
    client: &Client,
    namespace: &str,
    module: &ModuleName,
    units: &[String],
) -> anyhow::Result<()> {
    if module.is_of_nodes() {
        let fleet = nodes::read(client).await?;
        for name in units {
            nodes::check_selected(&fleet, &module.name, name)?;
        }
        return Ok(());
    }
    for name in units {
        ObjectAddress::of_cluster(client, namespace, name)
            .await?
            .get()
            .await?;
    }
    Ok(())
}

/// Removes a hold; false if a module still holds the cluster or node.
pub async fn release_hold(
    (client, namespace): (&Client, &str),
    (top, units): (&Held, &[String]),
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    match top {
        Held::Cluster(name) if !units.is_empty() => bail!(
            "--clusters is for modules: write muster release {name}, or muster release module/NAME --clusters {name}"
        ),
        Held::Module(module) => {
            release_of((client, namespace), module, units, dry_run, reporter).await?;
            Ok(true)
        }
        unit => {
            let Some((address, name)) = unit.unit(client, namespace).await? else {
                return Ok(true);
            };
            let address = address.or_module("release", "");
            let object = address.get().await?;
            let verb = taken_away(&address, &object, HOLD, dry_run, ("released", "is not held")).await?;
            reporter.line(&control::done(&address, verb, dry_run))?;
            Ok(!is_still_held((client, namespace), unit, name, reporter).await?)
        }
    }
}

/// Removes units from the hold of a module.
async fn release_of(
    (client, namespace): (&Client, &str),
    module: &ModuleName,
    units: &[String],
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let address = ObjectAddress::of(client, namespace, module);
    let object = address.get().await?;
    let verb = match annotated(&object, HOLD) {
        Some(text) if !units.is_empty() => match without(text, units, module)? {
            Some(ControlWrite::Write(left)) => {
                let text = json!(left.to_text());
                control::replace(&address, &object, HOLD, &text, dry_run).await?;
                format!(
                    "releases {}; it still leaves {} alone",
                    units.join(","),
                    left.what
                )
            }
            Some(ControlWrite::Stands(_)) => format!("does not hold {}", units.join(",")),
            None => {
                control::replace(&address, &object, HOLD, &Value::Null, dry_run).await?;
                format!("releases {}", units.join(","))
            }
        },
        _ => {
            let unit = module.kind.unit();
            let (all, none) = (format!("releases all {unit}s"), format!("holds no {unit}"));
            taken_away(&address, &object, HOLD, dry_run, (&all, &none))
                .await?
                .to_owned()
        }
    };
    reporter.line(&control::done(&address, &verb, dry_run))?;
    Ok(())
}

/// The unit that a pin is about.
pub fn pinned(cluster: Option<&str>, node: Option<&str>) -> anyhow::Result<Held> {
    match (cluster, node) {
        (_, Some(node)) => Ok(Held::Node(node.to_owned())),
        (Some(cluster), None) => Ok(Held::Cluster(cluster.to_owned())),
        (None, None) => bail!("name a cluster, or a node with --node"),
    }
}

/// Checks that a module rolls over this kind of unit.
fn check_kind(unit: &Held, module: &ModuleName) -> Result<(), NodeError> {
    match (unit, module.is_of_nodes()) {
        (Held::Node(_), false) => Err(NodeError::NotNodes {
            what: module.to_string(),
        }),
        (Held::Cluster(_), true) => Err(NodeError::NotClusters {
            module: module.clone(),
        }),
        _ => Ok(()),
    }
}

/// Pins a cluster or node to a revision of a module.
pub async fn pin(
    (client, namespace): (&Client, &str),
    unit: &Held,
    (module, revision): (&ModuleName, &str),
    term: &Term,
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    check_kind(unit, module)?;
    let Some((address, name)) = unit.unit(client, namespace).await? else {
        return Ok(());
    };
    let key = key(module, name)?;
    let object = address.get().await?;
    if module.is_of_nodes() {
        are_there(client, namespace, module, &[name.to_owned()]).await?;
    }
    let history = history::read_history(client, namespace, module).await?;
    let past = history.find_by_version(revision)?;
    if past.verdict == RevisionOutcome::Bad {
        bail!(
            "{} (revision {}) is known to be bad and is not assigned to any unit; next: choose another (muster rollout history {module})",
            past.version,
            past.short_hash()
        );
    }
    let digits = control::digits(&past.revision);
    if let Some(twin) = module.twin()
        && ObjectAddress::of(client, namespace, &twin)
            .find()
            .await?
            .is_some()
    {
        bail!(
            "{module} and {twin} both obey the annotation {key} of a Cluster; next, for this one only: kubectl annotate --field-manager=muster-cli {module} {PIN}={name}@{digits}"
        );
    }
    let wanted = term.control(client, digits).await?;
    let same = |before: &Control| past.revision.starts_with(&before.what.to_ascii_lowercase());
    let version = &past.version;
    let verb = match control_write(annotated(&object, &key), wanted, control::now(), same) {
        ControlWrite::Stands(control) => format!(
            "is pinned to {version} of {module} already{}",
            control.provenance()
        ),
        ControlWrite::Write(control) => {
            control::annotate(&address, &key, &json!(control.to_text()), dry_run).await?;
            format!(
                "pinned to {version} (revision {}) of {module}{}",
                past.short_hash(),
                control.provenance()
            )
        }
    };
    reporter.line(&control::done(&address, &verb, dry_run))?;
    if in_force(&object, HOLD).is_some() {
        reporter.line(&format!(
            "It is also held, and a hold takes precedence: muster release {unit}"
        ))?;
    }
    reporter.line(&format!(
        "It is applied when the rollout reaches the {}, and stays until it is unpinned: muster unpin {unit} --module {module}",
        unit.kind_and_unit().1
    ))
}

/// Removes a pin; without a module, the only one. False if a module still pins the cluster or node.
pub async fn unpin(
    (client, namespace): (&Client, &str),
    unit: &Held,
    module: Option<&ModuleName>,
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    module.map_or(Ok(()), |module| check_kind(unit, module))?;
    let Some((address, name)) = unit.unit(client, namespace).await? else {
        return Ok(true);
    };
    let key = module.map(|module| key(module, name)).transpose()?;
    let object = address.get().await?;
    let key = match key {
        Some(key) => Some(key),
        None => only_pin(&object, unit)?,
    };
    let words = ("unpinned", "is not pinned");
    let verb = match key {
        Some(key) => taken_away(&address, &object, &key, dry_run, words).await?,
        None => words.1,
    };
    reporter.line(&control::done(&address, verb, dry_run))?;
    Ok(!is_still_pinned((client, namespace), module, unit, name, reporter).await?)
}

/// The pin annotation of a Cluster or Node, if it has one; an error if it has several.
fn only_pin(object: &DynamicObject, unit: &Held) -> anyhow::Result<Option<String>> {
    let keys = object.annotations().keys();
    let pins: Vec<&String> = keys.filter(|key| key.starts_with(PIN_PREFIX)).collect();
    match &pins[..] {
        [] => Ok(None),
        [only] => Ok(Some((*only).clone())),
        several => {
            let modules = several.iter().filter_map(|key| key.strip_prefix(PIN_PREFIX));
            let modules: Vec<&str> = modules.collect();
            let first = modules.first().copied().unwrap_or_default();
            let kind = match unit {
                Held::Node(_) => "nodemodule/",
                Held::Cluster(_) | Held::Module(_) => "",
            };
            bail!(
                "{} is pinned for {}; next: name one, such as muster unpin {unit} --module {kind}{first}",
                object.name_any(),
                modules.join(", ")
            )
        }
    }
}

/// All modules that roll over this kind of unit.
async fn rolling(
    client: &Client,
    namespace: &str,
    unit: &Held,
) -> anyhow::Result<Vec<(Kind, DynamicObject)>> {
    match unit {
        Held::Node(_) => read::node_modules(client).await,
        Held::Cluster(_) | Held::Module(_) => read::modules(client, namespace).await,
    }
}

/// Reports whether this module, or any if none is given, still pins a unit after its annotation was removed; returns
/// whether one does.
async fn is_still_pinned(
    (client, namespace): (&Client, &str),
    module: Option<&ModuleName>,
    unit: &Held,
    cluster: &str,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    let found = match module {
        // A module that is gone pins nothing.
        Some(module) => {
            let found = ObjectAddress::of(client, namespace, module).find().await;
            found.map(|found| found.map(|object| (module.kind, object)).into_iter().collect())
        }
        None => rolling(client, namespace, unit).await,
    };
    // The pin is removed, so errors from here on are warnings.
    let found: Vec<_> = found.unwrap_or_else(|error| {
        let what = module.map_or_else(|| "a module".to_owned(), ToString::to_string);
        reporter.warn(&format!(
            "warning: whether {what} also pins it is unknown: {error:#}"
        ));
        Vec::new()
    });
    let mut is_still = false;
    for (kind, object) in found {
        let named = in_force(&object, PIN).is_some_and(|control| {
            let mut names = control.names().into_iter();
            names.any(|name| name.split_once('@').is_some_and(|(name, _)| name == cluster))
        });
        if named {
            let name = object.name_any();
            let module = ModuleName { kind, name };
            reporter.line(&format!(
                "It stays pinned by the annotation {PIN} of {module}: remove it there, too."
            ))?;
            is_still = true;
        }
    }
    Ok(is_still)
}

fn annotated<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.annotations().get(key).map(String::as_str)
}

/// The control of an annotation, if it is in force and not expired. One that cannot be parsed is in force, and names no
/// unit.
fn in_force(object: &DynamicObject, key: &str) -> Option<Control> {
    let control = Control::parse(annotated(object, key)?).unwrap_or_default(); // as above
    control.holds(control::now()).then_some(control)
}

/// Removes an annotation if it exists; returns the message for the result.
async fn taken_away<'a>(
    address: &ObjectAddress,
    object: &DynamicObject,
    key: &str,
    dry_run: DryRun,
    (done, nothing): (&'a str, &'a str),
) -> anyhow::Result<&'a str> {
    if annotated(object, key).is_none() {
        return Ok(nothing);
    }
    control::annotate(address, key, &Value::Null, dry_run).await?;
    Ok(done)
}

/// The key of the annotation of a Cluster or Node that pins it.
fn key(module: &ModuleName, cluster: &str) -> anyhow::Result<String> {
    let key = format!("{PIN_PREFIX}{}", module.name);
    let name = key.split_once('/').map_or(0, |(_, name)| name.len());
    if name > MAX_LABEL {
        bail!(
            "{module} has a name too long for an annotation; next: kubectl annotate --field-manager=muster-cli {module} {PIN}={cluster}@REVISION"
        );
    }
    Ok(key)
}

/// Adds these units to the control of a module. All units in one annotation share its reason and end: if others are
/// held with a different reason or end, nothing is written.
pub fn joined(before: Option<&str>, wanted: Control, module: &ModuleName) -> anyhow::Result<ControlWrite> {
    let now = control::now();
    // A value that cannot be parsed stops the module as well: the new control fixes it.
    let before = before
        .and_then(|text| Control::parse(text).ok())
        .filter(|control| control.holds(now));
    let Some(before) = before else {
        return Ok(ControlWrite::Write(wanted));
    };
    let (held, named) = (before.names(), wanted.names());
    let same_terms = (wanted.reason.is_none() || wanted.reason == before.reason)
        && (wanted.until.is_none() || wanted.until == before.until);
    let others: Vec<&str> = held.difference(&named).copied().collect();
    if !others.is_empty() && !same_terms {
        let all: Vec<&str> = held.union(&named).copied().collect();
        bail!(
            "{module} already leaves {} alone{}, and all names of an annotation share one reason and end; next: name all with {} {}, or release the others first",
            others.join(","),
            before.provenance(),
            flag(module),
            all.join(",")
        );
    }
    if same_terms && named.is_subset(&held) {
        return Ok(ControlWrite::Stands(before));
    }
    if !same_terms {
        return Ok(ControlWrite::Write(wanted));
    }
    let what = held.union(&named).copied().collect::<Vec<_>>().join(",");
    Ok(ControlWrite::Write(Control {
        what,
        ..before.clone()
    }))
}

/// Removes these units from the hold of a module: what must be written; `None` if no unit is left.
fn without(text: &str, clusters: &[String], module: &ModuleName) -> anyhow::Result<Option<ControlWrite>> {
    let before = Control::parse(text)
        .with_context(|| format!("the annotation {HOLD} cannot be read; next: muster release {module}"))?;
    let named: BTreeSet<&str> = clusters.iter().map(String::as_str).collect();
    let held = before.names();
    if held.is_disjoint(&named) {
        return Ok(Some(ControlWrite::Stands(before)));
    }
    let left: Vec<&str> = held.difference(&named).copied().collect();
    if left.is_empty() {
        return Ok(None);
    }
    let what = left.join(",");
    Ok(Some(ControlWrite::Write(Control {
        what,
        ..before.clone()
    })))
}

/// Reports which modules still hold a unit after its annotation was removed; returns whether any do.
async fn is_still_held(
    (client, namespace): (&Client, &str),
    unit: &Held,
    cluster: &str,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    let mut is_still = false;
    // The hold is removed, so errors from here on are warnings.
    let modules = rolling(client, namespace, unit).await.unwrap_or_else(|error| {
        reporter.warn(&format!(
            "warning: whether a module still holds it is not known: {error:#}"
        ));
        Vec::new()
    });
    for (kind, object) in modules {
        if in_force(&object, HOLD).is_some_and(|control| control.names().contains(cluster)) {
            let module = ModuleName {
                kind,
                name: object.name_any(),
            };
            let flag = flag(&module);
            reporter.line(&format!(
                "{module} still holds it: muster release {module} {flag} {cluster}"
            ))?;
            is_still = true;
        }
    }
    Ok(is_still)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module() -> ModuleName {
        "module/web".parse().unwrap()
    }

    fn wanted(what: &str, reason: Option<&str>, until: Option<&str>) -> Control {
        Control {
            what: what.to_owned(),
            by: Some("ann".to_owned()),
            reason: reason.map(str::to_owned),
            at: None,
            until: until.map(|until| until.parse().unwrap()),
        }
    }

    fn check_join(before: Option<&str>, wanted: Control, expect: Result<Option<&str>, &str>) {
        let joined = joined(before, wanted, &module()).map_err(|error| error.to_string());
        let written = joined.as_ref().map(|write| match write {
            ControlWrite::Stands(_) => None,
            ControlWrite::Write(control) => Some(control.to_text()),
        });
        match (&written, expect) {
            (Ok(text), Ok(expect)) => assert_eq!(text.as_deref(), expect, "{before:?}"),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            _ => panic!("{before:?}: {written:?}"),
        }
    }

    #[test]
    fn adding_a_cluster_to_a_hold_keeps_its_reason() {
        let far = "2300-01-01T00:00:00Z";
        check_join(
            None,
            wanted("eu-1", None, None),
            Ok(Some(r#"{"for":"eu-1","by":"ann"}"#)),
        );
        check_join(Some("eu-1"), wanted("eu-1", None, None), Ok(None));
        check_join(Some("eu-2"), wanted("eu-1", None, None), Ok(Some("eu-1,eu-2")));
        check_join(
            Some("{broken"),
            wanted("eu-1", None, None),
            Ok(Some(r#"{"for":"eu-1","by":"ann"}"#)),
        );
        let over = r#"{"for": "eu-2", "until": "2020-01-01T00:00:00Z"}"#;
        check_join(
            Some(over),
            wanted("eu-1", None, None),
            Ok(Some(r#"{"for":"eu-1","by":"ann"}"#)),
        );
        let before = format!(r#"{{"for":"eu-2","reason":"fire","until":"{far}"}}"#);
        let both = format!(r#"{{"for":"eu-1,eu-2","reason":"fire","until":"{far}"}}"#);
        check_join(Some(&before), wanted("eu-1", Some("fire"), None), Ok(Some(&both)));
        let expected = "module/web already leaves eu-2 alone (fire) until 2300-01-01T00:00:00Z, and all names of an annotation share one reason and end; next: name all with --clusters eu-1,eu-2";
        check_join(Some(&before), wanted("eu-1", Some("flood"), None), Err(expected));
        let all = r#"{"for":"eu-1,eu-2","by":"ann","reason":"flood"}"#;
        check_join(
            Some(&before),
            wanted("eu-1,eu-2", Some("flood"), None),
            Ok(Some(all)),
        );
    }

    #[test]
    fn what_is_left_of_a_hold() {
        let check = |text: &str, clusters: &[&str], expect: &str| {
            let clusters: Vec<String> = clusters.iter().map(|name| (*name).to_owned()).collect();
            let left = match without(text, &clusters, &module()) {
                Ok(Some(ControlWrite::Write(left))) => left.to_text(),
                Ok(Some(ControlWrite::Stands(_))) => "as it is".to_owned(),
                Ok(None) => "nothing".to_owned(),
                Err(error) => error.to_string(),
            };
            assert!(left.starts_with(expect), "{text} {clusters:?}: {left}");
        };
        check("eu-1,eu-2", &["eu-1"], "eu-2");
        check("eu-1,eu-2", &["eu-2", "eu-1"], "nothing");
        check("eu-1", &["eu-9"], "as it is");
        check(
            r#"{"for": "eu-1,eu-2", "by": "ann"}"#,
            &["eu-2"],
            r#"{"for":"eu-1","by":"ann"}"#,
        );
        check(
            "{",
            &["eu-1"],
            "the annotation fleet.muster.dev/hold cannot be read",
        );
    }

    #[test]
    fn what_is_held() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let read = text.parse::<Held>().map(|held| held.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expect, "{text}");
        };
        check("eu-1", Ok("eu-1"));
        check("cluster/eu-1", Ok("eu-1"));
        check("node/n1", Ok("--node n1"));
        check("nmod/fabric", Ok("nodemodule/fabric"));
        check("module/web", Ok("module/web"));
        check("bmod/base", Ok("bootstrapmodule/base"));
        check("cluster/", Err("the name is missing: write CLUSTER"));
    }

    #[test]
    fn a_name_that_no_annotation_takes() {
        let long: ModuleName = format!("module/{}", "m".repeat(60)).parse().unwrap();
        assert!(
            key(&long, "eu-1")
                .unwrap_err()
                .to_string()
                .contains("fleet.muster.dev/pin=eu-1@REVISION")
        );
        assert_eq!(key(&module(), "eu-1").unwrap(), "fleet.muster.dev/pin.web");
    }
}
