//! The plan of a change: the files to swap, and what is needed to restore the old ones. It is on the disk before
//! anything else of the change, and contains no file content.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    content::{Attributes, Change, DesiredFile, Filled, Key, Procedure, Target},
    disk::{Disk, DiskError, Entry, Inode, Kind, Obstacle},
    originals::{Head, MAX_ORIGINAL, Originals},
    outcome::{RefusalProblem, RowRefusal},
    paths::{self, RESERVED},
    sealed::hash,
};

/// The file name in the agent's own directory.
pub(crate) const FILE: &str = "plan";
/// Bytes that must stay free on each file system in addition to the written files.
const RESERVE: u64 = 1024 * 1024;

/// The changes to the files of a row.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Plan {
    /// The number of the first journal record about it.
    pub id: u64,
    pub row: String,
    pub key: Key,
    pub swaps: Vec<Swap>,
    /// Paths whose originals are stored by this change: they are deleted if the old files are restored.
    pub kept: Vec<String>,
    /// Paths that return to their originals: those are deleted if the new files stay.
    pub returned: Vec<String>,
    pub procedure: Procedure,
    /// Whether to reload the services even if no file changes.
    pub reload_anyway: bool,
    /// The checks that failed before the change.
    pub before: Vec<String>,
}

/// A path that changes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Swap {
    pub path: String,
    /// The existing file; `None` if there is none.
    pub old: Option<Inode>,
    /// Whether a file should exist.
    pub present: bool,
    /// Directories to create for it, outermost first.
    pub directories: Vec<String>,
}

/// A plan with the contents, which only this process has.
#[derive(Debug)]
pub(crate) struct Draft {
    pub plan: Plan,
    /// In the order of the swaps.
    pub contents: Vec<Option<(Filled, Attributes)>>,
    /// Originals to store.
    pub originals: Vec<(Head, Filled)>,
}

impl Swap {
    fn beside(&self, what: &str) -> String {
        let (directory, _) = paths::split(&self.path);
        let name = &hash(&[self.path.as_bytes()])[..16];
        let directory = directory.trim_end_matches('/');
        format!("{directory}/{RESERVED}{name}.{what}")
    }

    /// The temporary name of the new file.
    pub(crate) fn new_name(&self) -> String {
        self.beside("new")
    }

    /// The hard link of the old file; it stays until the journal records that the old file is restored.
    pub(crate) fn old_name(&self) -> String {
        self.beside("old")
    }

    /// The spare link of the old file, which a restore renames to the target: created in advance, so that a restore
    /// needs no space.
    pub(crate) fn spare_name(&self) -> String {
        self.beside("spare")
    }
}

impl Plan {
    /// The directories of the swaps, without duplicates.
    pub(crate) fn directories(&self) -> BTreeSet<&str> {
        self.swaps.iter().map(|swap| paths::split(&swap.path).0).collect()
    }

    /// Whether the services must be reloaded.
    pub(crate) fn reloads(&self) -> bool {
        self.reload_anyway || !self.swaps.is_empty()
    }
}

/// The state of a path of a row.
struct Observed {
    entry: Option<Entry>,
    content: Vec<u8>,
    /// Missing directories on the way.
    missing: Vec<String>,
}

/// Reads the state of all paths of the change, and refuses paths that could not be swapped and restored. Writes
/// nothing.
pub(crate) fn draft(
    change: &Change,
    originals: &Originals,
    disk: &dyn Disk,
    (id, reload_anyway, before): (u64, bool, Vec<String>),
) -> Result<Draft, RowRefusal> {
    let mut files = change.files.clone();
    let listed: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
    let mut returned = Vec::new();
    for head in originals
        .all()
        .filter(|head| head.row == change.row && !listed.contains(&head.path))
    {
        let target = originals.target(&head.path).map_err(|error| failed(&error))?;
        let damaged = || target_refused(&head.path, "has an original that cannot be read");
        files.push(DesiredFile {
            path: head.path.clone(),
            target: target.ok_or_else(damaged)?,
        });
        returned.push(head.path.clone());
    }
    let mut draft = Draft {
        plan: Plan {
            id,
            row: change.row.clone(),
            key: change.key.clone(),
            swaps: Vec::new(),
            kept: Vec::new(),
            returned,
            procedure: change.procedure.clone(),
            reload_anyway,
            before,
        },
        contents: Vec::new(),
        originals: Vec::new(),
    };
    let mut made = BTreeSet::new();
    for file in files {
        let mut observed = observe(&file, disk)?;
        observed
            .missing
            .retain(|directory| made.insert(directory.clone()));
        draft.add(file, observed, originals);
    }
    check_space(&draft, disk)?;
    Ok(draft)
}

impl Draft {
    fn add(&mut self, file: DesiredFile, observed: Observed, originals: &Originals) {
        if originals.of(&file.path).is_none() {
            let head = Head {
                path: file.path.clone(),
                row: self.plan.row.clone(),
                attributes: observed.entry.map(|entry| entry.attributes),
                directories: observed.missing.clone(),
            };
            self.plan.kept.push(file.path.clone());
            self.originals.push((head, Filled(observed.content.clone())));
        }
        if is_as_wanted(&file.target, observed.entry.as_ref(), &observed.content) {
            return;
        }
        let content = match file.target {
            Target::Absent => None,
            Target::Present { content, attributes } => Some((content, attributes)),
        };
        self.plan.swaps.push(Swap {
            path: file.path,
            old: observed.entry.map(|entry| entry.inode),
            present: content.is_some(),
            directories: observed.missing,
        });
        self.contents.push(content);
    }
}

/// Whether the path already has the desired state.
fn is_as_wanted(target: &Target, entry: Option<&Entry>, content: &[u8]) -> bool {
    match (target, entry) {
        (Target::Absent, None) => true,
        (
            Target::Present {
                content: wanted,
                attributes,
            },
            Some(entry),
        ) => wanted.0 == content && *attributes == entry.attributes,
        _ => false,
    }
}

/// Whether a file has the desired state; an unreadable one does not.
pub(crate) fn is_in_desired_state(file: &DesiredFile, disk: &dyn Disk) -> bool {
    observe(file, disk)
        .is_ok_and(|observed| is_as_wanted(&file.target, observed.entry.as_ref(), &observed.content))
}

fn observe(file: &DesiredFile, disk: &dyn Disk) -> Result<Observed, RowRefusal> {
    let path = &file.path;
    let missing = missing_directories(path, disk)?;
    let entry = disk.entry(path).map_err(|error| refused_path(path, &error))?;
    let mut content = Vec::new();
    if let Some(entry) = &entry {
        let what = match entry.kind {
            Kind::File => None,
            Kind::Directory => Some("is a directory"),
            Kind::Link => Some("is a symbolic link"),
            Kind::Other => Some("is not a regular file"),
        };
        if let Some(problem) = what.or_else(|| entry.obstacle.map(obstacle)) {
            return Err(target_refused(path, problem));
        }
        content = disk
            .read(path, MAX_ORIGINAL)
            .map_err(|error| refused_path(path, &error))?
            .unwrap_or_default();
    }
    Ok(Observed {
        entry,
        content,
        missing,
    })
}

fn obstacle(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Immutable => "is immutable",
        Obstacle::AppendOnly => "is append-only",
        Obstacle::MountPoint => "is a mount point",
    }
}

/// The missing directories on the way to the path, outermost first; refuses entries that are not directories, or cannot
/// change.
fn missing_directories(path: &str, disk: &dyn Disk) -> Result<Vec<String>, RowRefusal> {
    let mut missing = Vec::new();
    let mut directory = paths::split(path).0;
    loop {
        match disk
            .entry(directory)
            .map_err(|error| refused_path(path, &error))?
        {
            None if directory == "/" => return Err(target_refused(path, "has no directory")),
            None => {
                missing.push(directory.to_owned());
                directory = paths::split(directory).0;
            }
            Some(entry) if entry.kind != Kind::Directory => {
                return Err(target_refused(path, "has a parent that is not a directory"));
            }
            Some(entry) => {
                let fixed = matches!(entry.obstacle, Some(Obstacle::Immutable | Obstacle::AppendOnly));
                if fixed {
                    return Err(target_refused(
                        path,
                        "is in a directory that is immutable or append-only",
                    ));
                }
                missing.reverse();
                return Ok(missing);
            }
        }
    }
}

/// Refuses a read-only file system, and one without space for all new files in addition to the old ones.
fn check_space(draft: &Draft, disk: &dyn Disk) -> Result<(), RowRefusal> {
    let needed: usize = draft
        .contents
        .iter()
        .flatten()
        .map(|(content, _)| content.0.len())
        .sum();
    for swap in &draft.plan.swaps {
        let outermost = swap
            .directories
            .first()
            .map_or(swap.path.as_str(), String::as_str);
        let (directory, _) = paths::split(outermost);
        let Ok(free) = disk.free(directory) else {
            // Another file of the change creates this directory.
            continue;
        };
        let free =
            free.ok_or_else(|| target_refused(&swap.path, "is on a file system that is mounted read-only"))?;
        if free < needed as u64 + RESERVE {
            let problem = format!(
                "{directory} has {free} bytes free; the change needs {needed} and {RESERVE} beside them"
            );
            return Err(RowRefusal {
                field: "files".to_owned(),
                problem: RefusalProblem::Disk(problem),
            });
        }
    }
    Ok(())
}

fn target_refused(path: &str, problem: &str) -> RowRefusal {
    RowRefusal {
        field: "files".to_owned(),
        problem: RefusalProblem::Target(format!("{path} {problem}")),
    }
}

fn refused_path(path: &str, error: &DiskError) -> RowRefusal {
    let text = match rustix::io::Errno::from_raw_os_error(error.code) {
        rustix::io::Errno::LOOP => "has a symbolic link in its path".to_owned(),
        rustix::io::Errno::FBIG => format!("has more than {MAX_ORIGINAL} bytes, too many to keep"),
        rustix::io::Errno::XDEV => "is below a prefix whose directory does not exist".to_owned(),
        rustix::io::Errno::NOTDIR => "has a parent that is not a directory".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    target_refused(path, &text)
}

pub(crate) fn failed(error: &DiskError) -> RowRefusal {
    RowRefusal {
        field: "files".to_owned(),
        problem: RefusalProblem::Disk(error.to_string()),
    }
}
