//! `cargo xtask walks`: typical first changes of a contributor, as patches. Each is applied to a copy of the
//! repository.
//!
//! ```text
//!   e2e/walks/NAME.toml, NAME.patch ──► copy of the tree (target/mutate/) ──► the patch ──► all compiles ──► its test is green ──► next
//! ```
//!
//! Invariant: a walk touches no file that CONTRIBUTING.md does not name for it.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::{
    Problems,
    mutate::{
        copy::{self, Copy},
        run::{TestOutcome, Tests},
        table::Test,
    },
    tree,
};

/// The directory of the patches.
const DIRECTORY: &str = "e2e/walks/";
/// The page that tells contributors which files a change touches.
const GUIDE: &str = "CONTRIBUTING.md";

/// Which walks are run.
#[derive(Debug, clap::Args)]
pub struct Walks {
    /// Walks by name (`e2e/walks/NAME.toml`); all if none is given
    names: Vec<String>,
    /// List the walks without running them
    #[arg(long)]
    list: bool,
}

/// A change, and the files that it may touch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Walk {
    /// The name of its files.
    #[serde(skip)]
    name: String,
    /// A one-line description of the change.
    story: String,
    /// The files that it may touch; a directory (`api/crds/`) includes all its files.
    files: Vec<String>,
    /// The test that it adds or changes.
    test: Test,
}

impl Walks {
    /// Returns 0 if every walk applies, touches only the allowed files and compiles, and its test passes.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let walks = self.selected_walks()?;
        if self.list {
            for Walk { name, story, .. } in &walks {
                println!("{name}\n    {story}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let problems = misfits(&walks)?;
        ensure!(
            problems.is_empty(),
            "the walks do not fit the code:\n{}",
            problems.join("\n")
        );
        let copy = Copy::new()?;
        let tests = Tests::new(&copy);
        let mut good = true;
        for walk in &walks {
            let problem = tried(walk, &copy, &tests)?;
            copy.refresh()?;
            println!("{}: {}", walk.name, problem.as_deref().unwrap_or("good"));
            good &= problem.is_none();
        }
        Ok(if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn selected_walks(&self) -> anyhow::Result<Vec<Walk>> {
        let mut walks = read()?;
        for name in &self.names {
            if !walks.iter().any(|walk| walk.name == *name) {
                let known: Vec<&str> = walks.iter().map(|walk| walk.name.as_str()).collect();
                bail!("unknown walk {name:?}: the walks are {}", known.join(", "));
            }
        }
        walks.retain(|walk| self.names.is_empty() || self.names.contains(&walk.name));
        Ok(walks)
    }
}

/// What is wrong with a walk after it was applied.
fn tried(walk: &Walk, copy: &Copy, tests: &Tests<'_>) -> anyhow::Result<Option<String>> {
    if let Err(output) = copy.apply(&walk.patch_file(), copy::Apply::Write)? {
        return Ok(Some(format!("the patch does not apply:\n{output}")));
    }
    if let Err(output) = tests.check()? {
        return Ok(Some(format!("it does not compile:\n{output}")));
    }
    Ok(match tests.build(&walk.test)? {
        Err(output) => Some(format!("its test does not compile:\n{output}")),
        Ok(binary) => match tests.run(&binary, &walk.test)? {
            TestOutcome::Green => None,
            TestOutcome::Red => Some(format!("{}: red", walk.test)),
            TestOutcome::Hung => Some(format!("{}: does not end", walk.test)),
            TestOutcome::Unknown(output) => Some(format!("{}: did not run:\n{output}", walk.test)),
        },
    })
}

/// Walks that no longer fit the code: a patch that does not apply, a file that is not listed.
pub fn check() -> anyhow::Result<Problems> {
    misfits(&read()?)
}

fn misfits(walks: &[Walk]) -> anyhow::Result<Problems> {
    let guide = tree::read(GUIDE)?;
    let mut problems = Problems::new();
    for walk in walks {
        let patch = walk.patch_file();
        for file in touched(&tree::read(&patch)?) {
            if !walk.may_touch(&file) {
                problems.push(format!(
                    "{patch} touches {file}, which {DIRECTORY}{}.toml does not name",
                    walk.name
                ));
            }
        }
        let unnamed = walk
            .files
            .iter()
            .filter(|file| !guide.contains(&format!("`{file}`")));
        problems.extend(
            unnamed.map(|file| format!("{DIRECTORY}{}.toml: {GUIDE} does not name {file}", walk.name)),
        );
        if let Err(output) = copy::apply(&tree::root(), &patch, copy::Apply::Check)? {
            problems.push(format!("{patch} does not apply: create it again\n{output}"));
        }
    }
    Ok(problems)
}

impl Walk {
    fn patch_file(&self) -> String {
        format!("{DIRECTORY}{}.patch", self.name)
    }

    fn may_touch(&self, file: &str) -> bool {
        let is_below = |named: &String| named.ends_with('/') && file.starts_with(named.as_str());
        self.files.iter().any(|named| named == file || is_below(named))
    }
}

fn read() -> anyhow::Result<Vec<Walk>> {
    let mut walks = Vec::new();
    for file in tree::files()? {
        let name = file
            .strip_prefix(DIRECTORY)
            .and_then(|name| name.strip_suffix(".toml"));
        let Some(name) = name else { continue };
        let mut walk: Walk = toml::from_str(&tree::read(&file)?).with_context(|| file.clone())?;
        name.clone_into(&mut walk.name);
        walks.push(walk);
    }
    Ok(walks)
}

/// The files that a patch touches.
fn touched(patch: &str) -> BTreeSet<String> {
    let headers = patch.lines().filter_map(|line| {
        line.strip_prefix("--- a/")
            .or_else(|| line.strip_prefix("+++ b/"))
    });
    headers.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_touches_what_it_changes_makes_and_removes() {
        let patch =
            "--- a/one\n+++ b/one\n-- a/no\n--- /dev/null\n+++ b/made\n--- a/removed\n+++ /dev/null\n";
        let files: Vec<String> = touched(patch).into_iter().collect();
        assert_eq!(files, ["made", "one", "removed"]);
    }
}
