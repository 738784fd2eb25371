//! Records decisions of the engine (`--record-decisions`), so that `muster replay` can repeat them.
//!
//! ```text
//!   reconcile ─► Decisions::note ─► queue ─► Keeper ─► DIRECTORY/NAMESPACE.KIND.NAME.jsonl ─► ….jsonl.1
//!              (never waits)               (a task)
//! ```
//!
//! Invariant: a record never disturbs a rollout: what cannot be written is dropped, which is logged once.
//! Invariant: each file starts with a whole line, and so does each process in it.

mod file;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use muster_api::module::ModuleKind;
use muster_rollout::record::{Case, Origin};
use tokio::sync::mpsc;
use tracing::warn;

use self::file::LogFile;
use crate::runtime::Key;

/// Decisions in the queue: one about 2000 clusters is about half a megabyte. If the queue is full, decisions are
/// dropped.
const QUEUE: usize = 64;
/// The size in bytes after which a new file is started: enough for a rollout to 2000 clusters.
const FILE: u64 = 64 * 1024 * 1024;

/// Sends decisions to be recorded. Cheap to clone; the default records nothing.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    queue: Option<mpsc::Sender<Note>>,
    /// Whether it was logged that a decision was dropped.
    drop_logged: Arc<AtomicBool>,
}

/// A module of either kind.
type Module = (ModuleKind, Key);

/// A module's decision; `None`: the module was deleted.
type Note = (Module, Option<Box<Case>>);

/// Writes recorded decisions until all senders are dropped.
#[derive(Debug)]
pub struct Keeper {
    directory: PathBuf,
    queue: mpsc::Receiver<Note>,
    /// Bounded by the number of modules.
    files: BTreeMap<Module, LogFile>,
}

/// Creates the sender and the writer for a directory. The directory is created on the first write.
pub fn record_decisions(directory: PathBuf) -> (Decisions, Keeper) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let decisions = Decisions {
        queue: Some(sender),
        drop_logged: Arc::default(),
    };
    let keeper = Keeper {
        directory,
        queue,
        files: BTreeMap::new(),
    };
    (decisions, keeper)
}

impl Decisions {
    /// Records a decision of a module. The case is built only if recording is on.
    pub fn record(&self, kind: ModuleKind, key: &Key, case: impl FnOnce() -> Box<Case>) {
        if self.queue.is_some() {
            self.send(kind, key, Some(case()));
        }
    }

    /// Closes the record of a deleted module. Its file stays.
    pub fn drop_module(&self, kind: ModuleKind, key: &Key) {
        self.send(kind, key, None);
    }

    fn send(&self, kind: ModuleKind, key: &Key, case: Option<Box<Case>>) {
        let Some(queue) = &self.queue else { return };
        let sent = queue.try_send(((kind, key.clone()), case));
        if sent.is_err() && !self.drop_logged.swap(true, Ordering::Relaxed) {
            warn!(
                module = %key,
                "a decision was not recorded, and others may be missing, too: writing takes longer than deciding"
            );
        }
    }
}

impl Keeper {
    /// Runs until every [`Decisions`] is dropped.
    pub async fn run(mut self) {
        while let Some((module, case)) = self.queue.recv().await {
            match case {
                Some(case) => self.keep(module, *case).await,
                None => drop(self.files.remove(&module)),
            }
        }
    }

    async fn keep(&mut self, module: Module, case: Case) {
        let (kind, key) = &module;
        let path = self
            .directory
            .join(format!("{}.{kind}.{}.jsonl", key.namespace, key.name));
        let origin = Origin {
            module: format!("{kind} {key}"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let file = self
            .files
            .entry(module)
            .or_insert_with(|| LogFile::new(path, origin, FILE));
        let failed_before = file.is_failing();
        if let Err(error) = file.append(case).await
            && !failed_before
        {
            warn!(%error, file = %file.path().display(), "decisions are not recorded until this is fixed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        file::tests::{case, times},
        *,
    };

    const WEB: &str = "fleet.Module.web.jsonl";

    fn key(name: &str) -> Key {
        Key::new("fleet", name)
    }

    #[tokio::test]
    async fn recording_never_blocks_decisions_and_drops_what_exceeds_the_queue() {
        let directory = tempfile::tempdir().unwrap();
        let (decisions, keeper) = record_decisions(directory.path().join("decisions"));
        for at in 0..3 * QUEUE as u64 {
            decisions.record(ModuleKind::Module, &key("web"), || Box::new(case(at)));
        }
        drop(decisions);
        keeper.run().await;
        let file = directory.path().join("decisions").join(WEB);
        assert_eq!(times(&file).unwrap(), (0..QUEUE as u64).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn each_module_has_its_file_which_stays_when_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let (decisions, keeper) = record_decisions(directory.path().to_owned());
        let note = |kind, name: &str, at| decisions.record(kind, &key(name), || Box::new(case(at)));
        note(ModuleKind::Module, "web", 1);
        note(ModuleKind::BootstrapModule, "web", 2);
        note(ModuleKind::Module, "web.db", 3);
        decisions.drop_module(ModuleKind::Module, &key("web"));
        note(ModuleKind::Module, "web", 4);
        drop(decisions);
        keeper.run().await;
        let check = |file: &str, expect: &[u64]| {
            assert_eq!(times(&directory.path().join(file)).unwrap(), expect, "{file}");
        };
        check(WEB, &[1, 4]);
        check("fleet.BootstrapModule.web.jsonl", &[2]);
        check("fleet.Module.web.db.jsonl", &[3]);
    }
}
