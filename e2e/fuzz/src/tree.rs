//! Laws of reading git trees: whatever the objects are, what is read is inside the path, is a regular file of the tree,
//! and is complete.

mod model;

use arbitrary::Unstructured;
use muster_sync::source::{File, Limits};

use self::model::{Model, Reachable};

/// Paths to read.
const PATHS: [&str; 12] = [
    "",
    ".",
    "./",
    "a",
    "a/b",
    "deploy",
    "./deploy/",
    "..",
    "a/../b",
    "/a",
    ".git",
    "a//b",
];

/// `spec.ignore` of a source.
const PATTERNS: [&str; 6] = ["*.yml", "/a/", "!*.yaml", "a/**/b.yaml", "[", "\u{1b}[31m{"];

/// Trees with more entries than this are rejected.
const LIMITS: (usize, usize, u64, u64, usize) = (300, 12, 200, 900, 4);

/// The laws, for a repository that is derived from the bytes.
pub fn check(bytes: &[u8]) {
    let mut unstructured = Unstructured::new(bytes);
    let Ok(model) = Model::arbitrary(&mut unstructured) else {
        return;
    };
    let Ok((path, ignore)) = request(&mut unstructured) else {
        return;
    };
    let (objects, files, file_bytes, total_bytes, depth) = LIMITS;
    let limits = Limits {
        objects,
        files,
        file_bytes,
        total_bytes,
        depth,
        ..Limits::default()
    };
    match model.objects.read(model.root, &path, ignore.as_deref(), &limits) {
        Ok(files) => {
            let files: Vec<&File> = files.iter().collect();
            assert_clean(&files, &path);
            assert_is(&files, &model, &path, ignore.is_some());
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(
                !shown.is_empty() && !shown.contains(char::is_control),
                "{shown:?}"
            );
        }
    }
}

fn request(u: &mut Unstructured<'_>) -> arbitrary::Result<(String, Option<String>)> {
    let path = if u.ratio(1, 8)? {
        u.arbitrary::<&str>()?
    } else {
        u.choose(&PATHS)?
    };
    let ignore = match u.int_in_range(0..=5)? {
        0 => Some(u.arbitrary::<&str>()?),
        1 => Some(*u.choose(&PATTERNS)?),
        _ => None,
    };
    Ok((path.to_owned(), ignore.map(str::to_owned)))
}

/// Within the limits, sorted, without duplicates, and with names that are valid on every platform.
fn assert_clean(files: &[&File], asked: &str) {
    let (_, most, file_bytes, total_bytes, depth) = LIMITS;
    let sizes = || files.iter().map(|file| file.bytes.len() as u64);
    assert!(
        files.len() <= most && sizes().all(|size| size <= file_bytes) && sizes().sum::<u64>() <= total_bytes
    );
    assert!(
        files
            .windows(2)
            .all(|pair| pair[0].path.as_bytes() < pair[1].path.as_bytes()),
        "{files:?}"
    );
    for file in files {
        let path = &file.path;
        assert!(model::is_manifest(path), "{path:?}");
        assert!(
            path.split('/').count() <= asked.split('/').count() + depth + 1,
            "{path:?}"
        );
        assert!(path.split('/').all(is_clean), "{path:?}");
        assert!(
            !file.bytes.starts_with(b"version https://git-lfs"),
            "{path:?} is a pointer"
        );
    }
}

/// Whether a name is neither empty, nor `..`, nor taken for `.git` by some file system, nor displayed as another name.
fn is_clean(name: &str) -> bool {
    let shown: String = name
        .chars()
        .filter(|c| !('\u{200b}'..='\u{200f}').contains(c) && *c != '\u{feff}')
        .collect();
    let stem = shown
        .split(':')
        .next()
        .unwrap_or(&shown)
        .trim_end_matches(['.', ' '])
        .to_lowercase();
    !matches!(name, "" | "." | "..")
        && !matches!(stem.as_str(), ".git" | "git~1")
        && !name
            .chars()
            .any(|c| c.is_control() || c == '\\' || ('\u{202a}'..='\u{202e}').contains(&c))
}

/// Every file that is read exists; without ignore rules every file is read, and there is nothing to reject.
fn assert_is(files: &[&File], model: &Model, path: &str, ignoring: bool) {
    let candidates: Vec<Reachable> = model.at(path).collect();
    let is = |there: &Reachable| {
        let taken = |file: &&File| {
            there
                .files
                .get(&file.path)
                .is_some_and(|bytes| *bytes == file.bytes[..])
        };
        let all = files.len() == there.files.len() && !there.forbidden;
        files.iter().all(taken) && (all || ignoring || there.ignores)
    };
    assert!(
        candidates.iter().any(is),
        "{files:?} at {path:?} of {candidates:?}"
    );
}
