//! A disk that loses unsynced data, can be full, and is cut off at any operation.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    panic,
};

use muster_node::{
    Attributes,
    disk::{Disk, DiskError, DiskResult, Entry, Inode, Kind, Obstacle},
};

/// No space left on device.
const NOSPC: i32 = 28;
const NOENT: i32 = 2;
const EXIST: i32 = 17;
const NOTDIR: i32 = 20;
const NOTEMPTY: i32 = 39;
const FBIG: i32 = 27;
const LOOP: i32 = 40;

/// The panic payload that ends the agent's thread when its host is killed.
pub(crate) struct Killed;

/// The fault at an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The process is killed before the operation with this number.
    Kill(usize),
    /// As Kill, and an interrupted write of the journal reaches the disk by half.
    Tear(usize),
    /// From this operation on, every operation that needs space fails.
    Full(usize),
    /// Only this operation fails.
    Fail(usize),
}

#[derive(Clone, Debug)]
enum Node {
    File {
        content: Vec<u8>,
        synced: Vec<u8>,
        attributes: Attributes,
    },
    Directory {
        names: BTreeMap<String, u64>,
        /// The minimum that survives a power cut, and the changes since, in order.
        synced: BTreeMap<String, u64>,
        changes: Vec<(String, Option<u64>)>,
    },
    Link,
}

#[derive(Default)]
pub(crate) struct SimulatedDisk {
    nodes: RefCell<BTreeMap<u64, Node>>,
    pub operations: Cell<usize>,
    pub fault: Cell<Option<Fault>>,
    pub obstacles: RefCell<BTreeMap<String, Obstacle>>,
    pub read_only: Cell<bool>,
    /// Every operation that needs space fails.
    pub full: Cell<bool>,
    pub log: RefCell<Vec<String>>,
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        let disk = Self::default();
        disk.nodes.borrow_mut().insert(0, directory());
        disk
    }

    /// Counts an operation of the agent; the process may end here.
    pub(crate) fn operation(&self, what: &str) -> Result<(), i32> {
        let number = self.operations.get();
        self.operations.set(number + 1);
        self.log.borrow_mut().push(what.to_owned());
        match self.fault.get() {
            Some(Fault::Kill(at) | Fault::Tear(at)) if number >= at => panic::resume_unwind(Box::new(Killed)),
            Some(Fault::Fail(at)) if number == at => Err(5),
            _ => Ok(()),
        }
    }

    fn needs_space(&self) -> Result<(), i32> {
        match self.fault.get() {
            Some(Fault::Full(at)) if self.operations.get() > at => Err(NOSPC),
            _ if self.full.get() => Err(NOSPC),
            _ => Ok(()),
        }
    }

    fn find(&self, path: &str) -> Result<u64, i32> {
        let nodes = self.nodes.borrow();
        let mut at = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match &nodes[&at] {
                Node::Directory { names, .. } => at = *names.get(name).ok_or(NOENT)?,
                Node::File { .. } => return Err(NOTDIR),
                Node::Link => return Err(LOOP),
            }
        }
        Ok(at)
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(u64, &'p str), i32> {
        let (directory, name) = path.rsplit_once('/').unwrap();
        let found = self.find(directory)?;
        match self.nodes.borrow()[&found] {
            Node::Directory { .. } => Ok((found, name)),
            Node::Link => Err(LOOP),
            Node::File { .. } => Err(NOTDIR),
        }
    }

    fn set(&self, path: &str, to: Option<u64>) -> Result<(), i32> {
        let (parent, name) = self.parent(path)?;
        let mut nodes = self.nodes.borrow_mut();
        let Some(Node::Directory { names, changes, .. }) = nodes.get_mut(&parent) else {
            return Err(NOTDIR);
        };
        match to {
            Some(node) => names.insert(name.to_owned(), node),
            None => names.remove(name),
        };
        changes.push((name.to_owned(), to));
        Ok(())
    }

    fn add(&self, node: Node) -> u64 {
        let mut nodes = self.nodes.borrow_mut();
        let number = nodes.keys().last().unwrap() + 1;
        nodes.insert(number, node);
        number
    }

    // Changes by the test: not an operation of the agent, and durable at once.

    pub(crate) fn put(&self, path: &str, content: &str) {
        self.put_with(path, content, 0o644);
    }

    pub(crate) fn put_with(&self, path: &str, content: &str, mode: u32) {
        self.make_directories(path);
        let file = self.add(Node::File {
            content: content.as_bytes().to_vec(),
            synced: content.as_bytes().to_vec(),
            attributes: Attributes { mode, uid: 0, gid: 0 },
        });
        self.set(path, Some(file)).unwrap();
        self.sync_all();
    }

    pub(crate) fn put_link(&self, path: &str) {
        self.make_directories(path);
        let link = self.add(Node::Link);
        self.set(path, Some(link)).unwrap();
        self.sync_all();
    }

    pub(crate) fn remove(&self, path: &str) {
        self.set(path, None).unwrap();
        self.sync_all();
    }

    pub(crate) fn make_directories(&self, path: &str) {
        let mut at = String::new();
        let (directories, _) = path.rsplit_once('/').unwrap();
        for name in directories.split('/').filter(|name| !name.is_empty()) {
            at = format!("{at}/{name}");
            if self.find(&at).is_err() {
                let made = self.add(directory());
                self.set(&at, Some(made)).unwrap();
            }
        }
        self.sync_all();
    }

    fn sync_all(&self) {
        for node in self.nodes.borrow_mut().values_mut() {
            match node {
                Node::File { content, synced, .. } => synced.clone_from(content),
                Node::Directory {
                    names,
                    synced,
                    changes,
                } => {
                    synced.clone_from(names);
                    changes.clear();
                }
                Node::Link => {}
            }
        }
    }

    /// All files below a directory, with mode and content.
    pub(crate) fn files(&self, directory: &str) -> BTreeMap<String, (u32, String)> {
        let mut files = BTreeMap::new();
        let Ok(at) = self.find(directory) else {
            return files;
        };
        let nodes = self.nodes.borrow();
        let mut open = vec![(directory.to_owned(), at)];
        while let Some((path, at)) = open.pop() {
            match &nodes[&at] {
                Node::File {
                    content, attributes, ..
                } => {
                    files.insert(
                        path,
                        (attributes.mode, String::from_utf8_lossy(content).into_owned()),
                    );
                }
                Node::Directory { names, .. } => {
                    open.extend(names.iter().map(|(name, at)| (format!("{path}/{name}"), *at)));
                }
                Node::Link => {
                    files.insert(path, (0o777, "a link".to_owned()));
                }
            }
        }
        files
    }

    pub(crate) fn is_there(&self, path: &str) -> bool {
        self.find(path).is_ok()
    }

    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match &self.nodes.borrow()[&self.find(path).ok()?] {
            Node::File { content, .. } => Some(content.clone()),
            _ => None,
        }
    }

    pub(crate) fn damage(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let at = self.find(path).unwrap();
        if let Some(Node::File { content, .. }) = self.nodes.borrow_mut().get_mut(&at) {
            change(content);
        }
        self.sync_all();
    }

    /// A power cut: any part of the unsynced data is lost. `choose` returns a number below its argument.
    pub(crate) fn cut_power(&self, choose: &mut dyn FnMut(usize) -> usize) {
        for node in self.nodes.borrow_mut().values_mut() {
            match node {
                Node::File { content, synced, .. } if content != synced => {
                    let lost = match choose(3) {
                        0 => synced.clone(),
                        1 => content[..content.len() / 2].to_vec(),
                        _ => content.clone(),
                    };
                    *content = lost;
                    synced.clone_from(content);
                }
                Node::Directory {
                    names,
                    synced,
                    changes,
                } => {
                    let mut by_name: BTreeMap<String, Vec<Option<u64>>> = BTreeMap::new();
                    for (name, to) in changes.drain(..) {
                        by_name.entry(name).or_default().push(to);
                    }
                    for (name, steps) in by_name {
                        // Each name on its own has the state after any of its changes, or before all of them.
                        match choose(steps.len() + 1) {
                            0 => None,
                            kept => Some(steps[kept - 1]),
                        }
                        .map(|to| match to {
                            Some(node) => synced.insert(name, node),
                            None => synced.remove(&name),
                        });
                    }
                    names.clone_from(synced);
                }
                _ => {}
            }
        }
    }
}

fn directory() -> Node {
    Node::Directory {
        names: BTreeMap::new(),
        synced: BTreeMap::new(),
        changes: Vec::new(),
    }
}

fn failed<T>(operation: &'static str, path: &str, result: Result<T, i32>) -> DiskResult<T> {
    result.map_err(|code| DiskError {
        operation,
        path: path.to_owned(),
        code,
    })
}

fn absent_is_none<T>(result: DiskResult<T>) -> DiskResult<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

impl SimulatedDisk {
    /// The node of a name; a link is not followed.
    fn name(&self, path: &str) -> Result<u64, i32> {
        let (parent, name) = self.parent(path)?;
        match &self.nodes.borrow()[&parent] {
            Node::Directory { names, .. } => names.get(name).copied().ok_or(NOENT),
            _ => Err(NOTDIR),
        }
    }

    fn writing(
        &self,
        operation: &'static str,
        path: &str,
        space: bool,
        act: impl FnOnce() -> Result<(), i32>,
    ) -> DiskResult<()> {
        let result = self
            .operation(&format!("{operation} {path}"))
            .and_then(|()| if space { self.needs_space() } else { Ok(()) })
            .and_then(|()| act());
        failed(operation, path, result)
    }
}

impl Disk for SimulatedDisk {
    fn entry(&self, path: &str) -> DiskResult<Option<Entry>> {
        let found = if path == "/" { Ok(0) } else { self.name(path) };
        let found = found.map(|number| {
            let (kind, attributes) = match &self.nodes.borrow()[&number] {
                Node::File { attributes, .. } => (Kind::File, *attributes),
                Node::Directory { .. } => (
                    Kind::Directory,
                    Attributes {
                        mode: 0o755,
                        uid: 0,
                        gid: 0,
                    },
                ),
                Node::Link => (
                    Kind::Link,
                    Attributes {
                        mode: 0o777,
                        uid: 0,
                        gid: 0,
                    },
                ),
            };
            Entry {
                kind,
                attributes,
                inode: Inode(0, number),
                obstacle: self.obstacles.borrow().get(path).copied(),
            }
        });
        absent_is_none(failed("examine", path, found))
    }

    fn read(&self, path: &str, most: u64) -> DiskResult<Option<Vec<u8>>> {
        let read = self
            .name(path)
            .and_then(|number| match &self.nodes.borrow()[&number] {
                Node::File { content, .. } if content.len() as u64 > most => Err(FBIG),
                Node::File { content, .. } => Ok(content.clone()),
                Node::Directory { .. } => Err(21),
                Node::Link => Err(LOOP),
            });
        absent_is_none(failed("read", path, read))
    }

    fn list(&self, directory: &str) -> DiskResult<Vec<String>> {
        let listed = self
            .find(directory)
            .and_then(|at| match &self.nodes.borrow()[&at] {
                Node::Directory { names, .. } => Ok(names.keys().cloned().collect()),
                _ => Err(NOTDIR),
            });
        failed("list", directory, listed)
    }

    fn free(&self, directory: &str) -> DiskResult<Option<u64>> {
        failed("examine", directory, self.find(directory))?;
        // The disk becomes full after it was checked: the later failure counts.
        Ok((!self.read_only.get()).then_some(u64::MAX))
    }

    fn write_new(&self, path: &str, content: &[u8], attributes: Attributes) -> DiskResult<()> {
        self.writing("write", path, true, || {
            let file = self.add(Node::File {
                content: content.to_vec(),
                synced: Vec::new(),
                attributes,
            });
            self.set(path, Some(file))
        })
    }

    fn sync_file(&self, path: &str) -> DiskResult<()> {
        self.writing("sync", path, false, || {
            let number = self.name(path)?;
            if let Some(Node::File { content, synced, .. }) = self.nodes.borrow_mut().get_mut(&number) {
                synced.clone_from(content);
            }
            Ok(())
        })
    }

    fn sync_dir(&self, directory: &str) -> DiskResult<()> {
        self.writing("sync", directory, false, || {
            let at = self.find(directory)?;
            if let Some(Node::Directory {
                names,
                synced,
                changes,
            }) = self.nodes.borrow_mut().get_mut(&at)
            {
                synced.clone_from(names);
                changes.clear();
            }
            Ok(())
        })
    }

    fn link(&self, from: &str, to: &str) -> DiskResult<()> {
        self.writing("link", to, true, || {
            let number = self.name(from)?;
            if self.name(to).is_ok() {
                return Err(EXIST);
            }
            self.set(to, Some(number))
        })
    }

    fn rename(&self, from: &str, to: &str) -> DiskResult<()> {
        self.writing("rename", to, false, || {
            let number = self.name(from)?;
            // Two names of the same file: nothing changes.
            if self.name(to).is_ok_and(|other| other == number) {
                return Ok(());
            }
            self.set(to, Some(number))?;
            self.set(from, None)
        })
    }

    fn unlink(&self, path: &str) -> DiskResult<()> {
        self.writing("remove", path, false, || match self.name(path) {
            Ok(_) => self.set(path, None),
            Err(NOENT) => Ok(()),
            Err(code) => Err(code),
        })
    }

    fn make_dir(&self, path: &str) -> DiskResult<()> {
        self.writing("make", path, true, || {
            if self.name(path).is_ok() {
                return Ok(());
            }
            let made = self.add(directory());
            self.set(path, Some(made))
        })
    }

    fn remove_dir(&self, path: &str) -> DiskResult<()> {
        self.writing("remove", path, false, || {
            let number = self.name(path)?;
            let empty =
                matches!(&self.nodes.borrow()[&number], Node::Directory { names, .. } if names.is_empty());
            if empty {
                self.set(path, None)
            } else {
                Err(NOTEMPTY)
            }
        })
    }

    fn allocate(&self, path: &str, bytes: usize) -> DiskResult<()> {
        self.writing("allocate", path, true, || {
            let file = self.add(Node::File {
                content: vec![0; bytes],
                synced: vec![0; bytes],
                attributes: Attributes::PRIVATE,
            });
            self.set(path, Some(file))
        })?;
        self.sync_dir(path.rsplit_once('/').unwrap().0)
    }

    fn write_at(&self, path: &str, offset: usize, new: &[u8]) -> DiskResult<()> {
        let number = failed("write", path, self.name(path))?;
        let write = |part: &[u8]| {
            if let Some(Node::File { content, synced, .. }) = self.nodes.borrow_mut().get_mut(&number) {
                content[offset..offset + part.len()].copy_from_slice(part);
                synced.clone_from(content);
            }
        };
        if let Some(Fault::Tear(at)) = self.fault.get()
            && self.operations.get() == at
        {
            write(&new[..new.len() / 16]);
        }
        self.writing("write", path, false, || Ok(()))?;
        write(new);
        Ok(())
    }
}
