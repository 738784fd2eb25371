//! A repository derived from fuzzed bytes, and its contents by an independent reading.

use std::collections::BTreeMap;

use arbitrary::Unstructured;
use muster_sync::source::Objects;

/// The ID of an object.
type Id = [u8; 20];

const MODES: [&str; 14] = [
    "100644",
    "40000",
    "100755",
    "100664",
    "120000",
    "160000",
    "040000",
    "0",
    "100600",
    "40755",
    "",
    "-1",
    "+100644",
    "777777777777",
];

const NAMES: [&[u8]; 30] = [
    b"a.yaml",
    b"b.yaml",
    b"c.yml",
    b"a",
    b"b",
    b"deploy",
    b"README.md",
    b".sourceignore",
    b"kustomization.yaml",
    b".yaml",
    b".git",
    b".GIT",
    b"git~1",
    b".git ",
    b".git::$INDEX_ALLOCATION",
    b".g\xe2\x80\x8cit",
    b"..",
    b".",
    b"",
    b"a/b.yaml",
    b"a\\b.yaml",
    b"\xff.yaml",
    b"\x1b[31m.yaml",
    b"\xe2\x80\xaelmay.yaml",
    b".github",
    b".sops.yaml",
    b"a.YAML",
    b"\xc3\xa4.yaml",
    b"Kustomization",
    b".gitmodules",
];

const BLOBS: [&[u8]; 9] = [
    b"a: 1\n",
    b"",
    b"version https://git-lfs.github.com/spec/v1\n",
    b"*.yaml\n",
    b"!a.yaml\n/b\n",
    b"[\n",
    b"\xff\xfe",
    b"\x1b]0;x\x07[\n",
    &[b'x'; 250],
];

/// Names that are excluded unless `.sourceignore` includes them.
const LEFT_OUT: [&[u8]; 12] = [
    b".github",
    b".circleci",
    b".travis.yml",
    b".gitlab-ci.yml",
    b"appveyor.yml",
    b".drone.yml",
    b"cloudbuild.yaml",
    b"codeship-services.yml",
    b"codeship-steps.yml",
    b".goreleaser.yml",
    b".sops.yaml",
    b".flux.yaml",
];

/// Objects, with their bytes.
pub(super) struct Model {
    pub(super) objects: Objects,
    pub(super) root: Id,
    trees: BTreeMap<Id, Vec<u8>>,
    blobs: BTreeMap<Id, Vec<u8>>,
}

/// The contents below a directory.
#[derive(Debug, Default)]
pub(super) struct Reachable {
    /// Manifests by path.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// Whether there is an entry that is not allowed.
    pub(super) forbidden: bool,
    /// Whether there is an ignore file, or a file that is excluded by default.
    pub(super) ignores: bool,
}

impl Model {
    /// A few blobs and trees; each tree refers to objects that were created before it, and the last one is the root.
    pub(super) fn arbitrary(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let Ok(objects) = Objects::new() else {
            return Err(arbitrary::Error::IncorrectFormat);
        };
        let mut model = Self {
            objects,
            root: [0; 20],
            trees: BTreeMap::new(),
            blobs: BTreeMap::new(),
        };
        let mut ids: Vec<Id> = vec![[7; 20]];
        for _ in 0..u.int_in_range(0..=7)? {
            let id = if u.ratio(1, 3)? {
                model.blob(u)?
            } else {
                model.tree(u, &ids)?
            };
            ids.push(id);
        }
        model.root = model.tree(u, &ids)?;
        Ok(model)
    }

    fn blob(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<Id> {
        let bytes: &[u8] = if u.ratio(1, 4)? {
            u.arbitrary()?
        } else {
            u.choose(&BLOBS)?
        };
        let id = self
            .objects
            .blob(bytes)
            .map_err(|_| arbitrary::Error::IncorrectFormat)?;
        self.blobs.insert(id, bytes.to_vec());
        Ok(id)
    }

    fn tree(&mut self, u: &mut Unstructured<'_>, ids: &[Id]) -> arbitrary::Result<Id> {
        let mut raw = Vec::new();
        for _ in 0..u.int_in_range(1..=6)? {
            if u.ratio(1, 32)? {
                raw.extend_from_slice(u.arbitrary::<&[u8]>()?);
            }
            let id = u.choose(ids)?;
            // Mostly valid entries, so that most trees can be read.
            let mode = match u.int_in_range(0..=7)? {
                0 => *u.choose(&MODES)?,
                _ if self.trees.contains_key(id) => "40000",
                _ => "100644",
            };
            let name: &[u8] = match u.int_in_range(0..=15)? {
                0 => u.arbitrary()?,
                1..=3 => u.choose(&NAMES)?,
                _ => u.choose(&NAMES[..7])?,
            };
            raw.extend_from_slice(&[mode.as_bytes(), b" ", name, b"\0", id].concat());
        }
        let id = self
            .objects
            .tree(&raw)
            .map_err(|_| arbitrary::Error::IncorrectFormat)?;
        self.trees.insert(id, raw);
        Ok(id)
    }

    /// The contents below a path, for each directory that it may mean: a name may occur twice.
    pub(super) fn at(&self, path: &str) -> impl Iterator<Item = Reachable> {
        let components = path
            .split('/')
            .filter(|component| !matches!(*component, "" | "."));
        let mut directories = vec![(self.root, String::new(), false)];
        for component in components {
            let mut below = Vec::new();
            for (directory, prefix, ignores) in &directories {
                let entries = self
                    .trees
                    .get(directory)
                    .and_then(|raw| entries(raw))
                    .unwrap_or_default();
                let ignores = *ignores || entries.iter().any(|entry| is_ignoring(entry.name));
                let named = entries
                    .iter()
                    .filter(|entry| entry.mode == 0o40_000 && entry.name == component.as_bytes());
                below.extend(named.map(|entry| (entry.id, format!("{prefix}{component}/"), ignores)));
            }
            directories = below;
        }
        directories.into_iter().map(|(directory, prefix, ignores)| {
            let mut reachable = Reachable {
                ignores,
                ..Reachable::default()
            };
            self.walk(directory, &prefix, &mut reachable);
            reachable
        })
    }

    fn walk(&self, directory: Id, prefix: &str, reachable: &mut Reachable) {
        let Some(entries) = self.trees.get(&directory).and_then(|raw| entries(raw)) else {
            reachable.forbidden = true;
            return;
        };
        for Entry { mode, name, id } in entries {
            reachable.ignores |= is_ignoring(name);
            let Ok(name) = std::str::from_utf8(name) else {
                reachable.forbidden = true;
                continue;
            };
            let path = format!("{prefix}{name}");
            let manifest = is_manifest(name);
            match mode {
                0o40_000 => self.walk(id, &format!("{path}/"), reachable),
                0o100_644 | 0o100_755 | 0o100_664 => {
                    reachable.forbidden |=
                        matches!(name, "kustomization.yaml" | "kustomization.yml" | "Kustomization");
                    match self.blobs.get(&id) {
                        Some(bytes) if manifest => drop(reachable.files.insert(path, bytes.clone())),
                        Some(_) => {}
                        None => reachable.forbidden |= manifest,
                    }
                }
                _ => reachable.forbidden = true,
            }
        }
    }
}

struct Entry<'a> {
    mode: u32,
    name: &'a [u8],
    id: Id,
}

/// Repetitions of `<mode> <name>NUL<20 bytes>`; `None` if the bytes have another form.
fn entries(mut raw: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while !raw.is_empty() {
        let space = raw.iter().position(|byte| *byte == b' ')?;
        let end = space + raw[space..].iter().position(|byte| *byte == 0)?;
        let mode = std::str::from_utf8(&raw[..space]).ok()?;
        entries.push(Entry {
            mode: u32::from_str_radix(mode, 8).ok()?,
            name: &raw[space + 1..end],
            id: raw.get(end + 1..end + 21)?.try_into().ok()?,
        });
        raw = &raw[end + 21..];
    }
    Some(entries)
}

fn is_ignoring(name: &[u8]) -> bool {
    name == b".sourceignore" || LEFT_OUT.contains(&name)
}

/// Whether the extension is that of a manifest, in any case.
pub(super) fn is_manifest(name: &str) -> bool {
    matches!(name.rsplit_once('.'), Some((_, "yaml" | "yml")))
}
