//! `.sourceignore`: which paths are ignored, as in Flux.
//!
//! Patterns are read in this order: the default ones, those of each `.sourceignore` from the root down, `spec.ignore`.
//! The last pattern that matches a path, or a directory above it, decides.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{Remote, SourceError};

/// Name of the pattern files.
pub(super) const FILE_NAME: &str = ".sourceignore";

/// Flux's default exclusions, as far as they can match YAML files.
const DEFAULTS: &str = "
.github/
.circleci/
.travis.yml
.gitlab-ci.yml
appveyor.yml
.drone.yml
cloudbuild.yaml
codeship-services.yml
codeship-steps.yml
**/.goreleaser.yml
**/.sops.yaml
**/.flux.yaml
";

/// The patterns that apply in one directory.
#[derive(Debug, Clone)]
pub(super) struct Ignored {
    /// In ascending priority, each with the directory that its patterns are relative to.
    layers: Vec<(String, Gitignore)>,
    /// From `spec.ignore`: the highest priority.
    spec: Option<Gitignore>,
}

impl Ignored {
    /// The default patterns and those of the object.
    pub(super) fn new(remote: &Remote) -> Result<Self, SourceError> {
        let layers = vec![(String::new(), parse("default patterns", DEFAULTS)?)];
        let spec = remote
            .ignore
            .as_deref()
            .map(|text| parse("spec.ignore", text))
            .transpose()?;
        Ok(Self { layers, spec })
    }

    /// Adds the patterns of the file in `directory`.
    pub(super) fn with_file(&self, directory: &str, text: &[u8]) -> Result<Self, SourceError> {
        let path = join(directory, FILE_NAME);
        let text = std::str::from_utf8(text).map_err(|_| SourceError::IgnorePattern {
            path: path.clone(),
            pattern: String::new(),
            why: "the file is not UTF-8".to_owned(),
        })?;
        let mut with = self.clone();
        with.layers.push((directory.to_owned(), parse(&path, text)?));
        Ok(with)
    }

    /// Whether a path, relative to the root, is ignored.
    pub(super) fn is_ignored(&self, path: &str, is_directory: bool) -> bool {
        let layers = self
            .layers
            .iter()
            .rev()
            .map(|(directory, patterns)| (directory.as_str(), patterns));
        for (directory, patterns) in self.spec.iter().map(|patterns| ("", patterns)).chain(layers) {
            let Some(relative) = below(directory, path) else {
                continue;
            };
            let matched = patterns.matched_path_or_any_parents(relative, is_directory);
            if !matched.is_none() {
                return matched.is_ignore();
            }
        }
        false
    }
}

/// The path relative to a parent directory.
fn below<'a>(directory: &str, path: &'a str) -> Option<&'a str> {
    if directory.is_empty() {
        Some(path)
    } else {
        path.strip_prefix(directory)?.strip_prefix('/')
    }
}

fn parse(path: &str, text: &str) -> Result<Gitignore, SourceError> {
    let refuse = |pattern: &str, error: &ignore::Error| SourceError::IgnorePattern {
        path: path.to_owned(),
        pattern: pattern.to_owned(),
        // The message repeats the pattern: control characters must not reach a terminal.
        why: error.to_string().replace(char::is_control, "\u{fffd}"),
    };
    let mut builder = GitignoreBuilder::new(".");
    // As in git: a byte order mark is not part of the first pattern.
    for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines() {
        builder
            .add_line(None, line)
            .map_err(|error| refuse(line, &error))?;
    }
    builder.build().map_err(|error| refuse("", &error))
}

/// Joins a directory and a path; the root is the empty string.
pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_no_control_characters() {
        let error = Ignored::new(&Remote::default())
            .and_then(|ignored| ignored.with_file("", b"\x1b[31m{"))
            .unwrap_err();
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_pattern() {
        let ignored = Ignored::new(&Remote::default())
            .unwrap()
            .with_file("", "\u{feff}/secret.yaml\n".as_bytes())
            .unwrap();
        assert!(ignored.is_ignored("secret.yaml", false));
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let remote = Remote {
            ignore: Some("/*\n!/deploy\n/deploy/tests/".to_owned()),
            ..Remote::default()
        };
        let from_spec = Ignored::new(&remote).unwrap();
        let from_files = Ignored::new(&Remote::default())
            .unwrap()
            .with_file("", b"*.yml\n# comment\nsecret*.yaml\n!.github/")
            .unwrap()
            .with_file("deploy", b"!keep.yml\n/only.yaml")
            .unwrap();
        let check = |ignored: &Ignored, path: &str, expect: bool| {
            assert_eq!(ignored.is_ignored(path, false), expect, "{path}");
        };
        check(&from_spec, "deploy/app.yaml", false);
        check(&from_spec, "deploy/sub/app.yaml", false);
        check(&from_spec, "deploy/tests/app.yaml", true);
        check(&from_spec, "other/app.yaml", true);
        check(&from_spec, "root.yaml", true);
        check(&from_files, "app.yml", true);
        check(&from_files, "x/secret-1.yaml", true);
        check(&from_files, "deploy/keep.yml", false);
        check(&from_files, "deploy/only.yaml", true);
        check(&from_files, "deploy/sub/only.yaml", false);
        check(&from_files, "only.yaml", false);
        check(&from_files, ".github/workflow.yaml", false);
        check(&from_files, "sub/.sops.yaml", true);
        let plain = Ignored::new(&Remote::default()).unwrap();
        check(&plain, ".github/workflow.yaml", true);
        check(&plain, "deploy/app.yaml", false);
    }
}
