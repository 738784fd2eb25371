//! The syntax: `$$`, `${name}`, `${name<operator>…}`.

use super::operation::{self, Operator};
use super::{MAX_EXPANDED, SubstituteProblem, Variables, is_name};

/// Maximum depth of nested substitutions.
const MAX_DEPTH: usize = 10;

/// A text with its substitutions expanded.
///
/// | | | | |
/// |---|---|---|---|
/// | `$$` | `$` | `${v:-d}` `${v:=d}` `${v=d}` | `d` if `v` is empty or not set |
/// | `${v}` | the value | `${v:o}` `${v:o:l}` | bytes from `o`, at most `l` |
/// | `${#v}` | its length in bytes | `${v#p}` `${v##p}` | without the shortest, longest prefix `p` |
/// | `${v^}` `${v^^}` | first, all upper case | `${v%p}` `${v%%p}` | the same for suffixes |
/// | `${v,}` `${v,,}` | first, all lower case | `${v/a/b}` `${v//a/b}` `${v/#a/b}` `${v/%a/b}` | `b` for the first, each, leading, trailing `a` |
pub fn expand(text: &str, variables: &Variables) -> Result<String, SubstituteProblem> {
    let mut parser = Parser {
        rest: text,
        variables,
        depth: 0,
    };
    let mut expanded = String::with_capacity(text.len());
    while let Some(dollar) = parser.rest.find('$') {
        expanded.push_str(parser.take(dollar));
        if parser.eat("$$") {
            expanded.push('$');
        } else if parser.rest.starts_with("${") {
            append(&mut expanded, &parser.substitution()?)?;
        } else {
            expanded.push_str(parser.take(1));
        }
    }
    expanded.push_str(parser.rest);
    Ok(expanded)
}

/// Where an argument ends, and which escapes it has.
#[derive(Clone, Copy)]
struct Until {
    /// The end of the argument, in addition to `}`.
    end: Option<char>,
    /// Whether `\/`, `\\` and `$$` represent the second character.
    escapes: bool,
}

struct Parser<'a> {
    rest: &'a str,
    variables: &'a Variables,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// `${…}`, followed by the rest of the text.
    fn substitution(&mut self) -> Result<String, SubstituteProblem> {
        let start = self.rest;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SubstituteProblem::TooDeep(MAX_DEPTH));
        }
        self.take(2);
        let is_length = self.eat("#");
        let name = self.name(start)?;
        let operator = if is_length {
            Operator::Length
        } else {
            self.operator(start)?
        };
        let arguments = self.arguments(operator, start)?;
        if !self.eat("}") {
            return Err(malformed(
                start,
                "the closing } is missing, or there is text before it",
            ));
        }
        self.depth -= 1;
        let expression = &start[..start.len() - self.rest.len()];
        let value = self.variables.get(name);
        if value.is_none() && operator != Operator::Default {
            return Err(SubstituteProblem::Unknown {
                name: name.to_owned(),
                known: self.variables.names(),
            });
        }
        operation::apply(operator, name, value.unwrap_or_default(), &arguments, expression)
    }

    fn name(&mut self, start: &str) -> Result<&'a str, SubstituteProblem> {
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        let name = self.take(end);
        if is_name(name) {
            Ok(name)
        } else {
            Err(malformed(start, "a name is needed after ${"))
        }
    }

    fn operator(&mut self, start: &str) -> Result<Operator, SubstituteProblem> {
        let unsupported = |form, next| {
            let expression = excerpt(start).to_owned();
            Err(SubstituteProblem::Unsupported {
                form,
                expression,
                next,
            })
        };
        for (form, next) in [
            (":+", "set a variable for the other value"),
            (":?", "a variable without default is an error anyway"),
            ("-", "write :- for a default"),
            ("+", "set a variable for the other value"),
            ("?", "a variable without default is an error anyway"),
            ("@", "set a variable for the other value"),
            ("[", "there are no arrays"),
        ] {
            if self.rest.starts_with(form) {
                return unsupported(form, next);
            }
        }
        for (form, operator) in operation::OPERATORS {
            if self.eat(form) {
                return Ok(*operator);
            }
        }
        Ok(Operator::Value)
    }

    fn arguments(&mut self, operator: Operator, start: &str) -> Result<Vec<String>, SubstituteProblem> {
        let plain = |end| Until { end, escapes: false };
        let slash = |end| Until { end, escapes: true };
        Ok(match operator {
            Operator::Value | Operator::Length | Operator::Case(_) => Vec::new(),
            Operator::Default | Operator::Remove(_) => vec![self.argument(plain(None), start)?],
            Operator::Cut => {
                let mut both = vec![self.argument(plain(Some(':')), start)?];
                if self.eat(":") {
                    both.push(self.argument(plain(None), start)?);
                }
                both
            }
            Operator::Replace(_) => {
                let pattern = self.argument(slash(Some('/')), start)?;
                if !self.eat("/") {
                    return Err(malformed(start, "a second / is needed"));
                }
                vec![pattern, self.argument(slash(None), start)?]
            }
        })
    }

    /// Expands the text up to the end of the argument.
    fn argument(&mut self, until: Until, start: &str) -> Result<String, SubstituteProblem> {
        let mut argument = String::new();
        loop {
            let Some(c) = self.rest.chars().next() else {
                return Err(malformed(start, "the closing } is missing"));
            };
            if c == '}' || Some(c) == until.end {
                return Ok(argument);
            }
            if until.escapes
                && [r"\/", r"\\", "$$"]
                    .iter()
                    .any(|escape| self.rest.starts_with(escape))
            {
                self.take(1);
                argument.push_str(self.take(1));
            } else if self.rest.starts_with("$$") {
                let expression = excerpt(start).to_owned();
                let next = "set a variable for the text";
                return Err(SubstituteProblem::Unsupported {
                    form: "$$ within ${}",
                    expression,
                    next,
                });
            } else if self.rest.starts_with("${") {
                append(&mut argument, &self.substitution()?)?;
            } else {
                argument.push_str(self.take(c.len_utf8()));
            }
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

/// Appends the result of a substitution, within the limit.
fn append(text: &mut String, made: &str) -> Result<(), SubstituteProblem> {
    if text.len().saturating_add(made.len()) > MAX_EXPANDED {
        return Err(SubstituteProblem::TooLong);
    }
    text.push_str(made);
    Ok(())
}

fn malformed(start: &str, why: &'static str) -> SubstituteProblem {
    SubstituteProblem::Malformed {
        expression: excerpt(start).to_owned(),
        why,
    }
}

/// The expression for a message: up to its first closing brace, and at most 60 characters.
fn excerpt(start: &str) -> &str {
    let end = start.find('}').map_or(start.len(), |brace| brace + 1);
    let cut = start
        .char_indices()
        .nth(60)
        .map_or(start.len(), |(index, _)| index);
    &start[..end.min(cut)]
}
