//! Parses `$(NAME)` in a text; `$$(` is an escaped `$(`.

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Literal text.
    Text(&'a str),
    /// A variable by name.
    Name(&'a str),
}

/// `$(` that is not followed by a name and `)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unterminated;

/// Splits a text into parts. A `$` that begins neither form is an ordinary character.
pub fn template_parts(text: &str) -> Result<Vec<Part<'_>>, Unterminated> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("$(") {
        let escaped = rest[..at].ends_with('$');
        if escaped {
            // "…$" + "$(": the first `$` is the escape, and what it escapes is text.
            push(&mut parts, &rest[..at - 1]);
            push(&mut parts, &rest[at..at + 2]);
            rest = &rest[at + 2..];
            continue;
        }
        let inner = &rest[at + 2..];
        let end = inner.find(')').filter(|end| *end > 0).ok_or(Unterminated)?;
        push(&mut parts, &rest[..at]);
        parts.push(Part::Name(&inner[..end]));
        rest = &inner[end + 1..];
    }
    push(&mut parts, rest);
    Ok(parts)
}

fn push<'a>(parts: &mut Vec<Part<'a>>, text: &'a str) {
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Part::{Name, Text},
        *,
    };

    fn check(text: &str, expect: &Result<Vec<Part<'_>>, Unterminated>) {
        assert_eq!(&template_parts(text), expect, "{text}");
    }

    #[test]
    fn texts_and_names() {
        check("", &Ok(vec![]));
        check("plain $HOME $ ${X} $", &Ok(vec![Text("plain $HOME $ ${X} $")]));
        check("$(A)", &Ok(vec![Name("A")]));
        check(
            "a-$(A).$(B)c",
            &Ok(vec![Text("a-"), Name("A"), Text("."), Name("B"), Text("c")]),
        );
        check("$$(A)", &Ok(vec![Text("$("), Text("A)")]));
        check(
            "x$$(A)$(B)",
            &Ok(vec![Text("x"), Text("$("), Text("A)"), Name("B")]),
        );
        check("$$$(A)", &Ok(vec![Text("$"), Text("$("), Text("A)")]));
        check(
            "$(CLUSTER_LABEL_topology.kubernetes.io/zone)",
            &Ok(vec![Name("CLUSTER_LABEL_topology.kubernetes.io/zone")]),
        );
        check("ä$(A)ö", &Ok(vec![Text("ä"), Name("A"), Text("ö")]));
        check("$(A", &Err(Unterminated));
        check("$()", &Err(Unterminated));
    }
}
