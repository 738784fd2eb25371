//! What the operators do to a value.

use super::SubstituteProblem;
use super::glob::{self, Glob};

/// What stands between a name and the closing brace.
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

/// How they are written; longer ones first.
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

/// The result; `expression` is for messages.
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
        Operator::Remove(remove) => removed(remove, value, argument(0), expression)?.to_owned(),
        Operator::Replace(replace) => replaced(replace, value, argument(0), argument(1), expression)?,
    })
}

/// Bytes from an offset, at most so many; a negative length counts from the end.
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

/// One character for one, as Go has it: `ß` stays.
fn upper(c: char) -> char {
    let mut changed = c.to_uppercase();
    changed.next().filter(|_| changed.next().is_none()).unwrap_or(c)
}

fn lower(c: char) -> char {
    let mut changed = c.to_lowercase();
    changed.next().filter(|_| changed.next().is_none()).unwrap_or(c)
}

fn removed<'a>(
    remove: Remove,
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
    let Some(glob) = Glob::new(pattern) else {
        return Err(SubstituteProblem::Unsupported {
            form: "[ or \\ in a pattern",
            expression: expression.to_owned(),
            next: "use * and ? only",
        });
    };
    // As Flux: an empty prefix or suffix is never taken.
    let mut ends = glob::boundaries(value).filter(|end| match remove {
        Remove::ShortestPrefix | Remove::LongestPrefix => *end > 0 && glob.matches(&value[..*end]),
        Remove::ShortestSuffix | Remove::LongestSuffix => *end < value.len() && glob.matches(&value[*end..]),
    });
    Ok(match remove {
        Remove::ShortestPrefix => ends.next().map_or(value, |end| &value[end..]),
        Remove::LongestPrefix => ends.last().map_or(value, |end| &value[end..]),
        Remove::ShortestSuffix => ends.last().map_or(value, |end| &value[..end]),
        Remove::LongestSuffix => ends.next().map_or(value, |end| &value[..end]),
    })
}

/// Plain text for plain text.
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
    if !anchored && pattern.is_empty() {
        let why = "a text to replace is needed";
        return Err(SubstituteProblem::Malformed {
            expression: expression.to_owned(),
            why,
        });
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
