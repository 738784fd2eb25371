//! Checks links between the documents of the repository.

use anyhow::Context;
use regex::Regex;

use crate::{Problems, tree};

/// Every relative link in a Markdown file whose target does not exist.
pub fn check() -> anyhow::Result<Problems> {
    let link = Regex::new(r"\]\(([^)\s#]+)(#[^)\s]*)?\)").context("the pattern of a link")?;
    let mut problems = Problems::new();
    for file in tree::files()?.iter().filter(|file| tree::is_of(file, "md")) {
        let directory = tree::root()
            .join(file)
            .parent()
            .map_or_else(tree::root, std::path::Path::to_path_buf);
        for (number, line) in tree::read(file)?.lines().enumerate() {
            for target in link.captures_iter(line).filter_map(|found| found.get(1)) {
                let target = target.as_str();
                if !target.contains("://")
                    && !target.starts_with("mailto:")
                    && !directory.join(target).exists()
                {
                    problems.push(format!(
                        "{file}:{}: the target of link {target} does not exist",
                        number + 1
                    ));
                }
            }
        }
    }
    problems.extend(tests_of_sync()?);
    Ok(problems)
}

/// Tests in the table of `docs/sync.md` that do not exist: a function, `module::function` of a scenario, or a file of
/// tests.
fn tests_of_sync() -> anyhow::Result<Problems> {
    const PAGE: &str = "docs/sync.md";
    let page = tree::read(PAGE)?;
    let table = page
        .lines()
        .skip_while(|line| !line.ends_with("| tests |"))
        .skip(2);
    let name = Regex::new(r"`([a-z0-9_:]+)`").context("the pattern of a test's name")?;
    let files = tree::files()?;
    let mut tests = String::new();
    for file in files.iter().filter(|file| tree::is_of(file, "rs")) {
        tests += &tree::read(file)?;
    }
    let is_there = |name: &str| {
        let function = name.rsplit("::").next().unwrap_or(name);
        tests.contains(&format!("fn {function}("))
            || files
                .iter()
                .any(|file| file.ends_with(&format!("/{}.rs", name.replace("::", "/"))))
    };
    let mut problems = Problems::new();
    let rows: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    for row in &rows {
        let cell = row
            .trim_end_matches([' ', '|'])
            .rsplit('|')
            .next()
            .unwrap_or_default();
        let names: Vec<&str> = name
            .captures_iter(cell)
            .filter_map(|found| Some(found.get(1)?.as_str()))
            .collect();
        if names.is_empty() {
            problems.push(format!("{PAGE}: no test is named in {row}"));
        }
        problems.extend(
            names
                .iter()
                .filter(|name| !is_there(name))
                .map(|name| format!("{PAGE}: test {name} does not exist")),
        );
    }
    if rows.is_empty() {
        problems.push(format!("{PAGE}: the table of tests is missing"));
    }
    Ok(problems)
}
