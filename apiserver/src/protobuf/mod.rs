//! Bodies in protobuf, as typed clients of Go (and `kubectl create`) send them for built-in kinds.
//!
//! `table.txt` is committed: the numbers of all fields, made by [`generate`] from the `generated.proto` files of
//! Kubernetes (see `examples/protobuf-table.rs`). Answers are always JSON, which these clients accept besides.

mod generate;
mod read;
mod table;

use serde_json::{Map, Value};

pub use generate::generate;
use read::{Fields, Malformed, Wire};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The four bytes before each body.
const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may be nested: twice what the deepest built-in kind needs.
const DEPTH: usize = 48;

/// A body that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The bytes are no protobuf envelope of Kubernetes.
    #[error("the body is not a Kubernetes protobuf message")]
    Malformed,
    /// The kind is not in the table.
    #[error("no protobuf definition of this kind is known")]
    UnknownKind,
}

impl From<Malformed> for ProtobufError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads a body: an envelope (`runtime.Unknown`) with apiVersion, kind and the object.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Malformed)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields::of(envelope) {
        match field? {
            (1, Wire::Bytes(type_meta)) => {
                for field in Fields::of(type_meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let name = message_of(&api_version, &kind).ok_or(ProtobufError::UnknownKind)?;
    let mut object = message(name, raw, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// The message of a kind: options are the same message whatever group they say.
fn message_of(api_version: &str, kind: &str) -> Option<&'static str> {
    if matches!(
        kind,
        "DeleteOptions" | "CreateOptions" | "UpdateOptions" | "PatchOptions"
    ) {
        return table::name(&format!("meta.v1.{kind}"));
    }
    table::name(crate::builtin::type_of(api_version, kind)?)
}

fn utf8(bytes: &[u8]) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::Malformed)
}

fn message(name: &'static str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtobufError> {
    if depth > DEPTH {
        return Err(ProtobufError::Malformed);
    }
    let Some(numbers) = table::fields(name) else {
        return Err(ProtobufError::UnknownKind);
    };
    let mut object = Map::new();
    for field in Fields::of(bytes) {
        let (number, wire) = field?;
        let Some(field) = numbers.get(&number) else {
            continue;
        };
        if field.is_map {
            let (key, value) = entry(field, wire, depth)?;
            let map = object
                .entry(field.name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
            continue;
        }
        let value = value(field, wire, depth)?;
        if field.is_list {
            let list = object
                .entry(field.name)
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = list {
                items.push(value);
            }
        } else if is_inline(name, field) {
            if let Value::Object(inner) = value {
                object.extend(inner);
            }
        } else if !is_unset(field.name, &value) {
            object.insert(field.name.to_owned(), value);
        }
    }
    Ok(object)
}

fn entry(field: &table::Field, wire: Wire<'_>, depth: usize) -> Result<(String, Value), ProtobufError> {
    let Wire::Bytes(pair) = wire else {
        return Err(ProtobufError::Malformed);
    };
    let (mut key, mut found) = (String::new(), Value::Null);
    for part in Fields::of(pair) {
        match part? {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => found = value(field, wire, depth)?,
            _ => {}
        }
    }
    if found.is_null() && field.kind == table::Kind::Text {
        found = "".into(); // an empty text may be left out on the wire
    }
    Ok((key, found))
}

fn value(field: &table::Field, wire: Wire<'_>, depth: usize) -> Result<Value, ProtobufError> {
    use base64::Engine as _;
    use table::Kind;
    Ok(match (field.kind, wire) {
        (Kind::Text, Wire::Bytes(bytes)) => utf8(bytes)?.into(),
        (Kind::Bytes, Wire::Bytes(bytes)) => base64::engine::general_purpose::STANDARD.encode(bytes).into(),
        (Kind::Whole, Wire::Varint(number)) => number.cast_signed().into(),
        (Kind::Truth, Wire::Varint(number)) => (number != 0).into(),
        (Kind::Real, Wire::Fixed64(bits)) => f64::from_bits(bits).into(),
        (Kind::Message(name), Wire::Bytes(bytes)) => special(name, bytes, depth)?,
        _ => return Err(ProtobufError::Malformed),
    })
}

/// Messages that are something else in JSON.
fn special(name: &'static str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let plain = |bytes| message(name, bytes, depth + 1);
    Ok(match name {
        "meta.v1.Time" | "meta.v1.MicroTime" => time(&plain(bytes)?, name == "meta.v1.MicroTime"),
        "resource.Quantity" => plain(bytes)?.remove("string").unwrap_or_else(|| "0".into()),
        "intstr.IntOrString" => {
            let mut parts = plain(bytes)?;
            let is_text = parts.get("type").and_then(Value::as_i64) == Some(1);
            let part = parts.remove(if is_text { "strVal" } else { "intVal" });
            part.unwrap_or_else(|| if is_text { "".into() } else { 0.into() })
        }
        "meta.v1.FieldsV1" | "runtime.RawExtension" => {
            let raw = Fields::of(bytes).find_map(|field| match field {
                Ok((1, Wire::Bytes(raw))) => Some(raw),
                _ => None,
            });
            raw.map_or(Ok(Value::Null), |raw| {
                serde_json::from_slice(raw).map_err(|_| ProtobufError::Malformed)
            })?
        }
        _ => Value::Object(plain(bytes)?),
    })
}

fn time(parts: &Map<String, Value>, with_micros: bool) -> Value {
    let number = |name: &str| parts.get(name).and_then(Value::as_i64).unwrap_or_default(); // left out when zero
    let nanos = i32::try_from(number("nanos")).unwrap_or_default(); // out of range: no fraction
    match jiff::Timestamp::new(number("seconds"), nanos) {
        // The zero time of Go is an empty message.
        _ if parts.is_empty() => Value::Null,
        Ok(at) if with_micros => at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into(),
        Ok(at) => crate::clock::seconds(at).into(),
        Err(_) => Value::Null,
    }
}

/// Fields that are messages on the wire and part of their parent in JSON: those that the parent's type does not name.
fn is_inline(parent: &str, field: &table::Field) -> bool {
    use crate::builtin::{Shape, shape_of};
    let is_message = matches!(field.kind, table::Kind::Message(_));
    is_message
        && matches!(shape_of(parent), Some(Shape::Object { fields, .. }) if !fields.contains_key(field.name))
}

/// Go writes zero values that JSON leaves out. A zero says something only in fields that may be absent in Go.
fn is_unset(name: &str, value: &Value) -> bool {
    const SAYS_SOMETHING: [&str; 34] = [
        "activeDeadlineSeconds",
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "averageUtilization",
        "backoffLimit",
        "blockOwnerDeletion",
        "completions",
        "controller",
        "currentHealthy",
        "defaultMode",
        "deletionGracePeriodSeconds",
        "desiredHealthy",
        "disruptionsAllowed",
        "enableServiceLinks",
        "expectedPods",
        "fsGroup",
        "gracePeriodSeconds",
        "immutable",
        "minReplicas",
        "mode",
        "optional",
        "orphanDependents",
        "parallelism",
        "partition",
        "privileged",
        "progressDeadlineSeconds",
        "readOnlyRootFilesystem",
        "replicas",
        "revisionHistoryLimit",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "suspend",
        "terminationGracePeriodSeconds",
    ];
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Bool(false) => !SAYS_SOMETHING.contains(&name),
        Value::Number(number) => {
            number.as_i64() == Some(0) && !SAYS_SOMETHING.contains(&name) && name != "seconds"
        }
        Value::Object(map) => {
            map.is_empty()
                && matches!(
                    name,
                    "metadata" | "status" | "spec" | "resources" | "strategy" | "updateStrategy"
                )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        out.extend_from_slice(content);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &type_meta), bytes(2, raw)].concat()
    }

    #[test]
    fn an_object_is_read_as_its_json() {
        let metadata = [bytes(1, b"a"), bytes(2, b""), bytes(8, b"")].concat();
        let entry = [bytes(1, b"k"), bytes(2, b"v")].concat();
        let raw = [bytes(1, &metadata), bytes(2, &entry)].concat();
        let expect =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        assert_eq!(decode(&envelope("v1", "ConfigMap", &raw)), Ok(expect));
    }

    #[test]
    fn what_is_inline_in_go_is_inline_here() {
        // Pod.spec.volumes[].volumeSource.emptyDir
        let volume = [bytes(1, b"v"), bytes(2, &bytes(2, b""))].concat();
        let raw = bytes(2, &bytes(1, &volume));
        let pod = decode(&envelope("v1", "Pod", &raw)).unwrap();
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    }

    #[test]
    fn what_is_not_an_envelope_is_refused() {
        for body in [&b""[..], b"{}", b"k8s\0\x0a\xff", b"k8s\0\x0a\x05ab"] {
            assert_eq!(
                decode(body),
                Err(if body == b"k8s\0" {
                    ProtobufError::UnknownKind
                } else {
                    ProtobufError::Malformed
                })
            );
        }
        assert_eq!(
            decode(&envelope("v1", "Nothing", b"")),
            Err(ProtobufError::UnknownKind)
        );
    }

    #[test]
    fn every_message_that_a_field_names_is_in_the_table() {
        assert_eq!(table::dangling(), Vec::<String>::new());
        assert!(table::fields("core.v1.PodSpec").unwrap().len() > 30);
    }
}
