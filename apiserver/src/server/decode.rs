//! Request bodies: JSON and YAML, with detection of duplicate keys.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::UserMessageFormatter;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::protobuf;
use crate::status::ApiError;

/// A decoded body.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// The value; of duplicate keys the last one wins.
    pub value: Value,
    /// The paths of duplicate keys.
    pub duplicates: Vec<String>,
}

/// The media types of objects.
const OBJECT_TYPES: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];

/// Decodes an object of the media type `content_type` (JSON by default).
pub(super) fn decode_object(content_type: &str, body: &[u8]) -> Result<Decoded, ApiError> {
    match essence(content_type) {
        "" | "application/json" | "*/*" => decode_json(body),
        "application/yaml" => yaml(body),
        protobuf::MEDIA_TYPE => match protobuf::decode(body) {
            Ok(value) => Ok(Decoded {
                value,
                duplicates: Vec::new(),
            }),
            Err(error) => Err(ApiError::bad_request(&error.to_string())),
        },
        _ => Err(ApiError::unsupported_media_type(&OBJECT_TYPES)),
    }
}

/// A media type without its parameters.
pub(super) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Decodes JSON.
pub(super) fn decode_json(body: &[u8]) -> Result<Decoded, ApiError> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let seed = Spotting {
        path: String::new(),
        duplicates: &mut duplicates,
    };
    let value = seed
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    match value {
        Ok(value) => Ok(Decoded { value, duplicates }),
        Err(error) => Err(ApiError::bad_request(&format!(
            "couldn't get version/kind; json parse error: {error}"
        ))),
    }
}

/// Decodes YAML (which includes JSON).
pub(super) fn yaml(body: &[u8]) -> Result<Decoded, ApiError> {
    if let Ok(decoded) = decode_json(body) {
        return Ok(decoded);
    }
    let mut duplicates = Vec::new();
    let seed = Spotting {
        path: String::new(),
        duplicates: &mut duplicates,
    };
    let read = |deserializer: serde_saphyr::Deserializer<'_, '_>| seed.deserialize(deserializer);
    match serde_saphyr::with_deserializer_from_slice_with_options(body, yaml_options(), read) {
        Ok(value) => Ok(Decoded { value, duplicates }),
        Err(error) => {
            let why = error.render_with_formatter(&UserMessageFormatter);
            Err(ApiError::bad_request(&format!("error decoding YAML: {why}")))
        }
    }
}

/// Scalars of YAML 1.2. The size of a body is already limited; the depth is limited to what fits on a thread's stack in
/// unoptimized builds.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Deserializes a value and records duplicate keys.
struct Spotting<'a> {
    path: String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Spotting<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Spotting<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            match items.next_element_seed(Spotting {
                path,
                duplicates: &mut *self.duplicates,
            })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = if self.path.is_empty() {
                key.clone()
            } else {
                format!("{}.{key}", self.path)
            };
            if map.contains_key(&key) {
                self.duplicates.push(path.clone());
            }
            let value = entries.next_value_seed(Spotting {
                path,
                duplicates: &mut *self.duplicates,
            })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_noted_and_the_last_counts() {
        let decoded = decode_json(br#"{"a":1,"spec":{"b":[{"c":1,"c":2}],"d":1,"d":2},"a":3}"#).unwrap();
        assert_eq!(
            decoded.value.to_string(),
            r#"{"a":3,"spec":{"b":[{"c":2}],"d":2}}"#
        );
        assert_eq!(decoded.duplicates, ["spec.b[0].c", "spec.d", "a"]);
    }

    #[test]
    fn yaml_is_read_as_json_is() {
        let decoded = yaml(
            b"a: 1\nspec:\n  b: [{c: 1, c: 2}]\n  d: 18446744073709551615\n  e: [yes, 007, 1_000, 1.5, ~]\na: 3\n",
        );
        let decoded = decoded.unwrap();
        assert_eq!(
            decoded.value.to_string(),
            r#"{"a":3,"spec":{"b":[{"c":2}],"d":18446744073709551615,"e":["yes","007","1_000",1.5,null]}}"#
        );
        assert_eq!(decoded.duplicates, ["spec.b[0].c", "a"]);
    }

    #[test]
    fn what_is_not_yaml_is_a_bad_request() {
        let deep = format!("a: {}1{}", "[".repeat(200), "]".repeat(200));
        for body in ["a: [", "a: 1\n---\nb: 2\n", "a: *b", deep.as_str()] {
            let error = yaml(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, 400, "{body}");
            assert!(
                error.message().starts_with("error decoding YAML: "),
                "{}",
                error.message()
            );
            assert!(!error.message().contains('\n'), "{}", error.message());
        }
    }

    #[test]
    fn what_is_not_json_is_a_bad_request() {
        for body in ["", "{", "{}{}", "nope"] {
            assert_eq!(decode_json(body.as_bytes()).unwrap_err().code, 400, "{body}");
        }
    }
}
