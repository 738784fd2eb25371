//! The status of a rollout that is followed: what changed, and whether it has ended.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use muster_api::{module::Summary, reasons::Reason};
use muster_dashboard::{Cell, Fleet, ModuleView, Shape, listed};
use serde::Serialize;

use crate::{missing, name::ModuleName, near};

/// The most names on one line; more are counted.
const LISTED: usize = 3;

/// The rollout to follow.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// The module to follow.
    pub module: &'a ModuleName,
    /// Namespace of the module.
    pub namespace: &'a str,
    /// Follow only once the module asks for this tag.
    pub tag: Option<&'a str>,
    /// Report the current status only.
    pub is_once: bool,
}

/// What changed since the last read.
#[derive(Debug, Default)]
pub struct News<'a> {
    /// The module, if its clusters are drawn as a tree.
    pub drawn: Option<&'a ModuleView>,
    /// A line per cluster with a new reason, if they are not drawn.
    pub lines: Vec<String>,
    /// The message of the module, if it is new.
    pub message: Option<String>,
    /// Whether the rollout succeeded, once it makes no more progress on its own.
    pub ended: Option<bool>,
}

/// The final status of a followed rollout: `status/v1`.
#[derive(Debug, Serialize)]
pub struct End {
    /// Version of this schema.
    pub schema: &'static str,
    /// Kind and name: `module/podinfo`.
    pub module: String,
    /// Result of the rollout.
    pub result: RolloutResult,
    /// The version that the module asks for; null, as the following fields, if the module was never found.
    pub version: Option<String>,
    /// Message of the module.
    pub message: Option<String>,
    /// Number of clusters by state.
    pub summary: Option<Summary>,
}

/// The result of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RolloutResult {
    /// All clusters have the version.
    Complete,
    /// The rollout failed.
    Failed,
    /// A user aborted it.
    Aborted,
    /// It is paused: no further cluster starts.
    Paused,
    /// It goes on, and the wait timed out.
    TimedOut,
    /// It goes on; only the current status was requested.
    Progressing,
}

impl RolloutResult {
    /// The result for the last read; `ended` is `None` if the wait timed out.
    fn of(view: &ModuleView, ended: Option<bool>) -> Self {
        match (ended, view.stalled) {
            (Some(true), _) => Self::Complete,
            (Some(_), true) if view.reason == Reason::Aborted.as_str() => Self::Aborted,
            (Some(_), true) => Self::Failed,
            (Some(_), _) if view.is_all_skipped() => Self::Failed,
            (_, false) if view.reason == Reason::Paused.as_str() => Self::Paused,
            (Some(_), false) => Self::Progressing,
            (None, _) => Self::TimedOut,
        }
    }
}

/// A followed rollout: what is known, and what was reported.
pub struct Follower<'a> {
    followed: Followed<'a>,
    /// The last reported reason of each cluster.
    words: BTreeMap<String, String>,
    /// The messages of clusters that were reported.
    messages: BTreeSet<String>,
    /// The last reported message of the module.
    last_message: String,
    /// The module at the last read.
    last: Option<ModuleView>,
}

impl<'a> Follower<'a> {
    /// Starts to follow.
    pub const fn new(followed: Followed<'a>) -> Self {
        Self {
            followed,
            words: BTreeMap::new(),
            messages: BTreeSet::new(),
            last_message: String::new(),
            last: None,
        }
    }

    /// Whether the module existed at any time.
    pub const fn is_found(&self) -> bool {
        self.last.is_some()
    }

    /// What changed in a fleet; with `draws`, clusters are drawn as a tree and not reported line by line. A missing
    /// module is an error, unless it is waited for.
    pub fn read<'f>(&mut self, fleet: &'f Fleet, draws: bool) -> anyhow::Result<News<'f>> {
        let Followed {
            module,
            namespace,
            tag,
            is_once,
        } = self.followed;
        let Some(view) = fleet.module(module.kind, &module.name) else {
            let (Some(tag), false, None) = (tag, is_once, &self.last) else {
                bail!(missing(fleet, module, namespace));
            };
            return Ok(News {
                message: self.unless_repeated(awaited(fleet, module, namespace, tag)),
                ..News::default()
            });
        };
        self.last = Some(view.clone());
        if let Some(tag) = tag.filter(|tag| *tag != view.version) {
            return Ok(self.at_another_version(view, tag));
        }
        let mut news = News::default();
        // Before the controller has observed the new spec, the reasons are about the old one.
        if tag.is_none() || view.observed {
            if draws {
                news.drawn = Some(view);
            } else {
                news.lines = self.changed(view);
            }
        }
        news.ended = ended(view);
        // The values that a gate reads change while all clusters wait for it.
        if news.ended.is_some() || is_once || view.reason == Reason::WaitingGate.as_str() {
            let text = format!("{module} {}: {}", view.reason, self.rest(view));
            news.message = self.unless_repeated(text);
        }
        Ok(news)
    }

    fn at_another_version<'f>(&mut self, view: &ModuleView, tag: &str) -> News<'f> {
        let Followed { module, is_once, .. } = self.followed;
        let text = if is_once {
            format!("{module} asks for {}, not for {tag}", view.version)
        } else {
            format!(
                "{module} asks for {}: waiting for a commit that names {tag} (is it committed, and pushed? --timeout ends the wait)",
                view.version
            )
        };
        News {
            message: self.unless_repeated(text),
            ended: is_once.then_some(false),
            ..News::default()
        }
    }

    /// The message of a module without the message of a cluster at its end, if that was reported: long text is printed
    /// once.
    fn rest<'v>(&self, view: &'v ModuleView) -> &'v str {
        if view.reason == Reason::WaitingGate.as_str() {
            return &view.message; // it changes repeatedly
        }
        let reported = view
            .cells
            .iter()
            .filter(|cell| self.messages.contains(&cell.message));
        let mut rests =
            reported.filter_map(|cell| view.message.strip_suffix(&cell.message)?.strip_suffix(": "));
        rests.next().unwrap_or(&view.message)
    }

    /// The final status; `ended` is `None` if the wait timed out.
    pub fn end(&self, ended: Option<bool>) -> End {
        let view = self.last.as_ref();
        End {
            schema: "status/v1",
            module: self.followed.module.to_string(),
            result: view.map_or(RolloutResult::TimedOut, |view| RolloutResult::of(view, ended)),
            version: view.map(|view| view.version.clone()),
            message: view.map(|view| view.message.clone()),
            summary: view.map(|view| view.summary.clone()),
        }
    }

    /// Returns the text unless it was the last one.
    fn unless_repeated(&mut self, text: String) -> Option<String> {
        if self.last_message == text {
            return None;
        }
        self.last_message.clone_from(&text);
        Some(text)
    }

    /// A line per cluster with a new reason; clusters with the same one share a line.
    fn changed(&mut self, view: &ModuleView) -> Vec<String> {
        let mut lines = Vec::new();
        let mut alike: Vec<(&Cell, Vec<&str>)> = Vec::new();
        let is_reported = |cell: &&Cell| !matches!(cell.shape, Shape::NotSelected | Shape::Unknown);
        for cell in view.cells.iter().filter(is_reported) {
            if self.words.get(&cell.cluster) == Some(&cell.reason) {
                continue;
            }
            self.words.insert(cell.cluster.clone(), cell.reason.clone());
            let line_key = |cell: &Cell| {
                (
                    cell.shape,
                    cell.reason.clone(),
                    cell.version.clone(),
                    view.message_of(cell).to_owned(),
                )
            };
            match alike
                .iter_mut()
                .find(|(first, _)| line_key(first) == line_key(cell))
            {
                Some((_, names)) => names.push(&cell.cluster),
                None => alike.push((cell, vec![&cell.cluster])),
            }
        }
        for (cell, names) in alike {
            let version = cell.version.as_deref().unwrap_or("nothing");
            let message = view.message_of(cell);
            let colon = if message.is_empty() { "" } else { ": " };
            lines.push(format!(
                "{} {} {} ({version}){colon}{message}",
                cell.shape.glyph(),
                listed(names, LISTED),
                cell.reason,
            ));
            if !message.is_empty() {
                self.messages.insert(message.to_owned());
            }
        }
        lines
    }
}

/// The message while waiting for a module that does not exist yet.
fn awaited(fleet: &Fleet, module: &ModuleName, namespace: &str, tag: &str) -> String {
    let twin = module
        .twin()
        .filter(|twin| fleet.module(twin.kind, &twin.name).is_some());
    let near = if let Some(twin) = twin {
        format!(" (did you mean {twin}?)")
    } else {
        let alike = fleet.modules.iter().filter(|view| view.kind == module.kind);
        near::offer(&module.name, alike.map(|view| view.name.as_str()))
    };
    format!(
        "there is no {module} in namespace {namespace} yet{near}: waiting for a commit that adds it at {tag} (is it committed, and pushed? --timeout \
         ends the wait)"
    )
}

/// Whether the rollout succeeded, once it makes no more progress on its own.
fn ended(view: &ModuleView) -> Option<bool> {
    if !view.observed {
        return None;
    }
    match (view.ready.as_str(), view.stalled) {
        ("True", _) => Some(true),
        (_, true) => Some(false),
        _ if view.is_all_skipped() => Some(false),
        (_, false) => None,
    }
}
