//! Prints objects as YAML that kubectl reads back unchanged.
//!
//! YAML printers quote what YAML 1.2 would misread; kubectl reads YAML 1.1, where `no`, `1_000` and `0b1` are not
//! strings either.
//!
//! Invariant: the output reads back as the same value, by the rules of [`crate::yaml`]; keys are sorted.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::Manifest;
use crate::yaml;

/// The objects as one `List`, in the given order.
pub fn as_list(manifests: &[Manifest]) -> Value {
    let items: Vec<&Value> = manifests.iter().map(|manifest| &manifest.object).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// A value as YAML, with a trailing newline.
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => mapping(&mut text, fields, 0),
        Value::Array(items) if !items.is_empty() => sequence(&mut text, items, 0),
        scalar => {
            inline(&mut text, scalar, 0);
        }
    }
    text
}

/// Each key on its own line; the first one at the current position.
fn mapping(text: &mut String, fields: &Map<String, Value>, indent: usize) {
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            margin(text, indent);
        }
        text.push_str(&scalar(key));
        text.push(':');
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                text.push('\n');
                margin(text, indent + 2);
                mapping(text, fields, indent + 2);
            }
            // As kubectl does: a list is indented as deep as its key.
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                margin(text, indent);
                sequence(text, items, indent);
            }
            value => {
                text.push(' ');
                inline(text, value, indent + 2);
            }
        }
    }
}

fn sequence(text: &mut String, items: &[Value], indent: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            margin(text, indent);
        }
        text.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => mapping(text, fields, indent + 2),
            Value::Array(items) if !items.is_empty() => sequence(text, items, indent + 2),
            item => inline(text, item, indent + 2),
        }
    }
}

/// A value without children: the rest of the line, or a block of several lines.
fn inline(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(string) if is_block(string) => block(text, string, indent),
        Value::String(string) => {
            text.push_str(&scalar(string));
            text.push('\n');
        }
        other => {
            // `null`, `true`, numbers, `{}` and `[]` are the same in JSON and YAML. Writing to a String cannot fail.
            let _ = writeln!(text, "{other}");
        }
    }
}

/// Text of several printable lines is written as a block.
fn is_block(string: &str) -> bool {
    string.trim_end_matches('\n').contains('\n')
        && !string.starts_with([' ', '\t', '\n'])
        && string.chars().all(|c| c == '\n' || c == '\t' || is_printable(c))
}

fn block(text: &mut String, string: &str, indent: usize) {
    let body = string.trim_end_matches('\n');
    text.push_str(match string.len() - body.len() {
        0 => "|-\n",
        1 => "|\n",
        _ => "|+\n",
    });
    for line in string.strip_suffix('\n').unwrap_or(string).split('\n') {
        if !line.is_empty() {
            margin(text, indent);
            text.push_str(line);
        }
        text.push('\n');
    }
}

fn margin(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// A string on one line: plain if it certainly reads back as that string, otherwise double-quoted.
fn scalar(string: &str) -> String {
    if is_plain(string) {
        return string.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in string.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_printable(c) => quoted.push(c),
            // Writing to a String cannot fail.
            c => {
                let _ = match u32::from(c) {
                    code @ ..=0xff => write!(quoted, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(quoted, "\\u{code:04x}"),
                    code => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Words, paths, images and the like that our parser, which follows kubectl, reads back as the same string.
fn is_plain(string: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./@+$".contains(c);
    let mut chars = string.chars().peekable();
    let Some(first) = chars.next() else { return false };
    let mut ordinary =
        safe(first) && first != '@' && !string.starts_with("---") && !string.starts_with("...");
    while let Some(c) = chars.next() {
        // A colon ends a key only before a space or the end of the line, but some parsers read numbers with colons as a
        // time; a space is plain only between other characters.
        let inside = chars.peek().is_some_and(|next| safe(*next));
        ordinary &= safe(c) || (c == ':' && inside && first.is_ascii_alphabetic()) || (c == ' ' && inside);
    }
    ordinary && string != "-" && !string.starts_with("- ") && reads_as_text(string)
}

fn reads_as_text(string: &str) -> bool {
    matches!(yaml::to_json(string), Ok(Value::String(read)) if read == string)
}

/// Whether a character is allowed in a YAML document and printable.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..)
}
