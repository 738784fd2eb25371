//! `muster hold`, `release`, `pin` and `unpin`: clusters that are kept as they are, or at a revision, until somebody says otherwise.

use std::{collections::BTreeSet, fmt, str::FromStr};

use anyhow::{Context as _, bail};
use clap::Args;
use kube::{Client, ResourceExt, core::DynamicObject};
use muster_api::{
    control::Control,
    labels::annotation::{HOLD, PIN, PIN_PREFIX},
    schema::MAX_LABEL,
};
use muster_dashboard::Outcome;
use serde_json::{Value, json};

use crate::{
    DONE, FAILED,
    args::{ClusterFlags, ModuleName},
    connect,
    control::{self, DryRun, DryRunFlag, Term, Wish, wish},
    fleet::{self, Address},
    history,
};

pub const HOLD_EXAMPLES: &str = "\
Examples:
  muster hold eu-1 --reason 'migration' --for 2h                 for all modules
  muster hold module/podinfo --clusters eu-1,eu-2 --reason '…'   for one module";

pub const RELEASE_EXAMPLES: &str = "\
Examples:
  muster release eu-1
  muster release module/podinfo --clusters eu-1
  muster release module/podinfo                                  all that it holds";

pub const PIN_EXAMPLES: &str = "\
Examples:
  muster rollout history module/podinfo                          which revisions there are
  muster pin eu-1 --module podinfo --revision v1.4.0 --reason 'crashes there' --for 24h
  muster pin eu-1 --module podinfo --revision 1a2b3c4d           where several revisions have the version";

pub const UNPIN_EXAMPLES: &str = "\
Examples:
  muster unpin eu-1                                              where one module pins it
  muster unpin eu-1 --module podinfo";

#[derive(Args, Debug)]
pub struct HoldFlags {
    /// CLUSTER, for all modules; or module/NAME or bootstrapmodule/NAME, for the clusters named by --clusters
    pub top: Held,
    /// The clusters that the module leaves alone
    #[arg(long, value_delimiter = ',', value_name = "CLUSTERS")]
    pub clusters: Vec<String>,
    #[command(flatten)]
    pub term: Term,
}

#[derive(Args, Debug)]
pub struct ReleaseFlags {
    /// CLUSTER; or module/NAME or bootstrapmodule/NAME
    pub top: Held,
    /// Only these clusters of the module
    #[arg(long, value_delimiter = ',', value_name = "CLUSTERS")]
    pub clusters: Vec<String>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

#[derive(Args, Debug)]
pub struct PinFlags {
    /// The cluster
    pub cluster: String,
    /// The module: NAME, module/NAME or bootstrapmodule/NAME
    #[arg(long, short)]
    pub module: ModuleName,
    /// What the cluster gets and keeps: a version that was rolled out, or a revision by at least 8 digits of its hash
    #[arg(long)]
    pub revision: String,
    #[command(flatten)]
    pub term: Term,
}

#[derive(Args, Debug)]
pub struct UnpinFlags {
    /// The cluster
    pub cluster: String,
    /// The module: NAME, module/NAME or bootstrapmodule/NAME; may be left out where the cluster has one pin
    #[arg(long, short)]
    pub module: Option<ModuleName>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// What has the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// A cluster, for all modules.
    Cluster(String),
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
            Some(_) => text.parse().map(Self::Module),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => f.write_str(name),
            Self::Module(module) => module.fmt(f),
        }
    }
}

/// Keeps clusters as they are.
pub async fn hold(cluster: &ClusterFlags, flags: &HoldFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let HoldFlags { top, clusters, term } = flags;
    match top {
        Held::Cluster(name) if clusters.is_empty() => {
            let address = Address::of_cluster(&client, &namespace, name).await?;
            let address = address.or_module("hold", " --clusters CLUSTERS");
            let object = address.get().await?;
            let wanted = term.control(&client, "true").await?;
            let verb = match wish(annotated(&object, HOLD), wanted, control::now(), |_| true) {
                Wish::Stands(control) => format!("is held already{}", control.told()),
                Wish::Write(control) => {
                    control::annotate(&address, HOLD, &json!(control.to_text()), term.dry_run.by).await?;
                    format!("held{}", control.told())
                }
            };
            control::tell(&address, &verb, term.dry_run.by);
            say!("No module will change this cluster. To release it: muster release {name}");
        }
        Held::Cluster(name) => {
            bail!(
                "--clusters is for modules: write muster hold {name}, or muster hold module/NAME --clusters {name}"
            )
        }
        Held::Module(module) if clusters.is_empty() => bail!(
            "name the clusters that {module} is to leave alone: --clusters A,B (to stop it everywhere: muster rollout pause {module})"
        ),
        Held::Module(module) => {
            let address = Address::of(&client, &namespace, module);
            let object = address.get().await?;
            for name in clusters {
                Address::of_cluster(&client, &namespace, name)
                    .await?
                    .get()
                    .await?;
            }
            let wanted = term.control(&client, &clusters.join(",")).await?;
            let verb = match joined(annotated(&object, HOLD), wanted, module)? {
                Wish::Stands(control) => format!("already holds {}{}", control.what, control.told()),
                Wish::Write(control) => {
                    let text = json!(control.to_text());
                    control::replace(&address, &object, HOLD, &text, term.dry_run.by).await?;
                    format!("holds {}{}", control.what, control.told())
                }
            };
            control::tell(&address, &verb, term.dry_run.by);
            say!(
                "To release: muster release {module} --clusters {}",
                clusters.join(",")
            );
        }
    }
    Ok(DONE)
}

/// Takes a hold back.
pub async fn release(cluster: &ClusterFlags, flags: &ReleaseFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let ReleaseFlags {
        top,
        clusters,
        dry_run,
    } = flags;
    match top {
        Held::Cluster(name) if clusters.is_empty() => {
            let address = Address::of_cluster(&client, &namespace, name).await?;
            let address = address.or_module("release", "");
            let object = address.get().await?;
            let verb = taken_away(&address, &object, HOLD, dry_run.by, ("released", "is not held")).await?;
            control::tell(&address, verb, dry_run.by);
            Ok(still_held(&client, &namespace, name).await)
        }
        Held::Cluster(name) => bail!(
            "--clusters is for modules: write muster release {name}, or muster release module/NAME --clusters {name}"
        ),
        Held::Module(module) => {
            let address = Address::of(&client, &namespace, module);
            let object = address.get().await?;
            let verb = match annotated(&object, HOLD) {
                Some(text) if !clusters.is_empty() => match without(text, clusters, module)? {
                    Some(Wish::Write(left)) => {
                        let text = json!(left.to_text());
                        control::replace(&address, &object, HOLD, &text, dry_run.by).await?;
                        format!(
                            "releases {}; it still leaves {} alone",
                            clusters.join(","),
                            left.what
                        )
                    }
                    Some(Wish::Stands(_)) => format!("does not hold {}", clusters.join(",")),
                    None => {
                        control::replace(&address, &object, HOLD, &Value::Null, dry_run.by).await?;
                        format!("releases {}", clusters.join(","))
                    }
                },
                _ => {
                    let words = ("releases all clusters", "holds no cluster");
                    taken_away(&address, &object, HOLD, dry_run.by, words)
                        .await?
                        .to_owned()
                }
            };
            control::tell(&address, &verb, dry_run.by);
            Ok(DONE)
        }
    }
}

/// Gives a cluster a revision, and keeps it there.
pub async fn pin(cluster: &ClusterFlags, flags: &PinFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let PinFlags {
        cluster,
        module,
        revision,
        term,
    } = flags;
    let (key, address) = (
        key(module, cluster)?,
        Address::of_cluster(&client, &namespace, cluster).await?,
    );
    let object = address.get().await?;
    let history = history::read(&client, &namespace, module).await?.history;
    let past = history.named(revision)?;
    if past.verdict == Outcome::Bad {
        bail!(
            "{} (revision {}) is known to be bad and is given to nobody; next: choose another (muster rollout history {module})",
            past.version,
            past.short()
        );
    }
    let digits = control::digits(&past.revision);
    let twin = module.twin();
    if Address::of(&client, &namespace, &twin).find().await?.is_some() {
        bail!(
            "{module} and {twin} both obey the annotation {key} of a Cluster; next, for this one alone: kubectl annotate --field-manager=muster-cli {module} {PIN}={cluster}@{digits}"
        );
    }
    let wanted = term.control(&client, digits).await?;
    let same = |before: &Control| past.revision.starts_with(&before.what.to_ascii_lowercase());
    let version = &past.version;
    let verb = match wish(annotated(&object, &key), wanted, control::now(), same) {
        Wish::Stands(control) => format!("is pinned to {version} of {module} already{}", control.told()),
        Wish::Write(control) => {
            control::annotate(&address, &key, &json!(control.to_text()), term.dry_run.by).await?;
            format!(
                "pinned to {version} (revision {}) of {module}{}",
                past.short(),
                control.told()
            )
        }
    };
    control::tell(&address, &verb, term.dry_run.by);
    if in_force(&object, HOLD).is_some() {
        say!("It is held as well, and a hold comes first: muster release {cluster}");
    }
    say!(
        "It is applied when the rollout reaches the cluster, and stays until it is unpinned: muster unpin {cluster} --module {module}"
    );
    Ok(DONE)
}

/// Takes a pin back.
pub async fn unpin(cluster: &ClusterFlags, flags: &UnpinFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let UnpinFlags {
        cluster,
        module,
        dry_run,
    } = flags;
    let key = module.as_ref().map(|module| key(module, cluster)).transpose()?;
    let address = Address::of_cluster(&client, &namespace, cluster).await?;
    let object = address.get().await?;
    let key = match key {
        Some(key) => Some(key),
        None => only_pin(&object, cluster)?,
    };
    let words = ("unpinned", "is not pinned");
    let verb = match key {
        Some(key) => taken_away(&address, &object, &key, dry_run.by, words).await?,
        None => words.1,
    };
    control::tell(&address, verb, dry_run.by);
    Ok(still_pinned(&client, &namespace, module.as_ref(), cluster).await)
}

/// The annotation of a Cluster that pins it, if it has one; an error if it has several.
fn only_pin(object: &DynamicObject, cluster: &str) -> anyhow::Result<Option<String>> {
    let keys = object.annotations().keys();
    let pins: Vec<&String> = keys.filter(|key| key.starts_with(PIN_PREFIX)).collect();
    match &pins[..] {
        [] => Ok(None),
        [only] => Ok(Some((*only).clone())),
        several => {
            let modules = several.iter().filter_map(|key| key.strip_prefix(PIN_PREFIX));
            let modules: Vec<&str> = modules.collect();
            let first = modules.first().copied().unwrap_or_default();
            bail!(
                "{cluster} is pinned for {}; next: name one, such as muster unpin {cluster} --module {first}",
                modules.join(", ")
            )
        }
    }
}

/// Says whether this module, or any if none is named, still pins a cluster that was unpinned; exit code 1 if so.
async fn still_pinned(client: &Client, namespace: &str, module: Option<&ModuleName>, cluster: &str) -> u8 {
    let found = match module {
        // A module that is gone pins nothing.
        Some(module) => {
            let found = Address::of(client, namespace, module).find().await;
            found.map(|found| found.map(|object| (module.kind, object)).into_iter().collect())
        }
        None => fleet::modules(client, namespace).await,
    };
    // It is unpinned, whatever is found out now.
    let found: Vec<_> = found.unwrap_or_else(|error| {
        let what = module.map_or_else(|| "a module".to_owned(), ToString::to_string);
        complain!("warning: whether {what} pins it besides is not known: {error:#}");
        Vec::new()
    });
    let mut code = DONE;
    for (kind, object) in found {
        let named = in_force(&object, PIN).is_some_and(|control| {
            let mut names = control.names().into_iter();
            names.any(|name| name.split_once('@').is_some_and(|(name, _)| name == cluster))
        });
        if named {
            let name = object.name_any();
            let module = ModuleName { kind, name };
            say!("It stays pinned by the annotation {PIN} of {module}: take it out of that, too.");
            code = FAILED;
        }
    }
    code
}

fn annotated<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.annotations().get(key).map(String::as_str)
}

/// What an annotation says that is in force: one that is over is not. One that nobody can read stops what it is on, and names nobody.
fn in_force(object: &DynamicObject, key: &str) -> Option<Control> {
    let control = Control::parse(annotated(object, key)?).unwrap_or_default(); // as above
    control.holds(control::now()).then_some(control)
}

/// Removes an annotation, if it is there; what is to be told then, or else.
async fn taken_away<'a>(
    address: &Address,
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

/// The annotation of a Cluster that pins it.
fn key(module: &ModuleName, cluster: &str) -> anyhow::Result<String> {
    let key = format!("{PIN_PREFIX}{}", module.name);
    let name = key.split_once('/').map_or(0, |(_, name)| name.len());
    if name > MAX_LABEL {
        bail!(
            "{module} has a name too long for an annotation of a Cluster; next: kubectl annotate --field-manager=muster-cli {module} {PIN}={cluster}@REVISION"
        );
    }
    Ok(key)
}

/// The hold of a module with these clusters, too. All that one annotation holds have the same reason and end: where others are held
/// with other words, nothing is written.
fn joined(before: Option<&str>, wanted: Control, module: &ModuleName) -> anyhow::Result<Wish> {
    let now = control::now();
    // What cannot be read stops the module as well: the new control mends it.
    let before = before
        .and_then(|text| Control::parse(text).ok())
        .filter(|control| control.holds(now));
    let Some(before) = before else {
        return Ok(Wish::Write(wanted));
    };
    let (held, named) = (before.names(), wanted.names());
    let says_the_same = (wanted.reason.is_none() || wanted.reason == before.reason)
        && (wanted.until.is_none() || wanted.until == before.until);
    let others: Vec<&str> = held.difference(&named).copied().collect();
    if !others.is_empty() && !says_the_same {
        let all: Vec<&str> = held.union(&named).copied().collect();
        bail!(
            "{module} already leaves {} alone{}, and one annotation says the same of all; next: name all with --clusters {}, or release the others first",
            others.join(","),
            before.told(),
            all.join(",")
        );
    }
    if says_the_same && named.is_subset(&held) {
        return Ok(Wish::Stands(before));
    }
    if !says_the_same {
        return Ok(Wish::Write(wanted));
    }
    let what = held.union(&named).copied().collect::<Vec<_>>().join(",");
    Ok(Wish::Write(Control {
        what,
        ..before.clone()
    }))
}

/// The hold of a module without these clusters: what is left to be written; none if nothing is left.
fn without(text: &str, clusters: &[String], module: &ModuleName) -> anyhow::Result<Option<Wish>> {
    let before = Control::parse(text)
        .with_context(|| format!("the annotation {HOLD} cannot be read; next: muster release {module}"))?;
    let named: BTreeSet<&str> = clusters.iter().map(String::as_str).collect();
    let held = before.names();
    if held.is_disjoint(&named) {
        return Ok(Some(Wish::Stands(before)));
    }
    let left: Vec<&str> = held.difference(&named).copied().collect();
    if left.is_empty() {
        return Ok(None);
    }
    let what = left.join(",");
    Ok(Some(Wish::Write(Control {
        what,
        ..before.clone()
    })))
}

/// Says which modules still hold a cluster that was released; exit code 1 if there are some.
async fn still_held(client: &Client, namespace: &str, cluster: &str) -> u8 {
    let mut code = DONE;
    // It is released, whatever is found out now.
    let modules = fleet::modules(client, namespace).await.unwrap_or_else(|error| {
        complain!("warning: whether a module still holds it is not known: {error:#}");
        Vec::new()
    });
    for (kind, object) in modules {
        if in_force(&object, HOLD).is_some_and(|control| control.names().contains(cluster)) {
            let module = ModuleName {
                kind,
                name: object.name_any(),
            };
            say!("{module} still holds it: muster release {module} --clusters {cluster}");
            code = FAILED;
        }
    }
    code
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
        let said = joined.as_ref().map(|wish| match wish {
            Wish::Stands(_) => None,
            Wish::Write(control) => Some(control.to_text()),
        });
        match (&said, expect) {
            (Ok(text), Ok(expect)) => assert_eq!(text.as_deref(), expect, "{before:?}"),
            (Err(error), Err(says)) => assert!(error.contains(says), "{error}"),
            _ => panic!("{before:?}: {said:?}"),
        }
    }

    #[test]
    fn who_is_held_besides_keeps_the_words_that_were_said() {
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
        let says = "module/web already leaves eu-2 alone (fire) until 2300-01-01T00:00:00Z, and one annotation says the same of all; \
                    next: name all with --clusters eu-1,eu-2";
        check_join(Some(&before), wanted("eu-1", Some("flood"), None), Err(says));
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
                Ok(Some(Wish::Write(left))) => left.to_text(),
                Ok(Some(Wish::Stands(_))) => "as it is".to_owned(),
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
