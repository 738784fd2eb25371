//! An object as it was read, or why it could not be: one that cannot be read stops no watch.
//!
//! As kube's `DeserializeGuard`, which buffers an object in a tree whose keys are trees, copies that, and keeps `managedFields`: of what a fleet's
//! watches cost that was a half. Here an object is read from its text at once; of a large one a tree alone was two thirds of that.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{PartialObjectMeta, error_boundary::InvalidObject},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;

/// An object without `managedFields`, or what can be said of one that cannot be read.
#[derive(Clone, Debug)]
pub struct Guard<K>(pub Result<K, InvalidObject>);

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Guard<K> {
    /// Fails only if not even the metadata can be read.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // API servers send the type of an event before its object, so that its text is here as it came.
        let text = <Box<RawValue>>::deserialize(deserializer)?;
        Ok(Self(match serde_json::from_str::<K>(text.get()) {
            Ok(mut object) => {
                object.meta_mut().managed_fields = None;
                Ok(object)
            }
            Err(error) => {
                let PartialObjectMeta { mut metadata, .. } =
                    serde_json::from_str::<PartialObjectMeta<K>>(text.get()).map_err(D::Error::custom)?;
                metadata.managed_fields = None;
                let error = error.to_string();
                Err(InvalidObject { error, metadata })
            }
        }))
    }
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
    use kube::ResourceExt;
    use serde_json::{from_str, json};

    use super::*;

    #[test]
    fn what_can_be_read_is_read_without_who_wrote_it() {
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
