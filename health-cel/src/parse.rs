//! Parses an expression within its limits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use cel::{
    IdedExpr,
    common::ast::{CallExpr, EntryExpr, Expr},
    parser::Parser,
};

use crate::{
    MAX_COMPREHENSIONS, MAX_DEPTH, MAX_LENGTH, Problem,
    fault::Fault,
    functions::{self, CONVERSIONS, NAMESPACES, is_function, is_method},
    value::{self, Value},
};

/// The parser uses about ten stack frames for each level, and at most a quarter of the bytes of the longest text are
/// levels that [`prepare`] does not count (`a?b:a?b:…`).
const STACK: usize = 32 * 1024 * 1024;

/// Reserved words, which cannot be names.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// Size of the cache: the expressions of thirty packages with the maximum number of expressions.
const KEPT: usize = 1_000;

/// Cache of parsed expressions. The same few are used by each decision about a module and each run of a Kustomization,
/// and parsing takes longer than an evaluation.
static PARSED: Mutex<BTreeMap<String, Arc<IdedExpr>>> = Mutex::new(BTreeMap::new());

fn parsed() -> MutexGuard<'static, BTreeMap<String, Arc<IdedExpr>>> {
    PARSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parsed expression, from the cache if possible.
pub(crate) fn parse(text: &str) -> Result<Arc<IdedExpr>, Problem> {
    if let Some(tree) = parsed().get(text) {
        return Ok(Arc::clone(tree));
    }
    let tree = Arc::new(parse_uncached(text)?);
    let mut kept = parsed();
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(text.to_owned(), Arc::clone(&tree));
    Ok(tree)
}

fn parse_uncached(text: &str) -> Result<IdedExpr, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if text.len() > MAX_LENGTH {
        return Err(Problem::TooLong(text.len()));
    }
    let (prepared, brackets) = prepare(text);
    if brackets > MAX_DEPTH {
        return Err(Problem::TooDeep);
    }
    thread::scope(|scope| {
        let parser = || Parser::new().enable_optional_syntax(true).parse(&prepared);
        let worker = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, move || {
                let parsed = parser().map_err(|errors| Problem::Syntax(first_line(&errors.to_string())))?;
                check(&parsed).map(|()| parsed)
            });
        let worker = worker.map_err(|error| Problem::Syntax(error.to_string()))?;
        worker
            .join()
            .unwrap_or_else(|_| Err(Problem::Syntax("the parser failed".to_owned())))
    })
}

/// The first line of the parser's errors, without the copy of the expression and without the list of expected tokens.
fn first_line(errors: &str) -> String {
    let line = errors.lines().next().unwrap_or_default();
    let line = line.trim_start_matches("ERROR: <input>:");
    let line = line.split(" expecting {").next().unwrap_or_default();
    line.replace("Syntax error: ", "")
}

/// Returns the text for the parser, and the nesting depth of its brackets outside of strings.
///
/// The parser reads an even number of `!` or `-` before a value as one of them: an odd number is reduced to one, an
/// even number to none.
fn prepare(text: &str) -> (String, usize) {
    let mut out: Vec<char> = text.chars().collect();
    let (mut depth, mut deepest) = (0_usize, 0);
    // The word before a quote, which may be a prefix of the string; and whether a `-` would be binary.
    let (mut word, mut is_binary) = (String::new(), false);
    let mut at = 0;
    while let Some(&character) = out.get(at) {
        match character {
            '\'' | '"' => {
                at = end_of_string(&out, at, word.contains(['r', 'R']));
                is_binary = true;
            }
            '/' if out.get(at + 1) == Some(&'/') => {
                while out.get(at + 1).is_some_and(|next| *next != '\n') {
                    at += 1;
                }
            }
            '(' | '[' | '{' => {
                depth += 1;
                deepest = deepest.max(depth);
                is_binary = false;
            }
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                is_binary = true;
            }
            '!' | '-' => {
                let run = run(&out, at);
                let last = run.last().copied().unwrap_or(at);
                let before = usize::from(character == '-' && is_binary);
                let signs = run.get(before..).unwrap_or_default();
                // In `a != b` it is not a negation.
                if out.get(last + 1) != Some(&'=') {
                    for index in signs.iter().skip(signs.len() % 2) {
                        out[*index] = ' ';
                    }
                }
                at = last;
                is_binary = false;
            }
            _ if character.is_whitespace() => {}
            _ => is_binary = character.is_alphanumeric() || matches!(character, '_' | '.' | '`'),
        }
        if character.is_alphanumeric() {
            word.push(character);
        } else {
            word.clear();
        }
        at += 1;
    }
    (out.into_iter().collect(), deepest)
}

/// Positions of the run of the same sign from here on, with only white space in between.
fn run(text: &[char], from: usize) -> Vec<usize> {
    let rest = text.iter().enumerate().skip(from);
    let rest = rest.take_while(|(_, character)| character.is_whitespace() || **character == text[from]);
    rest.filter(|(_, character)| !character.is_whitespace())
        .map(|(at, _)| at)
        .collect()
}

/// The end of the string that starts here.
fn end_of_string(text: &[char], from: usize, raw: bool) -> usize {
    let mut at = from + 1;
    while let Some(character) = text.get(at) {
        if *character == text[from] {
            break;
        }
        at += if *character == '\\' && !raw { 2 } else { 1 };
    }
    at
}

/// Rejects a conversion of a constant, or a pattern, that fails for every object.
fn constant(call: &CallExpr, name: &str) -> Result<(), Problem> {
    let part = match call.args.as_slice() {
        [.., pattern] if name == "matches" => pattern,
        [part] if CONVERSIONS.contains(&name) && call.target.is_none() => part,
        _ => return Ok(()),
    };
    let Some(part) = literal(part) else {
        return Ok(());
    };
    let value = match name {
        "matches" => functions::pattern(&part).map(|_| ()),
        _ => functions::convert(name, &part).map(|_| ()),
    };
    match value {
        Err(Fault::NoValue(message)) => Err(Problem::Syntax(message)),
        _ => Ok(()),
    }
}

fn literal(expression: &IdedExpr) -> Option<Value> {
    match &expression.expr {
        Expr::Literal(literal) => Some(value::constant(literal)),
        Expr::List(list) => {
            let elements = list.elements.iter();
            elements.map(literal).collect::<Option<_>>().map(Value::list)
        }
        _ => None,
    }
}

fn check(root: &IdedExpr) -> Result<(), Problem> {
    // Uses an explicit list instead of recursion: the tree is not yet known to be shallow.
    let mut rest = vec![(root, 1_usize, 0_usize)];
    while let Some((expression, depth, loops)) = rest.pop() {
        if depth > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        let mut next = |expression, loops| rest.push((expression, depth + 1, loops));
        match &expression.expr {
            Expr::Call(call) => {
                let namespace = call.target.as_deref().and_then(|target| match &target.expr {
                    Expr::Ident(name) if NAMESPACES.contains(&name.as_str()) => Some(name.as_str()),
                    _ => None,
                });
                let name = namespace.map_or_else(
                    || call.func_name.clone(),
                    |namespace| format!("{namespace}.{}", call.func_name),
                );
                let known = if call.target.is_some() && namespace.is_none() {
                    is_method(&name)
                } else {
                    is_function(&name)
                };
                if !known {
                    return Err(Problem::UnknownFunction(name));
                }
                constant(call, &name)?;
                let target = call.target.as_deref();
                target
                    .into_iter()
                    .chain(&call.args)
                    .for_each(|part| next(part, loops));
            }
            Expr::Comprehension(comprehension) => {
                if loops == MAX_COMPREHENSIONS {
                    return Err(Problem::TooManyComprehensions);
                }
                next(&comprehension.iter_range, loops);
                for part in [
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    next(part, loops + 1);
                }
            }
            Expr::List(list) => list.elements.iter().for_each(|part| next(part, loops)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(entry) => {
                            next(&entry.key, loops);
                            next(&entry.value, loops);
                        }
                        EntryExpr::StructField(_) => return Err(Problem::Message),
                    }
                }
            }
            Expr::Select(select) => next(&select.operand, loops),
            Expr::Struct(_) => return Err(Problem::Message),
            Expr::Ident(name) if RESERVED.contains(&name.as_str()) => {
                return Err(Problem::Syntax(format!("{name} is a reserved word")));
            }
            Expr::Ident(_) | Expr::Literal(_) => {}
            Expr::Unspecified => return Err(Problem::Syntax("a part is missing".to_owned())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_parsed_once_and_not_all_are_kept() {
        let tree = parse("status.phase == 'Running'").ok();
        let again = parse("status.phase == 'Running'").ok();
        assert!(tree.is_some() && tree.zip(again).is_some_and(|(a, b)| Arc::ptr_eq(&a, &b)));
        for index in 0..=KEPT {
            assert!(parse(&format!("{index}")).is_ok());
        }
        assert!((1..=KEPT).contains(&parsed().len()));
    }
}
