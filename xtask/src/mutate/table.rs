//! The mutations: one file each under `e2e/mutations/`.

use std::fmt;

use anyhow::Context;
use serde::Deserialize;

use crate::{Problems, tree};

/// Where they are.
const FOLDER: &str = "e2e/mutations/";

/// An old bug, and who notices when it is made again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    /// Whose bug it was and what it did, in one line.
    pub story: String,
    /// What makes it again.
    pub edit: Vec<Edit>,
    /// The test that is red then, and green without it.
    pub caught_by: Test,
}

/// A piece of a file in place of another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// The file, from the top of the repository.
    pub file: String,
    /// Stands there exactly once.
    pub from: String,
    /// What stands there instead.
    pub to: String,
}

/// One test.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub(crate) struct Test {
    /// Its package.
    pub package: String,
    /// Its binary under `tests/`, or `lib`, or `bin` for the tests in a binary itself.
    pub target: String,
    /// Its whole name in that binary.
    pub name: String,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.package, self.target, self.name)
    }
}

impl Edit {
    /// The text of its file with the edit made.
    pub(crate) fn made(&self, text: &str) -> anyhow::Result<String> {
        let found = text.matches(&self.from).count();
        anyhow::ensure!(
            found == 1,
            "{}: what is to be replaced stands there {found} times, not once: {:?}",
            self.file,
            self.from.trim()
        );
        Ok(text.replacen(&self.from, &self.to, 1))
    }
}

/// All mutations; those of one test binary follow each other, so that it is built with as little change as can be.
pub(crate) fn read() -> anyhow::Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    for file in tree::files()? {
        let name = file
            .strip_prefix(FOLDER)
            .and_then(|name| name.strip_suffix(".toml"));
        let Some(name) = name else { continue };
        let mut mutation: Mutation = toml::from_str(&tree::read(&file)?).with_context(|| file.clone())?;
        name.clone_into(&mut mutation.name);
        mutations.push(mutation);
    }
    mutations.sort_by(|one, other| (&one.caught_by, &one.name).cmp(&(&other.caught_by, &other.name)));
    Ok(mutations)
}

/// Mutations that do not fit the code any more: an edit that cannot be made, a test that is not there.
pub fn check() -> anyhow::Result<Problems> {
    misfits(&read()?)
}

/// Those of them that do not fit the code any more.
pub(crate) fn misfits(mutations: &[Mutation]) -> anyhow::Result<Problems> {
    let mut problems = Problems::new();
    let sources = sources()?;
    for mutation in mutations {
        let file = format!("{FOLDER}{}.toml", mutation.name);
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
            problems.push(format!("{file}: there is no test {}", mutation.caught_by));
        }
    }
    Ok(problems)
}

/// Where tests are.
fn sources() -> anyhow::Result<Vec<String>> {
    let files = tree::files()?;
    let sources = files
        .iter()
        .filter(|file| tree::is_of(file, "rs") && !file.starts_with("xtask/"));
    sources.map(|file| tree::read(file)).collect()
}

/// One line for each.
pub(crate) fn listed(mutations: &[Mutation]) -> String {
    let lines = mutations.iter().map(|mutation| {
        format!(
            "{}\n    {}\n    caught by {}\n",
            mutation.name, mutation.story, mutation.caught_by
        )
    });
    lines.collect()
}

/// The page of the folder: which there are, and who catches them. Its name and its text.
pub fn page() -> anyhow::Result<(String, String)> {
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
        "# Old bugs, reintroduced\n\nBugs of the predecessor (fx…), incidents of other projects, and what this design forbids. `cargo xtask mutate` reintroduces each in a copy of\nthe tree and expects a failing test. This page is generated from the files in this folder (`cargo xtask generate`).\n\n| mutation | effect | caught by |\n|---|---|---|\n{}",
        rows.collect::<String>()
    );
    Ok((format!("{FOLDER}README.md"), text))
}
