//! Where a rollout stands, for someone who follows it: what is new, and whether it is at its end.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use muster_api::{module::Summary, reasons::Reason};
use muster_dashboard::{Cell, Fleet, ModuleView, Shape, listed};
use serde::Serialize;

use crate::{missing, name::ModuleName, near};

/// Names on one line; more are counted.
const LISTED: usize = 3;

/// Which rollout is followed.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// The module.
    pub module: &'a ModuleName,
    /// Its namespace.
    pub namespace: &'a str,
    /// It is followed only once the module asks for this tag.
    pub tag: Option<&'a str>,
    /// Where it stands now is all that is asked.
    pub is_once: bool,
}

/// What is new since it was read before.
#[derive(Debug, Default)]
pub struct News<'a> {
    /// The module, where its clusters are to be drawn.
    pub drawn: Option<&'a ModuleView>,
    /// A line for each word that clusters have now and had not before, where they are not drawn.
    pub lines: Vec<String>,
    /// What is to be said of the module as a whole, if that is not what was said before.
    pub says: Option<String>,
    /// Whether it is done, once nothing moves by itself any more.
    pub ended: Option<bool>,
}

/// Where a rollout stood when it was followed no longer: `status/v1`.
#[derive(Debug, Serialize)]
pub struct End {
    /// The schema.
    pub schema: &'static str,
    /// The module: `module/podinfo`.
    pub module: String,
    /// How it stands.
    pub result: Standing,
    /// The version that the module asks for; null, as what follows, if it was never seen.
    pub version: Option<String>,
    /// What it says of itself.
    pub message: Option<String>,
    /// Its clusters, counted.
    pub summary: Option<Summary>,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Standing {
    /// It is done.
    Complete,
    /// It has failed.
    Failed,
    /// A person ended it.
    Aborted,
    /// No further cluster starts.
    Paused,
    /// It goes on, and nobody waits any longer.
    TimedOut,
    /// It goes on, and nobody waits for it.
    Progressing,
}

impl Standing {
    /// Of what was seen last; nothing of its end if the time was over.
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

/// What of a rollout is known, and was said.
pub struct Follower<'a> {
    followed: Followed<'a>,
    /// The word of each cluster.
    words: BTreeMap<String, String>,
    /// The messages of clusters that were told, in full.
    messages: BTreeSet<String>,
    /// What was said of the module as a whole.
    said: String,
    /// The module as it was read last.
    last: Option<ModuleView>,
}

impl<'a> Follower<'a> {
    /// Begins to follow.
    pub const fn new(followed: Followed<'a>) -> Self {
        Self {
            followed,
            words: BTreeMap::new(),
            messages: BTreeSet::new(),
            said: String::new(),
            last: None,
        }
    }

    /// Whether the module was there at any time.
    pub const fn is_found(&self) -> bool {
        self.last.is_some()
    }

    /// What is new in a fleet; `draws`: its clusters are drawn, and not told line by line. A module that is not there is an error, unless
    /// it is waited for.
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
                says: self.once(awaited(fleet, module, namespace, tag)),
                ..News::default()
            });
        };
        self.last = Some(view.clone());
        if let Some(tag) = tag.filter(|tag| *tag != view.version) {
            return Ok(self.at_another_version(view, tag));
        }
        let mut news = News::default();
        // Before the controller has seen the new spec, the words are about the old one.
        if tag.is_none() || view.observed {
            if draws {
                news.drawn = Some(view);
            } else {
                news.lines = self.changed(view);
            }
        }
        news.ended = ended(view);
        // What a gate reads changes while all clusters wait for the same.
        if news.ended.is_some() || is_once || view.reason == Reason::WaitingGate.as_str() {
            let text = format!("{module} {}: {}", view.reason, self.rest(view));
            news.says = self.once(text);
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
            says: self.once(text),
            ended: is_once.then_some(false),
            ..News::default()
        }
    }

    /// The message of a module, without what was told of a cluster at its end: a long text stands once.
    fn rest<'v>(&self, view: &'v ModuleView) -> &'v str {
        if view.reason == Reason::WaitingGate.as_str() {
            return &view.message; // it changes again and again, and back
        }
        let told = view
            .cells
            .iter()
            .filter(|cell| self.messages.contains(&cell.message));
        let mut rests = told.filter_map(|cell| view.message.strip_suffix(&cell.message)?.strip_suffix(": "));
        rests.next().unwrap_or(&view.message)
    }

    /// Where it stands. Nothing of its end: the time was over.
    pub fn end(&self, ended: Option<bool>) -> End {
        let view = self.last.as_ref();
        End {
            schema: "status/v1",
            module: self.followed.module.to_string(),
            result: view.map_or(Standing::TimedOut, |view| Standing::of(view, ended)),
            version: view.map(|view| view.version.clone()),
            message: view.map(|view| view.message.clone()),
            summary: view.map(|view| view.summary.clone()),
        }
    }

    /// Once in a row.
    fn once(&mut self, text: String) -> Option<String> {
        if self.said == text {
            return None;
        }
        self.said.clone_from(&text);
        Some(text)
    }

    /// A line for each word that clusters have now and had not before; many that have the same in common share one.
    fn changed(&mut self, view: &ModuleView) -> Vec<String> {
        let mut lines = Vec::new();
        let mut alike: Vec<(&Cell, Vec<&str>)> = Vec::new();
        let told = |cell: &&Cell| !matches!(cell.shape, Shape::NotSelected | Shape::Unknown);
        for cell in view.cells.iter().filter(told) {
            if self.words.get(&cell.cluster) == Some(&cell.reason) {
                continue;
            }
            self.words.insert(cell.cluster.clone(), cell.reason.clone());
            let says = |cell: &Cell| {
                (
                    cell.shape,
                    cell.reason.clone(),
                    cell.version.clone(),
                    view.message_of(cell).to_owned(),
                )
            };
            match alike.iter_mut().find(|(first, _)| says(first) == says(cell)) {
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

/// What a module that does not exist yet is waited for with.
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

/// Whether it is done, once nothing moves by itself any more.
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
