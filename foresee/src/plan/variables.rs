//! The variables of the manifests of a directory: those of the Kustomization that applies it, or, if that is unknown,
//! inferred from the live modules. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use muster_api::{
    kind::GROUP,
    module::{ModuleKind, ModuleObject},
};
use muster_fleet::lists::Live;
use muster_sync::{source::Files, yaml};
use serde_json::Value;

use super::{
    applier::{Appliers, Id},
    read::{self, Location, ReadError},
};

/// The variables that need not be given on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownVariables {
    /// Values by name.
    pub values: BTreeMap<String, String>,
    /// Those of them that were inferred from live modules.
    pub shown: BTreeSet<String>,
}

impl KnownVariables {
    /// Infers them for the modules in these files that are live.
    pub(crate) fn of<'a>(
        files: impl IntoIterator<Item = &'a Files>,
        live: &Live,
        appliers: &Appliers,
        location: &Location,
    ) -> Self {
        let live = live_modules(live);
        let written: Vec<(&(Option<Id>, Value), Value)> = files
            .into_iter()
            .flat_map(modules)
            .filter_map(|(module, spec)| Some((live.get(&module)?, spec)))
            .collect();
        let ids: BTreeSet<&Id> = written.iter().filter_map(|((id, _), _)| id.as_ref()).collect();
        let mut ids = ids.into_iter();
        let only = match (ids.next(), ids.next()) {
            (Some(only), None) => appliers.0.get(only).and_then(|read| read.as_ref().ok()),
            // None of its modules is live yet.
            (None, _) if written.is_empty() => appliers.at(location),
            _ => None,
        };
        let build = only.map(|only| only.spec.post_build.clone().unwrap_or_default());
        if let Some(build) = build.as_ref().filter(|build| build.substitute_from.is_empty()) {
            return Self {
                values: build.substitute.clone(),
                shown: BTreeSet::new(),
            };
        }
        let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for ((_, live), spec) in &written {
            compare(spec, live, &mut shown);
        }
        let mut values = build.unwrap_or_default().substitute;
        // Two values of one variable: the live modules were applied at different times, or from different directories.
        let certain = shown.into_iter().filter(|(_, all)| all.len() == 1);
        let certain = certain.filter_map(|(name, all)| Some((name, all.into_iter().next()?)));
        let shown: BTreeMap<String, String> =
            certain.filter(|(name, _)| !values.contains_key(name)).collect();
        let names = shown.keys().cloned().collect();
        values.extend(shown);
        Self { values, shown: names }
    }

    /// These variables, overridden by the given ones.
    pub(crate) fn with(&self, given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = self.values.clone();
        all.extend(given.clone());
        all
    }

    /// The notice of a plan if the directory can be built only without them.
    pub(crate) fn unused(error: &ReadError) -> String {
        let what = match error {
            ReadError::Build { errors } => errors.to_string(),
            other => other.to_string(),
        };
        format!("the variables of its Kustomization are not used: {what}")
    }

    /// The notice of a plan about uncertain variables.
    pub(crate) fn inferred_notice(&self, given: &BTreeMap<String, String>) -> Option<String> {
        let names = self.shown.iter().filter(|name| !given.contains_key(*name));
        let names: Vec<&str> = names.map(String::as_str).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{}: taken from the live modules, as their Kustomization is not known; another value: --substitute NAME=VALUE",
                names.join(", ")
            )
        })
    }
}

/// What applies each live module, and its spec.
fn live_modules(live: &Live) -> BTreeMap<String, (Option<Id>, Value)> {
    fn one<K: ModuleObject>(module: &K) -> (String, (Option<Id>, Value)) {
        // A spec always serializes to JSON.
        let spec = serde_json::to_value(module.spec()).unwrap_or_default();
        (read::address(K::KIND, &module.name_any()), (Id::of(module), spec))
    }
    let modules = live.modules.iter().map(one);
    modules.chain(live.bootstrap_modules.iter().map(one)).collect()
}

/// The modules in the files, with their spec. Parse errors are reported where the directory is built.
fn modules(files: &Files) -> Vec<(String, Value)> {
    let documents = files
        .iter()
        .filter_map(|file| yaml::documents(&file.path, &file.bytes).ok())
        .flatten();
    let values = documents.filter_map(|document| document.value().ok());
    let objects = values.flat_map(|mut value| {
        let is_list = value["kind"] == "List";
        match value.get_mut("items").filter(|_| is_list).map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => vec![value],
        }
    });
    objects.filter_map(module).collect()
}

fn module(mut object: Value) -> Option<(String, Value)> {
    let group = object["apiVersion"].as_str()?.split_once('/')?.0;
    let kinds = [ModuleKind::Module, ModuleKind::BootstrapModule];
    let kind = kinds.into_iter().find(|kind| object["kind"] == kind.as_str())?;
    let address = read::address(kind, object["metadata"]["name"].as_str()?);
    (group == GROUP).then(|| (address, object["spec"].take()))
}

/// Infers the values of variables that turn the written text into the live one.
fn compare(written: &Value, live: &Value, shown: &mut BTreeMap<String, BTreeSet<String>>) {
    match (written, live) {
        (Value::Object(written), Value::Object(live)) => {
            for (key, value) in written {
                if let Some(live) = live.get(key) {
                    compare(value, live, shown);
                }
            }
        }
        (Value::Array(written), Value::Array(live)) if written.len() == live.len() => {
            for (value, live) in written.iter().zip(live) {
                compare(value, live, shown);
            }
        }
        (Value::String(text), Value::String(live)) => {
            if let Some((name, value)) = variable(text, live) {
                shown.entry(name).or_default().insert(value);
            }
        }
        _ => {}
    }
}

/// The only variable of a text, and its value in the substituted text.
fn variable(text: &str, live: &str) -> Option<(String, String)> {
    let (before, rest) = text.split_once("${")?;
    let (name, after) = rest.split_once('}')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    let value = live.strip_prefix(before)?.strip_suffix(after)?;
    let is_plain = |text: &str| !text.contains('$');
    let is_certain = is_name && [before, after, value].into_iter().all(is_plain);
    is_certain.then(|| (name.to_owned(), value.to_owned()))
}
