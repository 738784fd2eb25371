//! Objects at the version of a resource and as they are stored.

use std::borrow::Cow;

use serde_json::Value;

use super::{Resource, Typing, events};

/// A stored object as this resource shows it: a version shows only what its schema has.
pub(crate) fn presented(resource: &Resource, mut value: Value) -> Value {
    if is_of_another_version(resource, &value) {
        match &resource.typing {
            Typing::Custom(custom) => {
                value["apiVersion"] = resource.api_version().into();
                custom.schema.prune(&mut value);
            }
            Typing::Builtin(_) => events::from_core(&mut value),
        }
    }
    value
}

/// As [`presented`], without a copy of what is shown as it is stored, which is most.
pub(crate) fn shown<'a>(resource: &Resource, value: &'a Value) -> Cow<'a, Value> {
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

/// An object of this resource as it is stored: what the stored version lacks is lost, what it defaults is filled in.
pub(crate) fn to_stored(resource: &Resource, value: &mut Value) {
    if resource.storage_api_version != resource.api_version() {
        match &resource.typing {
            Typing::Custom(custom) => {
                value["apiVersion"] = resource.storage_api_version.clone().into();
                custom.stored.prune(value);
                custom.stored.default(value);
            }
            Typing::Builtin(_) => events::to_core(value),
        }
    }
}
