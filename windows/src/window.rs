//! A parsed window: what it selects, when it is open, and its errors.

use jiff::{Timestamp, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use muster_api::{
    module::ModuleKind,
    rolloutwindow::{ClosedClusters, MAX_ENTRIES, RolloutWindowSpec, WhileClosed, WindowBypass, WindowEntry},
    selector::Matcher,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Cluster, Module, Problem, WindowError,
    entry::{Entry, Zone},
    zone::zone,
};

/// A parsed RolloutWindow. Parsing never fails: a window with [`Window::errors`] closes what it selects.
#[derive(Clone, Debug)]
pub struct Window {
    pub(crate) name: String,
    /// `None` if the selector is invalid: every cluster of the namespace is selected.
    clusters: Option<Matcher>,
    /// `None` selects every module of the namespace.
    modules: Option<Matcher>,
    /// `None` if it is invalid, or has neither or both of `allow` and `deny`.
    pub(crate) rule: Option<(Rule, Vec<Entry>)>,
    pub(crate) errors: Vec<WindowError>,
    pub(crate) reverts: WhileClosed,
    pub(crate) withdrawals: WhileClosed,
    pub(crate) while_closed: ClosedClusters,
    pub(crate) message: String,
    bypasses: Vec<Bypass>,
}

/// Whether the entries of a window allow or deny changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Allow,
    Deny,
}

/// A module for which the window is open until an instant.
#[derive(Clone, Debug)]
struct Bypass {
    kind: ModuleKind,
    name: String,
    until: Timestamp,
}

impl Window {
    /// Parses the spec of the window with this name.
    pub fn new(name: &str, spec: &RolloutWindowSpec) -> Self {
        let mut window = Self::empty(name);
        window.read_selectors(Some(&spec.selector), spec.module_selector.as_ref());
        window.read_rule(spec.allow.as_deref(), spec.deny.as_deref());
        window.reverts = spec.reverts;
        window.withdrawals = spec.withdrawals;
        window.while_closed = spec.while_closed;
        window.message.clone_from(&spec.message);
        for (index, bypass) in spec.bypasses.iter().enumerate() {
            window.read_bypass(index, bypass);
        }
        window
    }

    /// Parses a RolloutWindow object as returned by the API server, whatever it contains: an object that was stored
    /// under another definition must not be ignored. The valid parts of a malformed one (its selectors, its bypasses)
    /// still count.
    pub fn read(object: &Value) -> Self {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let null = Value::Null;
        let spec = object.get("spec").unwrap_or(&null);
        let malformed = match part::<RolloutWindowSpec>(spec) {
            Ok(spec) => return Self::new(name, &spec),
            Err(malformed) => malformed,
        };
        let mut window = Self::empty(name);
        let selector = |field: &str| match spec.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => part::<LabelSelector>(value).map(Some),
        };
        match (selector("selector"), selector("moduleSelector")) {
            (Ok(clusters), Ok(modules)) => window.read_selectors(clusters.as_ref(), modules.as_ref()),
            (Ok(clusters), Err(_)) => window.read_selectors(clusters.as_ref(), None),
            (Err(_), _) => {}
        }
        for (index, bypass) in spec
            .get("bypasses")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            if let Ok(bypass) = part(bypass) {
                window.read_bypass(index, &bypass);
            }
        }
        window.refuse("spec", Problem::Malformed(malformed));
        window
    }

    /// Name of the window.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All errors of the window. If there are any, the window closes what it selects, regardless of its entries.
    pub fn errors(&self) -> &[WindowError] {
        &self.errors
    }

    /// Whether a cluster with these labels is selected.
    pub fn selects_cluster(&self, cluster: &Cluster<'_>) -> bool {
        self.clusters
            .as_ref()
            .is_none_or(|matcher| matcher.matches(cluster.labels))
    }

    /// Whether this module is selected.
    pub fn selects_module(&self, module: &Module<'_>) -> bool {
        self.modules
            .as_ref()
            .is_none_or(|matcher| matcher.matches(module.labels))
    }

    /// Why the window is closed in this cluster: it is invalid, or the cluster's time zone is.
    pub fn error_in(&self, cluster: &Cluster<'_>) -> Option<WindowError> {
        self.entries_for(Some(cluster)).err()
    }

    /// The entries with their time zones for this cluster, or why the window is closed there.
    pub(crate) fn entries_for(&self, cluster: Option<&Cluster<'_>>) -> Result<Entries<'_>, WindowError> {
        if let Some(error) = self.errors.first() {
            return Err(error.clone());
        }
        let Some((rule, entries)) = &self.rule else {
            return Err(error("spec", Problem::NoRule));
        };
        let entries = entries.iter().map(|entry| Ok((entry, entry.zone.of(cluster)?)));
        Ok(Entries {
            rule: *rule,
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// The end of the last active bypass for this module.
    pub(crate) fn bypass_end(&self, module: &Module<'_>, now: Timestamp) -> Option<Timestamp> {
        let ours = |bypass: &&Bypass| bypass.kind == module.kind && bypass.name == module.name;
        let ends = self.bypasses.iter().filter(ours).map(|bypass| bypass.until);
        ends.filter(|until| *until > now).max()
    }

    fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            clusters: None,
            modules: None,
            rule: None,
            errors: Vec::new(),
            reverts: WhileClosed::Allow,
            withdrawals: WhileClosed::Wait,
            while_closed: ClosedClusters::Wait,
            message: String::new(),
            bypasses: Vec::new(),
        }
    }

    fn refuse(&mut self, field: &str, problem: Problem) {
        self.errors.push(error(field, problem));
    }

    /// An invalid selector selects everything.
    fn read_selectors(&mut self, clusters: Option<&LabelSelector>, modules: Option<&LabelSelector>) {
        match clusters.map(|selector| Matcher::new(Some(selector))) {
            Some(Ok(matcher)) => self.clusters = Some(matcher),
            Some(Err(problem)) => self.refuse("spec.selector", problem.into()),
            None => {}
        }
        match modules.map(|selector| Matcher::new(Some(selector))) {
            Some(Ok(matcher)) => self.modules = Some(matcher),
            Some(Err(problem)) => self.refuse("spec.moduleSelector", problem.into()),
            None => {}
        }
    }

    fn read_rule(&mut self, allow: Option<&[WindowEntry]>, deny: Option<&[WindowEntry]>) {
        let (rule, field, entries) = match (allow, deny) {
            (Some(entries), None) => (Rule::Allow, "spec.allow", entries),
            (None, Some(entries)) => (Rule::Deny, "spec.deny", entries),
            (None, None) => return self.refuse("spec", Problem::NoRule),
            (Some(_), Some(_)) => return self.refuse("spec", Problem::TwoRules),
        };
        match entries.len() {
            0 => return self.refuse(field, Problem::NoEntries),
            count if count > MAX_ENTRIES => return self.refuse(field, Problem::TooManyEntries(count)),
            _ => {}
        }
        let mut read = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            match Entry::new(entry) {
                Ok(entry) => read.push(entry),
                Err((part, problem)) => self.refuse(&format!("{field}[{index}].{part}"), problem),
            }
        }
        self.rule = Some((rule, read));
    }

    fn read_bypass(&mut self, index: usize, bypass: &WindowBypass) {
        let WindowBypass {
            module,
            reason,
            until,
            by: _,
        } = bypass;
        let field = format!("spec.bypasses[{index}]");
        let module_name = || format!("{}/{}", module.kind, module.name);
        if reason.trim().is_empty() {
            return self.refuse(&field, Problem::UnexplainedBypass(module_name()));
        }
        let Some(until) = until else {
            return self.refuse(&field, Problem::EndlessBypass(module_name()));
        };
        self.bypasses.push(Bypass {
            kind: module.kind,
            name: module.name.clone(),
            until: until.0,
        });
    }
}

/// The entries of a window for one cluster.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    pub(crate) rule: Rule,
    pub(crate) entries: Vec<(&'a Entry, TimeZone)>,
}

impl Zone {
    fn of(&self, cluster: Option<&Cluster<'_>>) -> Result<TimeZone, WindowError> {
        let key = match self {
            Self::Needless => return Ok(TimeZone::UTC),
            Self::Fixed(zone) => return Ok(zone.clone()),
            Self::Annotation(key) => key,
        };
        let value = cluster.and_then(|cluster| cluster.annotations.get(key));
        let zone = value.map_or_else(|| Err(Problem::NoAnnotation(key.clone())), |name| zone(name));
        zone.map_err(|problem| error(&format!("metadata.annotations[{key}]"), problem))
    }
}

fn error(field: &str, problem: Problem) -> WindowError {
    WindowError {
        field: field.to_owned(),
        problem,
    }
}

fn part<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}
