//! The fleet file: clusters, how a module rolls out, how long things take, what fails.

use std::{collections::BTreeMap, path::Path};

use jiff::Timestamp;
use muster_api::{
    Duration, module::ModuleKind, ranges, rollout::Rollout, rolloutwindow::RolloutWindowSpec,
    selector::Matcher, validate::names,
};
use muster_sync::yaml::{self, Document};
use muster_windows::{Answer, Window};
use serde::Deserialize;

use super::fault::{FleetError, Key, position, written};

/// The most clusters of a simulation: as many as a management plane supports.
const MOST_CLUSTERS: usize = 5000;
/// The most bytes of a fleet file: enough for that many clusters with labels.
const MOST_BYTES: u64 = 4 << 20;

/// A simulated fleet.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    /// The clusters, by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// The rollout, as in `spec.rollout` of a module.
    pub rollout: Rollout,
    /// The selectors of its stages.
    pub stages: Vec<Matcher>,
    /// How long things take.
    pub durations: Durations,
    /// When the version arrives.
    pub start: Timestamp,
    /// The module, as the windows select it.
    pub module: Module,
    /// The change windows.
    pub windows: Vec<Window>,
}

/// The module that rolls out, as change windows select it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Module {
    /// Module or BootstrapModule.
    kind: ModuleKind,
    /// Name of the module.
    name: String,
    /// Labels of the module.
    labels: BTreeMap<String, String>,
}

/// A cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    /// Labels of the cluster.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the cluster: change windows may take the time zone from one.
    pub annotations: BTreeMap<String, String>,
    /// Whether the version fails on it.
    pub fails: bool,
    /// The time until it is ready, if it differs from the default.
    pub ready: Option<Duration>,
    /// When it cannot be reached.
    pub away: Option<Away>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    clusters: Vec<Line>,
    #[serde(default)]
    rollout: Rollout,
    #[serde(default)]
    durations: Durations,
    start: Option<Timestamp>,
    #[serde(default)]
    module: Module,
    #[serde(default)]
    windows: BTreeMap<String, RolloutWindowSpec>,
    #[serde(default)]
    fail: Vec<String>,
    #[serde(default)]
    slow: BTreeMap<String, Duration>,
    #[serde(default)]
    away: BTreeMap<String, Away>,
}

/// An entry of the list: one cluster, or several as `eu-{1..40}`.
#[derive(Debug, Deserialize)]
struct Line {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// How long things take.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Durations {
    /// From an assignment until the cluster acknowledges it.
    pub pickup: Duration,
    /// From the acknowledgement until it is ready.
    pub ready: Duration,
    /// How much longer or shorter each may take.
    pub jitter: muster_api::amount::Amount,
    /// Until a stage with an approval is approved.
    pub approval: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            pickup: Duration::from_secs(5),
            ready: Duration::from_secs(30),
            jitter: muster_api::amount::Amount::Percent(20),
            approval: Duration::from_mins(1),
        }
    }
}

/// When a cluster cannot be reached.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Away {
    /// When it becomes unreachable.
    #[serde(default)]
    pub from: Duration,
    /// For how long; permanently if not set.
    #[serde(default, rename = "for")]
    pub lasting: Option<Duration>,
}

/// A document, to locate its errors.
struct Source {
    document: Document,
}

impl Source {
    fn wrong(&self, path: &[Key], what: impl Into<String>, hint: impl Into<String>) -> FleetError {
        let field = written(path);
        FleetError::Wrong {
            file: self.document.file.to_string(),
            at: position(&self.document.root, path),
            path: if field.is_empty() {
                field
            } else {
                format!("{field}: ")
            },
            what: what.into(),
            hint: hint.into(),
        }
    }

    fn parse(&self) -> Result<File, FleetError> {
        let value = self.document.value()?;
        let mut unknown = None;
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
        let parsed = serde_ignored::deserialize(tracked, |path| {
            unknown.get_or_insert_with(|| keys(&path));
        });
        match (parsed, unknown) {
            (Err(error), _) => {
                let path: Vec<Key> = track.path().iter().filter_map(segment).collect();
                Err(self.wrong(
                    &path,
                    error.to_string(),
                    "docs/rollouts.md has the fields of a fleet file",
                ))
            }
            (Ok(_), Some(path)) => Err(self.wrong(
                &path,
                "unknown field",
                "remove it, or write it as docs/rollouts.md does",
            )),
            (Ok(file), None) => Ok(file),
        }
    }
}

impl Fleet {
    /// Reads and validates a fleet file.
    pub(crate) fn read(path: &Path) -> Result<Self, FleetError> {
        let unreadable = |error| FleetError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > MOST_BYTES {
            let error = std::io::Error::other(format!("{size} bytes, more than {MOST_BYTES}"));
            return Err(unreadable(error));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Self::of(&path.display().to_string(), &bytes)
    }

    /// Parses a fleet file.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> Result<Self, FleetError> {
        let mut documents = yaml::documents(name, bytes)?.into_iter();
        let Some(document) = documents.next() else {
            return Err(FleetError::Wrong {
                file: name.to_owned(),
                at: yaml::Position { line: 1, column: 1 },
                path: String::new(),
                what: "the file is empty".to_owned(),
                hint: "list clusters (see examples/simulate/fleet.yaml)".to_owned(),
            });
        };
        let source = Source { document };
        if let Some(second) = documents.next() {
            let second = Source { document: second };
            return Err(second.wrong(&[], "a second document", "a fleet file has one"));
        }
        let file = source.parse()?;
        let mut fleet = Self {
            clusters: clusters(&source, &file.clusters)?,
            stages: stages(&source, &file.rollout)?,
            windows: windows(&source, file.start, &file.windows)?,
            rollout: file.rollout,
            durations: file.durations,
            start: file.start.unwrap_or_default(),
            module: file.module,
        };
        fleet.check_stages(&source)?;
        let missing = |key: Key, list: &str| {
            let path = [list.into(), key];
            source.wrong(&path, "no cluster has this name", "name one of clusters")
        };
        for (index, name) in file.fail.iter().enumerate() {
            fleet
                .each(name, |cluster| cluster.fails = true)
                .ok_or_else(|| missing(index.into(), "fail"))?;
        }
        for (name, time) in &file.slow {
            fleet
                .each(name, |cluster| cluster.ready = Some(*time))
                .ok_or_else(|| missing(name.as_str().into(), "slow"))?;
        }
        for (name, away) in &file.away {
            fleet
                .each(name, |cluster| cluster.away = Some(*away))
                .ok_or_else(|| missing(name.as_str().into(), "away"))?;
        }
        Ok(fleet)
    }

    /// Makes the version fail on these clusters.
    pub(crate) fn fail(&mut self, name: &str) -> Result<(), FleetError> {
        let found = self.each(name, |cluster| cluster.fails = true);
        found.ok_or_else(|| self.no_cluster("--fail", name))
    }

    /// Sets the time that these clusters take.
    pub(crate) fn slow(&mut self, name: &str, time: Duration) -> Result<(), FleetError> {
        let found = self.each(name, |cluster| cluster.ready = Some(time));
        found.ok_or_else(|| self.no_cluster("--slow", name))
    }

    /// The index of a cluster's stage.
    pub(crate) fn stage(&self, cluster: &Cluster) -> Option<usize> {
        self.stages
            .iter()
            .position(|stage| stage.matches(&cluster.labels))
    }

    /// The state of the change windows for a cluster at this time.
    pub(crate) fn windows(&self, cluster: &Cluster, now: Timestamp) -> Answer {
        let cluster = muster_windows::Cluster {
            labels: &cluster.labels,
            annotations: &cluster.annotations,
        };
        let module = muster_windows::Module {
            kind: self.module.kind,
            name: &self.module.name,
            labels: &self.module.labels,
        };
        muster_windows::evaluate(&self.windows, &cluster, &module, now)
    }

    fn each(&mut self, name: &str, mut change: impl FnMut(&mut Cluster)) -> Option<()> {
        for name in expanded(name)? {
            change(self.clusters.get_mut(&name)?);
        }
        Some(())
    }

    fn no_cluster(&self, flag: &'static str, name: &str) -> FleetError {
        const SHOWN: usize = 3;
        let names = muster_dashboard::fold_names(self.clusters.keys().map(String::as_str));
        let some: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
        FleetError::NoCluster {
            flag,
            name: name.to_owned(),
            known: some.join(", "),
        }
    }

    /// As in the controller: a stage without clusters guards nothing.
    fn check_stages(&self, source: &Source) -> Result<(), FleetError> {
        for (place, stage) in self.rollout.stages.iter().enumerate() {
            let path: [Key; 3] = ["rollout".into(), "stages".into(), place.into()];
            if !self
                .clusters
                .values()
                .any(|cluster| self.stage(cluster) == Some(place))
            {
                return Err(source.wrong(
                    &path,
                    format!("no cluster is in stage {}", stage.name),
                    "correct its selector, label a cluster, or remove the stage",
                ));
            }
            if !stage.gates.is_empty() {
                return Err(source.wrong(
                    &path,
                    "the values that gates read are unknown here, so gates are not simulated",
                    "remove them from the file",
                ));
            }
        }
        Ok(())
    }
}

fn stages(source: &Source, rollout: &Rollout) -> Result<Vec<Matcher>, FleetError> {
    let stages = rollout.stages.iter().enumerate();
    let matchers = stages.map(|(place, stage)| {
        let path: [Key; 4] = ["rollout".into(), "stages".into(), place.into(), "selector".into()];
        Matcher::new(Some(&stage.selector)).map_err(|error| {
            source.wrong(
                &path,
                error.to_string(),
                "write it as a Kubernetes label selector",
            )
        })
    });
    matchers.collect()
}

/// An invalid window would stay closed for what it selects: here it is an error.
fn windows(
    source: &Source,
    start: Option<Timestamp>,
    specs: &BTreeMap<String, RolloutWindowSpec>,
) -> Result<Vec<Window>, FleetError> {
    if start.is_none() && !specs.is_empty() {
        let what = "windows open and close by the calendar, and start is not set";
        let next = "give the time when the version arrives, such as start: 2026-11-27T22:00:00Z";
        return Err(source.wrong(&["windows".into()], what, next));
    }
    let window = |(name, spec): (&String, &RolloutWindowSpec)| {
        let window = Window::new(name, spec);
        match window.errors().first() {
            None => Ok(window),
            Some(error) => {
                let path = ["windows".into(), name.as_str().into()];
                Err(source.wrong(
                    &path,
                    error.to_string(),
                    "docs/windows.md has the fields of a window",
                ))
            }
        }
    };
    specs.iter().map(window).collect()
}

fn clusters(source: &Source, lines: &[Line]) -> Result<BTreeMap<String, Cluster>, FleetError> {
    let mut clusters = BTreeMap::new();
    for (index, line) in lines.iter().enumerate() {
        let path: [Key; 3] = ["clusters".into(), index.into(), "name".into()];
        let names = expanded(&line.name).ok_or_else(|| {
            source.wrong(
                &path,
                format!("{:?} is not a cluster name or pattern", line.name),
                format!("write a name, or several as eu-{{1..40}}, at most {MOST_CLUSTERS} in all"),
            )
        })?;
        for name in names {
            names::dns_subdomain(&name).map_err(|error| {
                source.wrong(
                    &path,
                    format!("{name:?} is not a valid name: {error}"),
                    "rename the cluster",
                )
            })?;
            let cluster = Cluster {
                labels: line.labels.clone(),
                annotations: line.annotations.clone(),
                ..Cluster::default()
            };
            if clusters.insert(name.clone(), cluster).is_some() {
                return Err(source.wrong(&path, format!("{name} occurs twice"), "remove one of them"));
            }
            if clusters.len() > MOST_CLUSTERS {
                return Err(source.wrong(
                    &path,
                    format!("more than {MOST_CLUSTERS} clusters"),
                    "simulate a part of them",
                ));
            }
        }
    }
    if clusters.is_empty() {
        let path = ["clusters".into()];
        return Err(source.wrong(&path, "there are none", "list at least one, by name"));
    }
    Ok(clusters)
}

/// The names that a pattern expands to; `None` if it is not a valid name.
fn expanded(text: &str) -> Option<Vec<String>> {
    ranges::expand(text, MOST_CLUSTERS).ok()
}

fn segment(segment: &serde_path_to_error::Segment) -> Option<Key> {
    match segment {
        serde_path_to_error::Segment::Seq { index } => Some(Key::Index(*index)),
        serde_path_to_error::Segment::Map { key } => Some(Key::Name(key.clone())),
        _ => None,
    }
}

fn keys(path: &serde_ignored::Path<'_>) -> Vec<Key> {
    use serde_ignored::Path;
    let (parent, key) = match path {
        Path::Root => return Vec::new(),
        Path::Seq { parent, index } => (parent, Some(Key::Index(*index))),
        Path::Map { parent, key } => (parent, Some(Key::Name(key.clone()))),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            (parent, None)
        }
    };
    let mut keys = keys(parent);
    keys.extend(key);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let error = Fleet::of("fleet.yaml", text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn fleet_file_errors_are_reported_with_position_and_fix() {
        check(
            "",
            "fleet.yaml:1:1: the file is empty; list clusters (see examples/simulate/fleet.yaml)",
        );
        check(
            "clusters:\n- nam: a\n",
            "fleet.yaml:2:3: clusters[0]: missing field `name`; docs/rollouts.md has the fields of a fleet file",
        );
        check(
            "clusters:\n- name: a\nrollout:\n  maxUnready: 3\n",
            "fleet.yaml:4:15: rollout.maxUnready: unknown field; remove it, or write it as docs/rollouts.md does",
        );
        check(
            "clusters:\n- name: a\nrollout:\n  maxUnreadyClusters: many\n",
            "fleet.yaml:4:23: rollout.maxUnreadyClusters: \"many\" is neither a count such as 3 nor a percentage from \"0%\" to \"100%\"; docs/rollouts.md has the fields of a fleet file",
        );
        check(
            "clusters:\n- name: a\n- name: a\n",
            "fleet.yaml:3:9: clusters[1].name: a occurs twice; remove one of them",
        );
        check(
            "clusters:\n- name: a-{3..1}\n",
            "fleet.yaml:2:9: clusters[0].name: \"a-{3..1}\" is not a cluster name or pattern; write a name, or several as eu-{1..40}, at most 5000 in all",
        );
        check(
            "clusters:\n- name: a\nwindows:\n  nights: {selector: {}, deny: [{}]}\n",
            "fleet.yaml:4:3: windows: windows open and close by the calendar, and start is not set; give the time when the version arrives, such as start: 2026-11-27T22:00:00Z",
        );
        check(
            "clusters:\n- name: a\nstart: 2026-11-27T22:00:00Z\nwindows:\n  nights: {selector: {}, deny: [{from: '22:00'}]}\n",
            "fleet.yaml:5:11: windows.nights: spec.deny[0].to: set both from and to, or neither for the whole day; docs/windows.md has the fields of a window",
        );
        check(
            "clusters:\n- name: a\nfail: [b]\n",
            "fleet.yaml:3:8: fail[0]: no cluster has this name; name one of clusters",
        );
        check(
            "clusters:\n- name: a\nrollout:\n  stages:\n  - name: canary\n    selector: {matchLabels: {tier: canary}}\n",
            "fleet.yaml:5:5: rollout.stages[0]: no cluster is in stage canary; correct its selector, label a cluster, or remove the stage",
        );
    }

    #[test]
    fn names_stand_for_several_clusters() {
        let names = |text: &str| expanded(text).map(|names| names.join(" "));
        assert_eq!(names("eu-{1..3}").as_deref(), Some("eu-1 eu-2 eu-3"));
        assert_eq!(names("eu-{1..2}-b").as_deref(), Some("eu-1-b eu-2-b"));
        assert_eq!(names("eu-{08..10}").as_deref(), Some("eu-08 eu-09 eu-10"));
        assert_eq!(names("dev").as_deref(), Some("dev"));
        for wrong in ["", "eu-{1..", "eu-{a..b}", "eu-{2..1}", "eu-{1..9999999}"] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
    }
}
