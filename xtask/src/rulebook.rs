//! The rules of the engine ([`BOOK`]): each names the code that implements it and a test that covers it, and each
//! mention of a rule refers to an existing one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use regex::Regex;

use crate::{Problems, tree};

/// The page with the rules: one heading per rule, so that its name is its anchor (`#rule-1`, `#w1`).
pub const BOOK: &str = "docs/engine.md";

/// The series of rules, and the minimum number of rules in each.
const SERIES: &[(&str, u8)] = &[("Rule ", 15), ("W", 7), ("E", 13), ("EL", 5)];

/// This file is full of mentions of rules that do not exist.
const EXCEPT: &str = "xtask/src/rulebook.rs";

/// Between the words of a mention: spaces, or a line break in a comment.
const GAP: &str = r"(?:\s|//[/!]?)+";

/// Every rule that is missing, names no code or test that exists, and every mention of a rule that does not exist.
pub fn check() -> anyhow::Result<Problems> {
    let read_by = |file: &String| ["rs", "md", "toml"].iter().any(|of| tree::is_of(file, of));
    let files = tree::files()?.into_iter().filter(read_by);
    let texts = files.map(|file| tree::read(&file).map(|text| (file, text)));
    problems(&texts.collect::<anyhow::Result<_>>()?)
}

/// The text of each file, by its path from the top of the repository.
type Texts = BTreeMap<String, String>;

fn problems(texts: &Texts) -> anyhow::Result<Problems> {
    let book = texts.get(BOOK).with_context(|| format!("{BOOK} is missing"))?;
    let rules = rules(book)?;
    let mut problems = missing(&rules);
    for rule in &rules {
        problems.extend(rule.problems(texts));
    }
    problems.extend(unresolved(&rules, book, texts)?);
    Ok(problems)
}

/// A rule in the book. Lines count from 1.
#[derive(Debug, Default)]
struct Rule {
    name: String,
    line: usize,
    /// The code that implements it: line, file.
    code: Vec<(usize, String)>,
    /// The tests that cover it: line, file, function.
    tests: Vec<(usize, String, String)>,
}

/// The list below a rule that a line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum List {
    Code,
    Tests,
}

/// Parses the rules: a third-level heading each, with the items `- Code:` and `- Tests:` in its text, in which each
/// file is followed by the names of its functions.
fn rules(book: &str) -> anyhow::Result<Vec<Rule>> {
    let heading = Regex::new(r"^### ((?:Rule |W|EL|E)\d+)$")?;
    let quoted = Regex::new("`([^`]+)`")?;
    let mut rules: Vec<Rule> = Vec::new();
    let (mut list, mut file, mut open) = (None, String::new(), false);
    for (line, text) in (1..).zip(book.lines()) {
        let name = heading.captures(text).and_then(|found| found.get(1));
        if let Some(name) = name {
            rules.push(Rule {
                name: name.as_str().to_owned(),
                line,
                ..Rule::default()
            });
        }
        // Lists below another heading belong to no rule.
        open = name.is_some() || open && !text.starts_with('#');
        list = match text {
            _ if text.starts_with("- Code:") => Some(List::Code),
            _ if text.starts_with("- Tests:") => Some(List::Tests),
            _ => list.filter(|_| text.starts_with("  ")),
        };
        if text.starts_with("- ") {
            file.clear();
        }
        let (Some(list), Some(rule)) = (list, rules.last_mut().filter(|_| open)) else {
            continue;
        };
        for word in quoted.captures_iter(text).filter_map(|found| found.get(1)) {
            let word = word.as_str().to_owned();
            match list {
                List::Code => rule.code.push((line, word)),
                List::Tests if word.contains('/') => file = word,
                List::Tests => rule.tests.push((line, file.clone(), word)),
            }
        }
    }
    Ok(rules)
}

/// Rules that are missing in the book, or duplicated.
fn missing(rules: &[Rule]) -> Problems {
    let numbers = SERIES.iter().flat_map(|(series, last)| {
        let numbers = 1..=*last;
        numbers.map(move |number| format!("{series}{number}"))
    });
    let absent = numbers
        .filter(|name| rules.iter().all(|rule| rule.name != *name))
        .map(|name| format!("{BOOK}: {name} has no heading"));
    let mut names = BTreeSet::new();
    let twice = rules
        .iter()
        .filter(|rule| !names.insert(&rule.name))
        .map(|rule| format!("{BOOK}:{}: {} has two headings", rule.line, rule.name));
    absent.chain(twice).collect()
}

impl Rule {
    fn problems(&self, texts: &Texts) -> Problems {
        let Self { name, line, .. } = self;
        let mut problems = Problems::new();
        if self.code.is_empty() {
            problems.push(format!("{BOOK}:{line}: {name} names no code that implements it"));
        }
        if self.tests.is_empty() {
            problems.push(format!("{BOOK}:{line}: {name} names no test that covers it"));
        }
        let absent = self.code.iter().filter(|(_, file)| !texts.contains_key(file));
        problems.extend(
            absent.map(|(line, file)| format!("{BOOK}:{line}: {name}: the file {file} does not exist")),
        );
        for (line, file, test) in &self.tests {
            match texts.get(file) {
                None if file.is_empty() => {
                    problems.push(format!(
                        "{BOOK}:{line}: {name}: no file is named before the test {test}"
                    ));
                }
                None => problems.push(format!("{BOOK}:{line}: {name}: the file {file} does not exist")),
                Some(text) if !has_test(text, test) => {
                    problems.push(format!("{BOOK}:{line}: {name}: {file} has no test {test}"));
                }
                Some(_) => {}
            }
        }
        problems
    }
}

/// Whether a source contains this function, with a test attribute.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = [format!("fn {name}("), format!("async fn {name}(")];
    let Some(at) = lines
        .iter()
        .position(|line| declared.iter().any(|start| line.starts_with(start)))
    else {
        return false;
    };
    let above = lines.iter().take(at).rev();
    above
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
}

/// Mentions of rules, and links into the book, whose target does not exist.
fn unresolved(rules: &[Rule], book: &str, texts: &Texts) -> anyhow::Result<Problems> {
    let known: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    let anchors: BTreeSet<String> = book.lines().filter_map(anchor).collect();
    let mentions = Mentions::new()?;
    let mut problems = Problems::new();
    for (file, text) in texts.iter().filter(|(file, _)| *file != EXCEPT) {
        let line = |at: usize| {
            text.get(..at)
                .map_or(1, |before| before.matches('\n').count() + 1)
        };
        for (at, name) in mentions.of_rules(text) {
            if !known.contains(name.as_str()) {
                problems.push(format!("{file}:{}: {name} is not a rule of {BOOK}", line(at)));
            }
        }
        let pattern = if file == BOOK {
            &mentions.within
        } else {
            &mentions.link
        };
        for link in pattern.captures_iter(text).filter_map(|found| found.get(1)) {
            if !anchors.contains(link.as_str()) {
                problems.push(format!(
                    "{file}:{}: {BOOK} has no anchor #{}",
                    line(link.start()),
                    link.as_str()
                ));
            }
        }
    }
    Ok(problems)
}

/// The anchor that GitHub generates for a heading.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title
        .chars()
        .filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

/// Regular expressions for mentions of rules.
struct Mentions {
    /// `rule 4`, `Rules 3, 6 and 12`.
    rules: Regex,
    number: Regex,
    /// `W3`, `E 13`, `EL1`.
    short: Regex,
    /// A link into the book.
    link: Regex,
    /// A link from the book into itself.
    within: Regex,
}

impl Mentions {
    fn new() -> anyhow::Result<Self> {
        let more = format!(r"(?:,{GAP}(?:and{GAP})?|{GAP}(?:and|or|to){GAP})\d+\b");
        Ok(Self {
            rules: Regex::new(&format!(r"(?i)\brules?{GAP}(\d+\b(?:{more})*)"))?,
            number: Regex::new(r"\d+")?,
            short: Regex::new(r"\b(W|EL|E) ?(\d{1,2})\b")?,
            link: Regex::new(r"engine\.md#([\w-]+)")?,
            within: Regex::new(r"\]\(#([\w-]+)\)")?,
        })
    }

    /// Where a text mentions a rule, and the anchor that its heading should have.
    fn of_rules(&self, text: &str) -> Vec<(usize, String)> {
        let lists = self.rules.captures_iter(text).filter_map(|found| found.get(1));
        let numbered = lists.flat_map(|list| {
            let numbers = self.number.find_iter(list.as_str());
            numbers.map(move |number| (list.start() + number.start(), format!("Rule {}", number.as_str())))
        });
        let short = self.short.captures_iter(text).filter_map(|found| {
            let [series, number] = [found.get(1)?, found.get(2)?];
            // An escaped byte of a URL, or the end of a base64 text.
            let escaped = text.get(..series.start())?.ends_with('%');
            let padded = text.get(number.end()..)?.starts_with('=');
            let name = format!("{}{}", series.as_str(), number.as_str());
            (!escaped && !padded).then_some((series.start(), name))
        });
        numbered.chain(short).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "#[test]\nfn it_holds() {}\n\n/// Docs.\n#[tokio::test(start_paused = true)]\nasync fn it_is_awaited() {}\n\nfn helper() {}\n";

    /// A valid book: each rule names one file and two tests.
    fn book() -> String {
        let rule = |name: String| {
            format!(
                "### {name}\n\nText.\n\n- Code: `src/plan.rs`\n- Tests: `tests/plan.rs`: `it_holds`,\n  `it_is_awaited`\n\n"
            )
        };
        let names = SERIES
            .iter()
            .flat_map(|(series, last)| (1..=*last).map(move |number| format!("{series}{number}")));
        names.map(rule).collect()
    }

    /// The problems of a book, and of a source with this text.
    fn found(book: String, source: &str) -> Problems {
        let texts = [
            (BOOK.to_owned(), book),
            ("src/plan.rs".to_owned(), source.to_owned()),
            ("tests/plan.rs".to_owned(), TESTS.to_owned()),
        ];
        problems(&texts.into()).unwrap()
    }

    #[test]
    fn a_mention_resolves_or_is_named_with_its_line() {
        let none: &[&str] = &[];
        for (source, expected) in [
            ("/// Rule 1, rules 3, 6 and 12, Rules 1 to 15.\n", none),
            ("/// W2 to W7 (E13), EL5, W 3.\n", none),
            (
                "\n/// Rule 16: x\n",
                &["src/plan.rs:2: Rule 16 is not a rule of docs/engine.md"],
            ),
            (
                "/// rules 3,\n/// 6 and 21\n",
                &["src/plan.rs:2: Rule 21 is not a rule of docs/engine.md"],
            ),
            (
                "let law = \"E14\";",
                &["src/plan.rs:1: E14 is not a rule of docs/engine.md"],
            ),
            (
                "// W8, EL6",
                &[
                    "src/plan.rs:1: W8 is not a rule of docs/engine.md",
                    "src/plan.rs:1: EL6 is not a rule of docs/engine.md",
                ],
            ),
            // Texts that are not mentions.
            (
                "// E2E99, W3C, 1E99, e99, ruler 99, overrule 99, rule of 99, `W10=`, %E80",
                none,
            ),
            ("// docs/engine.md#rule-1 and engine.md#el5", none),
            (
                "// docs/engine.md#rule-16",
                &["src/plan.rs:1: docs/engine.md has no anchor #rule-16"],
            ),
        ] {
            assert_eq!(found(book(), source), expected, "{source}");
        }
    }

    #[test]
    fn a_rule_has_code_and_tests_that_exist() {
        for (from, to, expected) in [
            (
                "- Code: `src/plan.rs`\n",
                "",
                "docs/engine.md:1: Rule 1 names no code that implements it",
            ),
            (
                "`src/plan.rs`",
                "`src/gone.rs`",
                "docs/engine.md:5: Rule 1: the file src/gone.rs does not exist",
            ),
            (
                "`tests/plan.rs`: `it_holds`,\n  `it_is_awaited`",
                "",
                "docs/engine.md:1: Rule 1 names no test that covers it",
            ),
            (
                "`tests/plan.rs`: `it_holds`,\n  `it_is_awaited`",
                "`tests/gone.rs`: `it_holds`",
                "docs/engine.md:6: Rule 1: the file tests/gone.rs does not exist",
            ),
            (
                "  `it_is_awaited`",
                "  `it_is`",
                "docs/engine.md:7: Rule 1: tests/plan.rs has no test it_is",
            ),
            (
                "`tests/plan.rs`: `it_holds`,\n  `it_is_awaited`",
                "`it_holds`",
                "docs/engine.md:6: Rule 1: no file is named before the test it_holds",
            ),
            (
                "`it_holds`",
                "`helper`",
                "docs/engine.md:6: Rule 1: tests/plan.rs has no test helper",
            ),
        ] {
            assert_eq!(found(book().replacen(from, to, 1), ""), [expected]);
        }
    }

    #[test]
    fn no_rule_is_missing_or_twice() {
        let without = book().replacen("### EL5\n", "### Something else\n", 1);
        assert_eq!(found(without, ""), ["docs/engine.md: EL5 has no heading"]);
        let line = book().lines().count() + 1;
        let again = format!(
            "{}### W1\n\n- Code: `src/plan.rs`\n- Tests: `tests/plan.rs`: `it_holds`\n",
            book()
        );
        assert_eq!(
            found(again, ""),
            [format!("docs/engine.md:{line}: W1 has two headings")]
        );
    }
}
