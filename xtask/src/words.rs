//! Words that must not come back: what people read is written in the field's terms, as kubectl, Flux and Cluster API
//! write it.
//!
//! The list applies to the prose of hand-written pages, to comments, and to string literals of Rust. Code blocks,
//! inline code and headings are left out: they contain commands, output and names.

use anyhow::Context;
use regex::Regex;

use crate::{Problems, prose, tree};

/// Words, and what to write instead.
const WORDS: &[(&[&str], &str)] = &[
    (
        &[
            "anybody",
            "everybody",
            "nobody",
            "somebody",
            "whoever",
            "whosever",
        ],
        "name the thing or the role",
    ),
    (&["folder", "folders"], "directory"),
    (
        &["who fails", "who has", "who is", "who waits"],
        "units are things",
    ),
    (&["anew", "made anew", "once more"], "again"),
    (&["as ever", "of before"], "as before"),
    (&["ails"], "fails"),
    (&["be had", "had from", "is had"], "get, read, acquire"),
    (&["belongs into"], "belongs in"),
    (&["cannot be told", "could not be told"], "is inconclusive"),
    (&["come round"], "repeat"),
    (&["foretell", "foretells"], "predict"),
    (&["for ever"], "forever"),
    (&["has its words", "in its words"], "quote it"),
    (&["in mid-rollout", "in mid-run", "midst"], "during"),
    (&["in vain"], "without success"),
    (&["are not there", "is not there"], "does not exist"),
    (&["is told", "told"], "report, show"),
    (&["keeps its hands off"], "leaves alone"),
    (&["leads into"], "leads to"),
    (&["let go"], "release"),
    (
        &["look at", "looked at", "looked into", "looks at"],
        "check, read",
    ),
    (&["mend", "mended", "mends"], "fix"),
    (
        &["moves nothing", "nothing moves"],
        "the rollout stays stopped; say what does not change",
    ),
    (&["of one's own", "of somebody", "of yours"], "say whose"),
    (&["played", "plays"], "simulated, simulates"),
    (&["rooms"], "crates, directories"),
    (&["seen"], "observed"),
    (&["sign of life"], "heartbeat"),
    (&["stands", "stood"], "is, remains"),
    (&["surroundings"], "environment"),
    (
        &["take back", "taken back", "takes away", "takes back"],
        "roll back, remove",
    ),
    (&["that is all one"], "it no longer matters"),
    (&["the begin of"], "the start of"),
    (&["very revision", "very version"], "the same revision"),
    (&["what is wished", "wish"], "spec, desired state"),
];

/// Phrases of kubectl that contain a word of the list.
const ALLOWED: &[&str] = &["last seen", "LAST SEEN"];

/// Files that are generated, are history, or contain the words themselves.
const LEFT_OUT: &[&str] = &[
    "docs/cli.md",
    "e2e/mutations/README.md",
    "e2e/fixtures/",
    "xtask/src/names.rs",
    "xtask/src/prose.rs",
    "xtask/src/words.rs",
];

/// Every word of the list in the prose of the repository.
///
/// # Errors
/// The files of the repository cannot be read.
pub fn check() -> anyhow::Result<Problems> {
    let words: Vec<&str> = WORDS
        .iter()
        .flat_map(|(words, _)| words.iter().copied())
        .collect();
    // In a line, or over its end.
    let any = words.join("|").replace(' ', r"\s+");
    let pattern = Regex::new(&format!(r"(?i)\b({any})\b")).context("the list of words")?;
    let mut problems = Problems::new();
    for file in tree::files()? {
        if LEFT_OUT.iter().any(|left_out| file.starts_with(left_out)) {
            continue;
        }
        let prose = if tree::is_of(&file, "md") {
            of_page(&tree::read(&file)?)
        } else if tree::is_of(&file, "rs") {
            prose::of_source(&tree::read(&file)?).with_context(|| file.clone())?
        } else {
            continue;
        };
        let prose = ALLOWED.iter().fold(prose, |prose, phrase| {
            prose.replace(phrase, &"·".repeat(phrase.len()))
        });
        for found in pattern.find_iter(&prose) {
            let line = prose[..found.start()].matches('\n').count() + 1;
            let word = found.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
            problems.push(format!(
                "{file}:{line}: \"{word}\": {}",
                instead(&word.to_lowercase())
            ));
        }
    }
    Ok(problems)
}

fn instead(word: &str) -> &'static str {
    let entry = WORDS.iter().find(|(words, _)| words.contains(&word));
    entry.map_or("", |(_, instead)| instead)
}

/// The text with blanks where code, commands, headings and link targets are: they are names, and others link to them.
fn of_page(text: &str) -> String {
    let mut is_fenced = false;
    let lines = text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if is_fence || is_fenced || line.starts_with("    ") || line.starts_with('#') {
            return String::new();
        }
        let mut is_code = false;
        let mut is_target = false;
        let mut before = ' ';
        line.chars()
            .map(|letter| {
                is_code ^= letter == '`';
                is_target = !is_code && (is_target && letter != ')' || letter == '(' && before == ']');
                before = letter;
                if is_code || is_target { ' ' } else { letter }
            })
            .collect()
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_headings_and_targets_are_no_prose() {
        let page =
            "# Flux beside it\n\nA `nobody` [link](who-is.md#seen) stands\n```\ntold\n```\n    told\nhere.";
        let prose = of_page(page);
        assert_eq!(
            prose.split_whitespace().collect::<Vec<_>>(),
            ["A", "`", "[link]", ")", "stands", "here."]
        );
        assert_eq!(prose.lines().count(), page.lines().count());
    }

    #[test]
    fn each_word_has_a_replacement() {
        for (words, instead) in WORDS {
            assert!(!instead.is_empty(), "{words:?}");
        }
        assert_eq!(instead("told"), "report, show");
    }
}
