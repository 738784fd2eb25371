//! Links between the documents of the repository.

use anyhow::Context;
use regex::Regex;

use crate::{Problems, tree};

/// Every relative link in a Markdown file that leads nowhere.
pub fn check() -> anyhow::Result<Problems> {
    let link = Regex::new(r"\]\(([^)\s#]+)(#[^)\s]*)?\)").context("the pattern of a link")?;
    let mut problems = Problems::new();
    for file in tree::files()?.iter().filter(|file| tree::is_of(file, "md")) {
        let folder = tree::root()
            .join(file)
            .parent()
            .map_or_else(tree::root, std::path::Path::to_path_buf);
        for (number, line) in tree::read(file)?.lines().enumerate() {
            for target in link.captures_iter(line).filter_map(|found| found.get(1)) {
                let target = target.as_str();
                if !target.contains("://") && !target.starts_with("mailto:") && !folder.join(target).exists()
                {
                    problems.push(format!("{file}:{}: the link {target} leads nowhere", number + 1));
                }
            }
        }
    }
    Ok(problems)
}
