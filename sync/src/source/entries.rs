//! Which entries of a repository are read, skipped or refused; the same for every source.

use bytes::Bytes;

use super::ignored::Ignored;
pub(super) use super::ignored::join;
use super::{EntryRefusal, File, Files, Limits, SourceError};

/// Longest path in bytes.
const MAX_PATH: usize = 4096;

/// First bytes of a Git LFS pointer.
const LFS_HEADER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// The directories from the root to the requested path; empty for the root.
pub(super) fn components(path: &str) -> Result<Vec<&str>, SourceError> {
    let invalid = |why| SourceError::InvalidPath {
        path: path.chars().take(200).collect(),
        why,
    };
    if path.len() > MAX_PATH {
        return Err(invalid("it is longer than 4096 bytes"));
    }
    if path.starts_with('/') {
        return Err(invalid("it must be relative to the root of the repository"));
    }
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    if trimmed.is_empty() {
        return Ok(Vec::new());
    }
    let mut components = Vec::new();
    for component in trimmed.split('/') {
        match component {
            "." => {}
            "" => return Err(invalid("it has an empty component")),
            ".." => return Err(invalid("it leads outside with ..")),
            name => match refusal(name) {
                Some(EntryRefusal::ReservedName) => {
                    return Err(invalid("it contains a name that git reserves"));
                }
                Some(_) => return Err(invalid("it contains a backslash, control or invisible character")),
                None => components.push(name),
            },
        }
    }
    Ok(components)
}

/// The name of a tree entry, if it is allowed.
pub(super) fn entry_name<'a>(directory: &str, name: &'a [u8]) -> Result<&'a str, SourceError> {
    let refuse = |why| SourceError::Refused {
        path: join(directory, &name.escape_ascii().to_string()),
        why,
    };
    let name = std::str::from_utf8(name).map_err(|_| refuse(EntryRefusal::NotUtf8))?;
    match refusal(name) {
        Some(why) => Err(refuse(why)),
        None => Ok(name),
    }
}

/// Collects the manifests of one read, within the limits.
pub(super) struct Collector<'a> {
    limits: &'a Limits,
    files: Vec<File>,
    bytes: u64,
}

impl<'a> Collector<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            files: Vec::new(),
            bytes: 0,
        }
    }

    /// Whether to read a file of this name; a kustomization is an error.
    pub(super) fn wants(path: &str, name: &str) -> Result<bool, SourceError> {
        if matches!(name, "kustomization.yaml" | "kustomization.yml" | "Kustomization") {
            return Err(SourceError::KustomizeUnsupported {
                path: path.to_owned(),
            });
        }
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        Ok(matches!(extension, Some("yaml" | "yml")))
    }

    /// Must be called with the size before the content is loaded.
    pub(super) fn admit(&mut self, path: &str, size: u64) -> Result<(), SourceError> {
        let limits = self.limits;
        let exceeded = |what, limit, option| Err(SourceError::LimitExceeded { what, limit, option });
        if size > limits.file_bytes {
            return exceeded(
                format!("{path:?} with {size} bytes"),
                limits.file_bytes,
                "--git-max-file-bytes",
            );
        }
        if self.files.len() >= limits.files {
            return exceeded(
                format!("the number of manifests up to {path:?}"),
                limits.files as u64,
                "--git-max-files",
            );
        }
        self.bytes += size;
        if self.bytes > limits.total_bytes {
            let what = format!("the size of all manifests up to {path:?}");
            return exceeded(what, limits.total_bytes, "--git-max-total-bytes");
        }
        Ok(())
    }

    /// Adds an admitted file.
    pub(super) fn push(&mut self, path: String, bytes: Bytes) -> Result<(), SourceError> {
        if bytes.starts_with(LFS_HEADER) {
            return Err(SourceError::Refused {
                path,
                why: EntryRefusal::LfsPointer,
            });
        }
        self.files.push(File { path, bytes });
        Ok(())
    }

    /// Entries that are not ignored.
    pub(super) fn finish(self) -> Files {
        Files::new(self.files)
    }
}

/// Checks the depth of a directory against its limit.
pub(super) fn check_depth(directory: &str, depth: usize, limits: &Limits) -> Result<(), SourceError> {
    if depth <= limits.depth {
        return Ok(());
    }
    let shown: String = directory.chars().take(120).collect();
    Err(SourceError::LimitExceeded {
        what: format!("the depth of {shown:?}"),
        limit: limits.depth as u64,
        option: "--git-max-depth",
    })
}

/// Whether an entry that would be refused is ignored by a pattern, and therefore harmless.
pub(super) fn refuse_unless_ignored(
    ignored: &Ignored,
    path: String,
    why: EntryRefusal,
) -> Result<(), SourceError> {
    if ignored.is_ignored(&path, false) {
        Ok(())
    } else {
        Err(SourceError::Refused { path, why })
    }
}

/// Why a name is refused, whatever its type.
fn refusal(name: &str) -> Option<EntryRefusal> {
    if name.is_empty() || name.contains(['/', '\\']) {
        return Some(EntryRefusal::Separator);
    }
    if is_reserved(name) {
        return Some(EntryRefusal::ReservedName);
    }
    name.chars()
        .any(is_invisible)
        .then_some(EntryRefusal::ControlCharacter)
}

/// `.`, `..`, and `.git` as NTFS and HFS+ also see it: short name, alternate stream, trailing dots, ignored characters,
/// case.
fn is_reserved(name: &str) -> bool {
    if matches!(name, "." | "..") {
        return true;
    }
    let visible: String = name.chars().filter(|c| !is_invisible(*c)).collect();
    let stem = visible
        .split(':')
        .next()
        .unwrap_or_default()
        .trim_end_matches(['.', ' ']);
    stem.eq_ignore_ascii_case(".git") || stem.eq_ignore_ascii_case("git~1")
}

/// Control characters, and the format characters that hide or reorder text.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_paths() {
        let check = |path: &str, expect: Result<&[&str], &str>| match (components(path), expect) {
            (Ok(got), Ok(expect)) => assert_eq!(got, expect, "{path:?}"),
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{path:?}: {error}"),
            (got, expect) => panic!("{path:?}: got {got:?}, not {expect:?}"),
        };
        check("", Ok(&[]));
        check(".", Ok(&[]));
        check("./", Ok(&[]));
        check("deploy", Ok(&["deploy"]));
        check("./deploy/prod/", Ok(&["deploy", "prod"]));
        check("a/./b", Ok(&["a", "b"]));
        check("..", Err("outside"));
        check("a/../../b", Err("outside"));
        check("/etc", Err("relative"));
        check("a//b", Err("empty"));
        check("a\\b", Err("backslash"));
        check("a\nb", Err("control"));
        check(".git/config", Err("reserves"));
        check("x/.GIT", Err("reserves"));
        check(&"a/".repeat(3000), Err("4096"));
    }

    #[test]
    fn names_of_entries() {
        let check = |name: &[u8], expect: Option<EntryRefusal>| {
            let got = entry_name("deploy", name).err().map(|error| match error {
                SourceError::Refused { why, path } => {
                    assert!(path.starts_with("deploy/") && path.is_ascii(), "{path:?}");
                    why
                }
                other => panic!("{other}"),
            });
            assert_eq!(got, expect, "{}", name.escape_ascii());
        };
        check(b"app.yaml", None);
        check("grün.yaml".as_bytes(), None);
        check(b".gitmodules", None);
        check(b".github", None);
        for disguise in [
            ".git",
            ".GIT",
            ".Git",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git . .",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            "..",
            ".",
        ] {
            check(disguise.as_bytes(), Some(EntryRefusal::ReservedName));
        }
        check(b"a\xff.yaml", Some(EntryRefusal::NotUtf8));
        check(b"a\x1b[31m.yaml", Some(EntryRefusal::ControlCharacter));
        check(
            "a\u{202e}lmay.yaml".as_bytes(),
            Some(EntryRefusal::ControlCharacter),
        );
        check(b"a\\b.yaml", Some(EntryRefusal::Separator));
        check(b"", Some(EntryRefusal::Separator));
    }
}
