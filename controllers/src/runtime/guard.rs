//! An object, or why it cannot be parsed: an invalid object does not stop a watch.
//!
//! Like kube's `DeserializeGuard`, which buffers an object in a tree whose keys are trees, copies that, and keeps
//! `managedFields`: half of what a fleet's watches cost. Here an object is parsed directly from its text; for a large
//! one a tree alone took two thirds of the time.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{PartialObjectMeta, error_boundary::InvalidObject},
};
use muster_api::unread::Unread;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// An object without `managedFields`, or metadata and error of one that cannot be parsed.
#[derive(Clone, Debug)]
pub struct Guard<K>(pub Result<K, InvalidObject>);

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Guard<K> {
    /// Fails only if not even the metadata can be parsed.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let unread = match Unread::deserialize(deserializer)? {
            Unread::Text(text) => Unread::Text(without_managed_fields(text)),
            tree @ Unread::Tree(_) => tree,
        };
        of(&unread).map_err(D::Error::custom)
    }
}

/// The object, or its metadata and why it cannot be parsed.
fn of<K: Resource + DeserializeOwned>(unread: &Unread) -> serde_json::Result<Guard<K>> {
    Ok(Guard(match unread.read::<K>() {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Ok(object)
        }
        Err(error) => {
            let PartialObjectMeta { mut metadata, .. } = unread.read::<PartialObjectMeta<K>>()?;
            metadata.managed_fields = None;
            let error = error.to_string();
            Err(InvalidObject { error, metadata })
        }
    }))
}

/// Cuts `managedFields` out of the text of an object: parsing and dropping them took 13 % of the controller's CPU time
/// with 120 modules on each cluster.
fn without_managed_fields(text: Box<RawValue>) -> Box<RawValue> {
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, rename = "managedFields")]
        managed_fields: &'a RawValue,
    }
    let cut = || {
        let whole = text.get();
        let found: Metadata<'_> = serde_json::from_str(metadata(whole)?).ok()?;
        let fields = found.managed_fields.get();
        // `fields` is a slice of `whole`.
        let start = fields.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
        let (before, after) = (whole.get(..start)?, whole.get(start + fields.len()..)?);
        RawValue::from_string(format!("{before}null{after}")).ok()
    };
    cut().unwrap_or(text)
}

/// The text of `metadata` in the text of an object. Reading ends there: the rest of an object is most of its text.
fn metadata(object: &str) -> Option<&str> {
    struct Fields<'a, 'de>(&'a mut Option<&'de str>);

    impl<'de> Visitor<'de> for Fields<'_, 'de> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
            while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
                if name == "metadata" {
                    *self.0 = Some(fields.next_value::<&RawValue>()?.get());
                    return Err(A::Error::custom("the rest is not read"));
                }
                fields.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }

    let mut found = None;
    // An error is either the one above, or the object has no metadata that can be read.
    let _ = serde_json::Deserializer::from_str(object).deserialize_map(Fields(&mut found));
    found
}

impl<K: Resource> Resource for Guard<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0
            .as_mut()
            .map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{ResourceExt, core::WatchEvent};
    use serde_json::{from_str, json};

    use super::*;

    #[test]
    fn objects_are_read_without_their_managed_fields() {
        let metadata = json!({"name": "a", "managedFields": [{"manager": "somebody"}]});
        let object = json!({"metadata": metadata, "data": {"key": "value"}});
        let Guard(read) = from_str::<Guard<ConfigMap>>(&object.to_string()).unwrap();
        let read = read.unwrap();
        assert_eq!(
            (read.name_any(), read.managed_fields()),
            ("a".to_owned(), &[][..])
        );
        assert_eq!(read.data.unwrap()["key"], "value");
    }

    #[test]
    fn only_the_fields_of_the_metadata_are_cut() {
        let cut = |text: &str| {
            let text = RawValue::from_string(text.to_owned()).unwrap();
            without_managed_fields(text).get().to_owned()
        };
        assert_eq!(
            cut(
                r#"{"managedFields": 1, "metadata": {"name": "ä", "managedFields": [{"f": {"a": "]"}}], "x": 2}, "spec": {"managedFields": [3]}}"#
            ),
            r#"{"managedFields": 1, "metadata": {"name": "ä", "managedFields": null, "x": 2}, "spec": {"managedFields": [3]}}"#
        );
        for whole in [
            r#"{"metadata": {"name": "a"}, "spec": {"managedFields": [3]}}"#,
            r#"{"metadata": "managedFields"}"#,
            r#"["metadata", {"managedFields": []}]"#,
            "{}",
        ] {
            assert_eq!(cut(whole), whole);
        }
    }

    #[test]
    fn an_event_is_read_whichever_of_its_fields_comes_first() {
        let object =
            json!({"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}, "data": {"key": "value"}});
        let broken = json!({"metadata": {"name": "a"}, "data": "no map"});
        for (object, expect) in [(&object, true), (&broken, false)] {
            for text in [
                format!(r#"{{"type": "ADDED", "object": {object}}}"#),
                format!(r#"{{"object": {object}, "type": "ADDED"}}"#),
            ] {
                let WatchEvent::Added(guard) = from_str::<WatchEvent<Guard<ConfigMap>>>(&text).unwrap()
                else {
                    panic!("{text}")
                };
                assert_eq!(
                    (guard.name_any().as_str(), guard.managed_fields()),
                    ("a", &[][..])
                );
                assert_eq!(guard.0.is_ok(), expect, "{text}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_has_a_name_and_a_reason() {
        let object = json!({"metadata": {"name": "a", "namespace": "n"}, "data": "no map"});
        let guard = from_str::<Guard<ConfigMap>>(&object.to_string()).unwrap();
        assert_eq!(
            (guard.name_any(), guard.namespace()),
            ("a".to_owned(), Some("n".to_owned()))
        );
        let error = guard.0.unwrap_err().to_string();
        assert!(error.contains("expected a map"), "{error}");
    }

    #[test]
    fn without_metadata_nothing_can_be_said() {
        let object = json!({"metadata": "none", "data": {}});
        assert!(from_str::<Guard<ConfigMap>>(&object.to_string()).is_err());
    }
}
