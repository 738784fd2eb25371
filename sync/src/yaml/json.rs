//! A file that starts with `{` is JSON; documents may follow each other.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{Document, Kind, MAX_DEPTH, Node, Position, Scalar, YamlError, YamlProblem, text};

/// All documents.
pub(super) fn documents(file: &Arc<str>, text: &str) -> Result<Vec<Document>, YamlError> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let mut documents = Vec::new();
    loop {
        let start = text.len() - text[stream.byte_offset()..].trim_start().len();
        let base = text::position(text, start);
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(json)) => {
                let root = node(&json, base);
                if depth(&json) > MAX_DEPTH {
                    return Err(YamlError::new(file, base, YamlProblem::Depth));
                }
                documents.push(Document {
                    file: Arc::clone(file),
                    root,
                });
            }
            Some(Err(error)) => {
                let at = Position {
                    line: error.line(),
                    column: error.column().max(1),
                };
                return Err(YamlError::new(file, at, YamlProblem::Syntax(message(&error))));
            }
        }
    }
}

/// JSON without duplicate keys, numbers as they will be resolved.
enum Json {
    Scalar(Scalar),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

fn node(json: &Json, at: Position) -> Arc<Node> {
    let key_of = |text: &str| {
        Kind::Scalar(Scalar {
            text: text.to_owned(),
            plain: false,
            tag: None,
        })
    };
    Arc::new(Node::new(
        at,
        match json {
            Json::Scalar(scalar) => Kind::Scalar(scalar.clone()),
            Json::List(items) => Kind::Sequence(items.iter().map(|item| node(item, at)).collect()),
            Json::Object(pairs) => Kind::Mapping(
                pairs
                    .iter()
                    .map(|(key, value)| (Arc::new(Node::new(at, key_of(key))), node(value, at)))
                    .collect(),
            ),
        },
    ))
}

fn depth(json: &Json) -> usize {
    match json {
        Json::Scalar(_) => 0,
        Json::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(pairs) => 1 + pairs.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
    }
}

/// What serde_json says, without the place that we say ourselves.
fn message(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.rsplit_once(" at line ")
        .map_or_else(|| said.clone(), |(what, _)| what.to_owned())
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl JsonVisitor {
    fn plain(text: String) -> Json {
        Json::Scalar(Scalar {
            text,
            plain: true,
            tag: None,
        })
    }
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Self::plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Self::plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Self::plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Self::plain(format!("{value:e}")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Scalar(Scalar {
            text: value.to_owned(),
            plain: false,
            tag: None,
        }))
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Self::plain("null".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = pairs.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("duplicate key {key:?}")));
            }
            let value = pairs.next_value()?;
            object.push((key, value));
        }
        Ok(Json::Object(object))
    }
}
