//! The operators of substitutions.

use super::glob::{self, Glob};
use super::{MAX_EXPANDED, SubstituteProblem};

/// The longest value that is processed byte by byte, which takes quadratic time.
const MAX_WIDE: usize = 512;

/// An operator, between the name and the closing brace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Value,
    Length,
    Default,
    Cut,
    Case(Case),
    Remove(Remove),
    Replace(Replace),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    FirstUpper,
    Upper,
    FirstLower,
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remove {
    ShortestPrefix,
    LongestPrefix,
    ShortestSuffix,
    LongestSuffix,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    First,
    All,
    Prefix,
    Suffix,
}

/// The operators as written; longer ones first.
pub(super) const OPERATORS: &[(&str, Operator)] = &[
    (":-", Operator::Default),
    (":=", Operator::Default),
    ("=", Operator::Default),
    (":", Operator::Cut),
    ("^^", Operator::Case(Case::Upper)),
    ("^", Operator::Case(Case::FirstUpper)),
    (",,", Operator::Case(Case::Lower)),
    (",", Operator::Case(Case::FirstLower)),
    ("##", Operator::Remove(Remove::LongestPrefix)),
    ("#", Operator::Remove(Remove::ShortestPrefix)),
    ("%%", Operator::Remove(Remove::LongestSuffix)),
    ("%", Operator::Remove(Remove::ShortestSuffix)),
    ("//", Operator::Replace(Replace::All)),
    ("/#", Operator::Replace(Replace::Prefix)),
    ("/%", Operator::Replace(Replace::Suffix)),
    ("/", Operator::Replace(Replace::First)),
];

/// Applies the operator; `expression` is for messages.
pub(super) fn apply(
    operator: Operator,
    name: &str,
    value: &str,
    arguments: &[String],
    expression: &str,
) -> Result<String, SubstituteProblem> {
    let argument = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
    Ok(match operator {
        Operator::Value => value.to_owned(),
        Operator::Length => value.len().to_string(),
        Operator::Default => if value.is_empty() { argument(0) } else { value }.to_owned(),
        Operator::Cut => cut(name, value, arguments, expression)?.to_owned(),
        Operator::Case(case) => change_case(case, value),
        Operator::Remove(remove) => removed(remove, name, value, argument(0), expression)?.to_owned(),
        Operator::Replace(replace) => replaced(replace, value, argument(0), argument(1), expression)?,
    })
}

/// Bytes from an offset, up to a length; a negative length counts from the end.
fn cut<'a>(
    name: &str,
    value: &'a str,
    arguments: &[String],
    expression: &str,
) -> Result<&'a str, SubstituteProblem> {
    let number = |text: &String| {
        text.parse::<i64>().map_err(|_| SubstituteProblem::Malformed {
            expression: expression.to_owned(),
            why: "offset and length must be whole numbers, without spaces",
        })
    };
    let size = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let offset = arguments.first().map(number).transpose()?.unwrap_or_default();
    let from = if offset < 0 {
        (size.saturating_add(offset)).max(0)
    } else {
        offset.min(size)
    };
    let to = match arguments.get(1).map(number).transpose()? {
        None => size,
        Some(length) if length < 0 => size.saturating_add(length).max(from),
        Some(length) => from.saturating_add(length).min(size),
    };
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    range
        .and_then(|(from, to)| value.get(from..to))
        .ok_or_else(|| SubstituteProblem::CutsCharacter {
            name: name.to_owned(),
            expression: expression.to_owned(),
        })
}

fn change_case(case: Case, value: &str) -> String {
    let first = |change: fn(char) -> char| {
        let mut chars = value.chars();
        chars.next().map(change).into_iter().chain(chars).collect()
    };
    match case {
        Case::FirstUpper => first(upper),
        Case::Upper => value.chars().map(upper).collect(),
        Case::FirstLower => first(lower),
        Case::Lower => value.chars().map(lower).collect(),
    }
}

/// Maps characters one to one, as Go does: `ß` stays.
fn upper(c: char) -> char {
    let mut changed = c.to_uppercase();
    changed.next().filter(|_| changed.next().is_none()).unwrap_or(c)
}

/// Only the first of the two characters of `İ`, as in Go.
fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn removed<'a>(
    remove: Remove,
    name: &str,
    value: &'a str,
    pattern: &str,
    expression: &str,
) -> Result<&'a str, SubstituteProblem> {
    if pattern.is_empty() {
        let why = "a pattern is needed";
        return Err(SubstituteProblem::Malformed {
            expression: expression.to_owned(),
            why,
        });
    }
    let unsupported = |form, next| {
        Err(SubstituteProblem::Unsupported {
            form,
            expression: expression.to_owned(),
            next,
        })
    };
    if pattern.chars().count() > glob::MAX_PATTERN {
        return unsupported("a pattern of more than 1000 characters", "use * and ?");
    }
    let is_suffix = matches!(remove, Remove::ShortestSuffix | Remove::LongestSuffix);
    // Flux reverses value and pattern: a class in a suffix pattern counts only if it is one when read from the end.
    let glob = if is_suffix {
        Glob::new(pattern.chars().rev())
    } else {
        Glob::new(pattern.chars())
    };
    let Some(glob) = glob else {
        return if is_suffix {
            unsupported("[ or \\ in the pattern of a suffix", "use * and ?")
        } else {
            unsupported("a [ or \\ that does not end", "write [a-z] or \\[")
        };
    };
    let cuts = || SubstituteProblem::CutsCharacter {
        name: name.to_owned(),
        expression: expression.to_owned(),
    };
    if !value.is_ascii() && glob.counts_characters() {
        if value.len() > MAX_WIDE {
            return unsupported(
                "? or [ for a value of more than 512 bytes that is not all ASCII",
                "use *",
            );
        }
        return without_bytes(remove, value, &glob).ok_or_else(cuts);
    }
    // Flux removes a single byte of a character there, and leaves an incomplete one.
    let taken = match remove {
        Remove::ShortestPrefix => value.chars().next(),
        Remove::ShortestSuffix => value.chars().next_back(),
        Remove::LongestPrefix | Remove::LongestSuffix => None,
    };
    if taken.is_some_and(|c| !c.is_ascii()) && pattern.chars().all(|c| c == '*') {
        return Err(cuts());
    }
    Ok(without(remove, value, &glob))
}

fn is_short(remove: Remove) -> bool {
    matches!(remove, Remove::ShortestPrefix | Remove::ShortestSuffix)
}

/// The same, byte by byte. `None` if a character would be split.
fn without_bytes<'a>(remove: Remove, value: &'a str, glob: &Glob) -> Option<&'a str> {
    let is_prefix = matches!(remove, Remove::ShortestPrefix | Remove::LongestPrefix);
    let turned: String = value.chars().rev().collect();
    let found = glob.beginnings_in_bytes(if is_prefix { value } else { &turned });
    let Some((shortest, longest)) = found else {
        return Some(value);
    };
    let count = if is_short(remove) { shortest } else { longest };
    if is_prefix {
        value.get(count..)
    } else {
        turned.get(count..)?;
        value.get(..value.len() - count)
    }
}

/// As in Flux: an empty prefix or suffix is never removed.
fn without<'a>(remove: Remove, value: &'a str, glob: &Glob) -> &'a str {
    let is_prefix = matches!(remove, Remove::ShortestPrefix | Remove::LongestPrefix);
    let found = if is_prefix {
        glob.beginnings(value.chars())
    } else {
        glob.beginnings(value.chars().rev())
    };
    let Some((shortest, longest)) = found else {
        return value;
    };
    let count = if is_short(remove) { shortest } else { longest };
    let width = |c: char| c.len_utf8();
    if is_prefix {
        &value[value.chars().take(count).map(width).sum()..]
    } else {
        let removed: usize = value.chars().rev().take(count).map(width).sum();
        &value[..value.len() - removed]
    }
}

/// Replaces plain text by plain text.
fn replaced(
    replace: Replace,
    value: &str,
    pattern: &str,
    with: &str,
    expression: &str,
) -> Result<String, SubstituteProblem> {
    let anchored = matches!(replace, Replace::Prefix | Replace::Suffix);
    if anchored && with.is_empty() {
        return Err(SubstituteProblem::Unsupported {
            form: "an empty replacement after /# or /%",
            expression: expression.to_owned(),
            next: "write ${name#text} or ${name%text}",
        });
    }
    if pattern.is_empty() {
        let why = "a text to replace is needed";
        return Err(SubstituteProblem::Malformed {
            expression: expression.to_owned(),
            why,
        });
    }
    // Check before expanding: each byte of the value may become the whole replacement.
    let grown = value.matches(pattern).count().saturating_mul(with.len());
    if replace == Replace::All && grown > MAX_EXPANDED {
        return Err(SubstituteProblem::TooLong);
    }
    Ok(match replace {
        Replace::First => value.replacen(pattern, with, 1),
        Replace::All => value.replace(pattern, with),
        Replace::Prefix => value
            .strip_prefix(pattern)
            .map_or_else(|| value.to_owned(), |rest| format!("{with}{rest}")),
        Replace::Suffix => value
            .strip_suffix(pattern)
            .map_or_else(|| value.to_owned(), |rest| format!("{rest}{with}")),
    })
}
