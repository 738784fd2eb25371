//! The table in memory, parsed on first use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `string`.
    Text,
    /// `bytes`.
    Bytes,
    /// `int32`, `int64`, `uint32`, `uint64`.
    Whole,
    /// `bool`.
    Truth,
    /// `double`.
    Real,
    /// The message with this name.
    Message(&'static str),
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Name, the same as in JSON.
    pub name: &'static str,
    /// Type; for a list of each item, for a map of each value.
    pub kind: Kind,
    /// Whether it is repeated.
    pub is_list: bool,
    /// Whether it is a map with string keys.
    pub is_map: bool,
}

type Messages = BTreeMap<&'static str, BTreeMap<u32, Field>>;

fn messages() -> &'static Messages {
    static MESSAGES: LazyLock<Messages> = LazyLock::new(|| read(include_str!("table.txt")));
    &MESSAGES
}

/// The name of a message as stored in the table.
pub(super) fn message_name(name: &str) -> Option<&'static str> {
    messages().get_key_value(name).map(|(name, _)| *name)
}

/// The fields of a message by number.
pub(super) fn fields(message: &str) -> Option<&'static BTreeMap<u32, Field>> {
    messages().get(message)
}

/// Messages that fields refer to, but that do not exist.
#[cfg(test)]
pub(super) fn dangling() -> Vec<String> {
    let fields = messages().values().flat_map(BTreeMap::values);
    let named = fields.filter_map(|field| match field.kind {
        Kind::Message(name) if !messages().contains_key(name) => Some(name.to_owned()),
        _ => None,
    });
    named.collect()
}

/// Parses the format that [`super::generate_message_table()`] describes.
fn read(text: &'static str) -> Messages {
    let mut messages = Messages::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(' ') {
            None => {
                current = line;
                messages.entry(current).or_default();
            }
            Some(line) => {
                let words: Vec<&'static str> = line.split(' ').collect();
                if let [number, kind, name] = words.as_slice()
                    && let Ok(number) = number.parse()
                {
                    messages
                        .entry(current)
                        .or_default()
                        .insert(number, field(name, kind));
                }
            }
        }
    }
    messages
}

fn field(name: &'static str, text: &'static str) -> Field {
    let (is_list, text) = text.strip_prefix("[]").map_or((false, text), |rest| (true, rest));
    let (is_map, text) = text.strip_prefix("{}").map_or((false, text), |rest| (true, rest));
    let kind = match text {
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "bool" => Kind::Truth,
        "double" => Kind::Real,
        "int" => Kind::Whole,
        message => Kind::Message(message),
    };
    Field {
        name,
        kind,
        is_list,
        is_map,
    }
}
