//! Conversion between the version of a resource and the stored one.

use std::borrow::Cow;

use serde_json::Value;

use super::{Resource, Typing, events};
use crate::schema::Changed;

/// A stored object in the version of this resource: without fields that its schema does not declare.
pub(crate) fn presented(resource: &Resource, mut value: Value) -> Value {
    if is_of_another_version(resource, &value) {
        match &resource.typing {
            Typing::Custom(custom) => {
                value["apiVersion"] = resource.api_version().into();
                custom.schema.prune(&mut value, &Changed::Whole);
            }
            Typing::Builtin(_) => events::from_core(&mut value),
        }
    }
    value
}

/// Like [`presented`], without a copy if the stored form is unchanged, which is the common case.
pub(crate) fn presented_ref<'a>(resource: &Resource, value: &'a Value) -> Cow<'a, Value> {
    if is_of_another_version(resource, value) {
        Cow::Owned(presented(resource, value.clone()))
    } else {
        Cow::Borrowed(value)
    }
}

fn is_of_another_version(resource: &Resource, stored: &Value) -> bool {
    match &resource.typing {
        Typing::Custom(_) => stored["apiVersion"] != resource.api_version().as_str(),
        Typing::Builtin(_) => resource.storage_api_version != resource.api_version(),
    }
}

/// An object of this resource in its stored form: fields that the storage version lacks are dropped, its defaults are
/// applied.
pub(crate) fn to_stored(resource: &Resource, value: &mut Value) {
    if resource.storage_api_version != resource.api_version() {
        match &resource.typing {
            Typing::Custom(custom) => {
                value["apiVersion"] = resource.storage_api_version.clone().into();
                custom.stored.prune(value, &Changed::Whole);
                custom.stored.default(value, &Changed::Whole);
            }
            Typing::Builtin(_) => events::to_core(value),
        }
    }
}
