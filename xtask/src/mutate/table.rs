//! The mutations: one file each under `e2e/mutations/`.

use std::fmt;

use anyhow::Context;
use serde::Deserialize;

use crate::{Problems, tree};

/// The directory of the mutations.
const DIRECTORY: &str = "e2e/mutations/";

/// An old bug, and the test that catches it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    /// Whose bug it was and what it did, in one line.
    pub story: String,
    /// The edits that reintroduce it.
    pub edit: Vec<Edit>,
    /// The test that fails with it, and passes without it.
    pub caught_by: Test,
}

/// A text replacement in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// The file, from the root of the repository.
    pub file: String,
    /// The text to replace, which must occur exactly once.
    pub from: String,
    /// The replacement.
    pub to: String,
}

/// A single test.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub(crate) struct Test {
    /// The package of the test.
    pub package: String,
    /// The name of the binary under `tests/`, or `lib`, or `bin` for tests in a binary itself.
    pub target: String,
    /// The full name of the test in that binary.
    pub name: String,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.package, self.target, self.name)
    }
}

impl Edit {
    /// The text of the file with the edit applied.
    pub(crate) fn made(&self, text: &str) -> anyhow::Result<String> {
        let found = text.matches(&self.from).count();
        anyhow::ensure!(
            found == 1,
            "{}: the text to replace occurs {found} times, not once: {:?}",
            self.file,
            self.from.trim()
        );
        Ok(text.replacen(&self.from, &self.to, 1))
    }
}

/// All mutations; those of one test binary are adjacent, so that little has to be rebuilt between them.
pub(crate) fn read() -> anyhow::Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    for file in tree::files()? {
        let name = file
            .strip_prefix(DIRECTORY)
            .and_then(|name| name.strip_suffix(".toml"));
        let Some(name) = name else { continue };
        let mut mutation: Mutation = toml::from_str(&tree::read(&file)?).with_context(|| file.clone())?;
        name.clone_into(&mut mutation.name);
        mutations.push(mutation);
    }
    mutations.sort_by(|one, other| (&one.caught_by, &one.name).cmp(&(&other.caught_by, &other.name)));
    Ok(mutations)
}

/// Mutations that no longer fit the code: an edit that cannot be applied, a test that does not exist.
pub fn check() -> anyhow::Result<Problems> {
    misfits(&read()?)
}

/// Those of the given mutations that no longer fit the code.
pub(crate) fn misfits(mutations: &[Mutation]) -> anyhow::Result<Problems> {
    let mut problems = Problems::new();
    let sources = sources()?;
    for mutation in mutations {
        let file = format!("{DIRECTORY}{}.toml", mutation.name);
        for edit in &mutation.edit {
            match tree::read(&edit.file).and_then(|text| edit.made(&text)) {
                Ok(made) if made == tree::read(&edit.file)? => {
                    problems.push(format!("{file}: an edit of {} changes nothing", edit.file));
                }
                Ok(_) => {}
                Err(error) => problems.push(format!("{file}: {error:#}")),
            }
        }
        let last = mutation.caught_by.name.rsplit("::").next().unwrap_or_default();
        let word = regex::Regex::new(&format!(r"\b{}\b", regex::escape(last)))?;
        if !sources.iter().any(|text| word.is_match(text)) {
            problems.push(format!("{file}: test {} does not exist", mutation.caught_by));
        }
    }
    Ok(problems)
}

/// The directories with tests of a package.
fn sources() -> anyhow::Result<Vec<String>> {
    let files = tree::files()?;
    let sources = files
        .iter()
        .filter(|file| tree::is_of(file, "rs") && !file.starts_with("xtask/"));
    sources.map(|file| tree::read(file)).collect()
}

/// The list of mutations, one line each.
pub(crate) fn listed(mutations: &[Mutation]) -> String {
    let lines = mutations.iter().map(|mutation| {
        format!(
            "{}\n    {}\n    caught by {}\n",
            mutation.name, mutation.story, mutation.caught_by
        )
    });
    lines.collect()
}

/// The generated page of the directory, with all mutations and the tests that catch them: its name and its text.
pub fn mutations_page() -> anyhow::Result<(String, String)> {
    let mut mutations = read()?;
    mutations.sort_by(|one, other| one.name.cmp(&other.name));
    let rows = mutations.iter().map(|mutation| {
        format!(
            "| `{}` | {} | `{}` |\n",
            mutation.name,
            mutation.story.trim(),
            mutation.caught_by
        )
    });
    let text = format!(
        "# Old bugs, reintroduced\n\nBugs of the predecessor (fx…), incidents of other projects, and what this design forbids. `cargo xtask mutate` reintroduces each in a copy of\nthe tree and expects a failing test. This page is generated from the files in this directory (`cargo xtask generate`).\n\n| mutation | effect | caught by |\n|---|---|---|\n{}",
        rows.collect::<String>()
    );
    Ok((format!("{DIRECTORY}README.md"), text))
}
