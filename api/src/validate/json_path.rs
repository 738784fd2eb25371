//! Restricts JSONPath (RFC 9535) to expressions that walk through a response once, whatever the response contains.
//!
//! In the full language a short path can take time that grows with a high power of the size of the response: through
//! unions, nested descendant segments, and filters that start at the root. A gate reads a value, and needs none of
//! these.

use jsonpath_rust::parser::{
    model::{Comparable, Comparison, Filter, FilterAtom, JpQuery, Segment, Selector, Test},
    parse_json_path,
};

use crate::schema;

/// Maximum number of segments of a path. Queries of monitoring systems need about five.
const MAX_SEGMENTS: usize = 16;
/// Maximum nesting of brackets and parentheses. The parser recurses for each level, and tries up to three alternatives.
const MAX_NESTING: usize = 8;

/// Why a JSONPath is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// Not a JSONPath.
    #[error("{0:?} is not a valid JSONPath (RFC 9535): write one such as $.data.result[0].value[1]")]
    Syntax(String),
    /// Too long, or nested too deeply.
    #[error(
        "a JSONPath has at most {max} bytes, {MAX_SEGMENTS} parts, and brackets and parentheses {MAX_NESTING} deep",
        max = schema::MAX_PATH
    )]
    TooLarge,
    /// Several selectors in one pair of brackets.
    #[error("a bracket of a gate's JSONPath must contain only one selector: write a gate for each value")]
    Union,
    /// More than one descendant segment.
    #[error("a gate's JSONPath may contain `..` only once, and not in a filter")]
    Descents,
    /// An unsupported filter.
    #[error(
        "a filter of a gate's JSONPath may only compare values and paths of names and indexes that begin with @: no functions, no other paths"
    )]
    Filter,
}

/// Parses the path and checks that it is supported.
pub fn json_path(text: &str) -> Result<JpQuery, JsonPathError> {
    if text.len() > schema::MAX_PATH || nesting(text) > MAX_NESTING {
        return Err(JsonPathError::TooLarge);
    }
    let path = parse_json_path(text).map_err(|_| JsonPathError::Syntax(text.to_owned()))?;
    if path.segments.len() > MAX_SEGMENTS {
        return Err(JsonPathError::TooLarge);
    }
    let descents = path
        .segments
        .iter()
        .filter(|segment| matches!(segment, Segment::Descendant(_)));
    if descents.count() > 1 {
        return Err(JsonPathError::Descents);
    }
    path.segments.iter().try_for_each(segment)?;
    Ok(path)
}

/// The nesting depth of brackets and parentheses, including those in quotes.
fn nesting(text: &str) -> usize {
    let mut depth: usize = 0;
    let depths = text.bytes().map(|byte| {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth
    });
    depths.max().unwrap_or(0)
}

fn segment(segment: &Segment) -> Result<(), JsonPathError> {
    match segment {
        Segment::Descendant(inner) => self::segment(inner),
        Segment::Selector(Selector::Filter(filter)) => self::filter(filter),
        Segment::Selector(
            Selector::Name(_) | Selector::Wildcard | Selector::Index(_) | Selector::Slice(..),
        ) => Ok(()),
        Segment::Selectors(_) => Err(JsonPathError::Union),
    }
}

fn filter(filter: &Filter) -> Result<(), JsonPathError> {
    match filter {
        Filter::Or(parts) | Filter::And(parts) => parts.iter().try_for_each(self::filter),
        Filter::Atom(FilterAtom::Filter { expr, not: _ }) => self::filter(expr),
        Filter::Atom(FilterAtom::Test { expr, not: _ }) => match &**expr {
            Test::RelQuery(segments) if segments.iter().all(is_singular) => Ok(()),
            Test::RelQuery(_) | Test::AbsQuery(_) | Test::Function(_) => Err(JsonPathError::Filter),
        },
        Filter::Atom(FilterAtom::Comparison(comparison)) => compared(comparison),
    }
}

fn is_singular(segment: &Segment) -> bool {
    matches!(segment, Segment::Selector(Selector::Name(_) | Selector::Index(_)))
}

fn compared(comparison: &Comparison) -> Result<(), JsonPathError> {
    let (left, right) = comparison.vals();
    let taken = |side: &Comparable| match side {
        Comparable::Literal(_) | Comparable::SingularQuery(_) => true,
        Comparable::Function(_) => false,
    };
    if taken(left) && taken(right) {
        Ok(())
    } else {
        Err(JsonPathError::Filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&JsonPathError>) {
        assert_eq!(json_path(text).err().as_ref(), expect, "{text}");
    }

    #[test]
    fn what_walks_once_through_an_answer_is_taken() {
        for taken in [
            "$",
            "$.data.result[0].value[1]",
            "$['data'][\"result\"][-1].value[1]",
            "$.data.result[*].value[1]",
            "$..value",
            "$.items[1:3].x",
            "$.conditions[?@.type=='Ready'].status",
            "$.conditions[?(@.type == 'Ready' && !(@.old) || @.n[0] >= 3)].status",
            "$.data.result[?@.metric.job=='a(b[c'].value[1]",
        ] {
            check(taken, None);
        }
    }

    #[test]
    fn what_takes_a_power_of_an_answers_size_is_not() {
        for union in ["$[0,1]", "$[*,*][*,*]", "$..[0,0]"] {
            check(union, Some(&JsonPathError::Union));
        }
        check("$..a..b", Some(&JsonPathError::Descents));
        for filter in [
            "$[?length(@.a) > 3]",
            "$[?match(@.a, @.b)]",
            "$[?search(@.a, '(a{100}){100}')]",
            "$[?$.a]",
            "$[?@..a]",
            "$[?@[*]]",
            "$[?@[?@.a]]",
            "$[?count(@[*]) == 1]",
        ] {
            check(filter, Some(&JsonPathError::Filter));
        }
        let long = format!("${}", ".a".repeat(17));
        let deep = format!("$[?{}@.a{}]", "(".repeat(8), ")".repeat(8));
        let open = format!("${}", "[?(".repeat(300));
        let calls = format!("$[?{}", "length(".repeat(140));
        for large in [&long, &deep, &open, &calls, &"$".repeat(1025)] {
            check(large, Some(&JsonPathError::TooLarge));
        }
    }

    #[test]
    fn what_is_no_path() {
        for text in [
            "",
            "data.result",
            "/data/result",
            "$.",
            "$[",
            "$[?]",
            "$[01]",
            "{.status}",
        ] {
            check(text, Some(&JsonPathError::Syntax(text.to_owned())));
        }
    }
}
