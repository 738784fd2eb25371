//! The text that people read in Rust source: comments and string literals, each at its position.
//! Placeholders of format strings are code.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Span, TokenStream, TokenTree};

/// A source in which everything but prose is replaced: code by `·`, comment markers and inline code by spaces. Lines
/// stay lines, so that a position in the result has the line number of the source.
///
/// A string literal without white space is a name or a key, not prose.
///
/// # Errors
/// The source is not Rust.
pub fn of_source(source: &str) -> anyhow::Result<String> {
    let tokens = TokenStream::from_str(source).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut code = Vec::new();
    collect_code(tokens, source, &mut code);
    code.sort_by_key(|range| range.start);
    let mut prose = String::with_capacity(source.len());
    let mut end = 0;
    for range in code {
        if range.start < end {
            continue;
        }
        prose.push_str(&comments(&source[end..range.start]));
        prose.extend(source[range.clone()].chars().map(blank));
        end = range.end;
    }
    prose.push_str(&comments(&source[end..]));
    Ok(prose)
}

/// The byte ranges of all tokens that are neither comments nor texts.
fn collect_code(tokens: TokenStream, source: &str, code: &mut Vec<Range<usize>>) {
    let mut keep = |span: Span| {
        let range = span.byte_range();
        let text = &source[range.clone()];
        if !is_comment(text) && !is_text(text) {
            code.push(range);
        }
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            // The attribute that a doc comment is: its brackets have the first and last letter as their spans.
            TokenTree::Group(group) if is_comment(&source[group.span().byte_range()]) => {}
            TokenTree::Group(group) => {
                keep(group.span_open());
                keep(group.span_close());
                groups.push(group.stream());
            }
            other => keep(other.span()),
        }
    }
    for group in groups {
        collect_code(group, source, code);
    }
}

/// Doc comments are tokens, whose span is that of the comment.
fn is_comment(token: &str) -> bool {
    token.starts_with("//") || token.starts_with("/*")
}

fn is_text(token: &str) -> bool {
    let quoted = token.trim_start_matches(['b', 'c', 'r', '#']);
    quoted.starts_with('"') && quoted.contains(char::is_whitespace)
}

const fn blank(letter: char) -> char {
    if letter == '\n' { '\n' } else { '·' }
}

/// Without markers of comments, and without inline code and placeholders (`{name:?}`).
fn comments(text: &str) -> String {
    let mut is_code = false;
    let mut is_placeholder = false;
    let lines = text.split('\n').map(|line| {
        let trimmed = line.trim_start();
        let marker = ["///", "//!", "//"]
            .into_iter()
            .find(|marker| trimmed.starts_with(marker));
        let body = marker.map_or(trimmed, |marker| &trimmed[marker.len()..]);
        let indent = line.len() - body.len();
        let body = body.chars().map(|letter| {
            is_code ^= letter == '`';
            is_placeholder = letter == '{' || is_placeholder && !(letter == '}' || letter.is_whitespace());
            if is_code || is_placeholder { '·' } else { letter }
        });
        " ".repeat(indent).chars().chain(body).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_stay_where_they_were_and_code_goes() {
        let source = "//! About `it`.\n// Plain\nfn seen() -> &'static str {\n    /* in a block */\n    \
                      f(\"two words\", \"key\", r#\"raw text\"#) // end\n}\n";
        let prose = of_source(source).unwrap();
        let words: Vec<&str> = prose
            .split(|letter: char| letter.is_whitespace() || letter == '·')
            .filter(|word| !word.is_empty())
            .collect();
        assert_eq!(
            words,
            [
                "About", "`.", "Plain", "/*", "in", "a", "block", "*/", "\"two", "words\"", "r#\"raw",
                "text\"#", "end"
            ]
        );
        assert_eq!(prose.lines().count(), source.lines().count());
    }
}
