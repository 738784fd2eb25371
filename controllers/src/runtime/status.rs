//! Writes status: only what changed, only on the observed version, and not at all if only times would change.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use json_patch::PatchOperation;
use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::Api;
use super::{
    Key,
    call::{CallError, call},
    entries::{self, Entry},
    version::is_as_new,
};

/// Why a status could not be written.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The status cannot be encoded as JSON: a bug in muster.
    #[error("the status of {what} cannot be encoded as JSON")]
    Serialize {
        /// Kind and name of the object.
        what: String,
        /// The error of the encoder.
        #[source]
        source: serde_json::Error,
    },
    /// The write failed; a conflict means: observe again.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl StatusError {
    /// Whether another writer changed the object since it was observed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_conflict())
    }
}

/// Writes `new` as the status of `object`, whose status is `old`, on the condition that the object still has the
/// resourceVersion of `object`.
///
/// Conditions whose status did not change keep their `lastTransitionTime`, whatever time `new` gives. If nothing
/// differs then, nothing is sent. Returns the object as written, `None` if nothing was sent.
pub async fn patch_if_changed<K, S>(
    api: &Api<K>,
    object: &K,
    old: Option<&S>,
    new: &S,
    manager: &str,
) -> Result<Option<K>, StatusError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Serialize,
{
    let name = object.name_any();
    let namespace = object.namespace().map(|namespace| format!("{namespace}/"));
    let what = format!("{} {}{name}", K::kind(&()), namespace.unwrap_or_default());
    let value = |status: &S| {
        serde_json::to_value(status).map_err(|source| StatusError::Serialize {
            what: what.clone(),
            source,
        })
    };
    let old = old
        .map(value)
        .transpose()?
        .unwrap_or_else(|| Value::Object(Map::new()));
    let Some(change) = status_patch(&old, value(new)?) else {
        return Ok(None);
    };
    let mut body = json!({"status": change});
    if let Some(version) = object.resource_version() {
        body["metadata"] = json!({"resourceVersion": version});
    }
    let parameters = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let written = call(
        format!("writing the status of {what}"),
        api.patch_status(&name, &parameters, &Patch::Merge(&body)),
    )
    .await?;
    Ok(Some(written))
}

/// A status with a long list of named entries.
pub trait Listed: Serialize + DeserializeOwned {
    /// Name of the field that contains the list.
    const LIST: &'static str;
    /// Type of the list's entries.
    type Entry: Entry;

    /// The entries of the list.
    fn entries(&self) -> &[Self::Entry];

    /// The status without the list.
    #[must_use]
    fn head(&self) -> Self;

    /// The status with this head and a list.
    #[must_use]
    fn listing(self, entries: Vec<Self::Entry>) -> Self;
}

/// Statuses of one kind, each with a long list, whose only writer is this process.
///
/// What was written last is kept until the watch shows it: a status that differs from the watched one may be the one
/// that was just written. Bounded by the number of objects: [`Reports::retain`].
#[derive(Debug)]
pub struct Reports<S> {
    manager: &'static str,
    written: Mutex<BTreeMap<Key, LastWritten<S>>>,
}

#[derive(Debug)]
struct LastWritten<S> {
    uid: Option<String>,
    version: Option<String>,
    status: Arc<S>,
}

impl<S: Listed> Reports<S> {
    /// Starts without any written status.
    pub fn new(manager: &'static str) -> Self {
        Self {
            manager,
            written: Mutex::default(),
        }
    }

    /// Drops the entries of objects that no longer exist.
    pub fn retain(&self, lives: impl Fn(&Key) -> bool) {
        self.written.lock().retain(|key, _| lives(key));
    }

    /// Like [`patch_if_changed`], but sends only what changed, each operation on the condition that what it replaces is
    /// as written last, regardless of other writes to the object. Returns whether something was sent.
    ///
    /// A status that another process or version of muster wrote may differ, or contain more than is parsed here: if a
    /// condition fails, the whole list is written, on the condition that the object still has the resourceVersion of
    /// `object`.
    pub async fn write<K>(
        &self,
        api: &Api<K>,
        object: &K,
        old: Option<&S>,
        new: &S,
    ) -> Result<bool, StatusError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let (key, name) = (Key::of(object), object.name_any());
        let what = format!("{} {key}", K::kind(&()));
        let value = |status: &S| {
            serde_json::to_value(status).map_err(|source| StatusError::Serialize {
                what: what.clone(),
                source,
            })
        };
        let last = self.last(&key, object);
        if let Some(before) = last.as_deref().or(old) {
            let before_head = value(&before.head())?;
            let mut head = value(&new.head())?;
            keep_transition_times(&before_head, &mut head);
            if let Some(mut steps) = steps(&before_head, &head, before, new) {
                if steps.is_empty() {
                    return Ok(false);
                }
                steps.insert(0, entries::test(&["metadata", "uid"], json!(object.uid())));
                let parameters = PatchParams {
                    field_manager: Some(self.manager.to_owned()),
                    ..PatchParams::default()
                };
                let patch = Patch::Json::<()>(json_patch::Patch(steps));
                let sent = api.patch_status_briefly(&name, &parameters, &patch);
                match call(format!("writing the status of {what}"), sent).await {
                    Ok(version) => {
                        let entries = entries::in_place(before.entries(), new.entries());
                        self.keep(key, object, version, head, entries);
                        return Ok(true);
                    }
                    Err(error) if error.is_invalid() => {}
                    Err(error) => {
                        // The write may have succeeded.
                        self.written.lock().remove(&key);
                        return Err(error.into());
                    }
                }
            }
        }
        self.written.lock().remove(&key);
        let mut head = value(&new.head())?;
        if let Some(old) = old {
            keep_transition_times(&value(&old.head())?, &mut head);
        }
        let written = patch_if_changed(api, object, old, new, self.manager).await?;
        let is_written = written.is_some();
        if let Some(written) = written {
            self.keep(
                key,
                object,
                written.resource_version(),
                head,
                new.entries().to_vec(),
            );
        }
        Ok(is_written)
    }

    /// The last written status of an object, if it is newer than what the watch shows.
    fn last(&self, key: &Key, object: &impl Resource) -> Option<Arc<S>> {
        let mut written = self.written.lock();
        let own = written.get(key)?;
        let watched = object.meta().resource_version.as_deref();
        if own.uid == object.meta().uid && !is_as_new(watched, own.version.as_deref()) {
            return Some(Arc::clone(&own.status));
        }
        written.remove(key);
        None
    }

    fn keep(
        &self,
        key: Key,
        object: &impl Resource,
        version: Option<String>,
        head: Value,
        entries: Vec<S::Entry>,
    ) {
        if let Ok(head) = serde_json::from_value::<S>(head) {
            let (uid, status) = (object.meta().uid.clone(), Arc::new(head.listing(entries)));
            let written = LastWritten { uid, version, status };
            self.written.lock().insert(key, written);
        }
    }
}

/// The operations that change one status to another; `old_head` and `head` are the statuses without the lists. `None`
/// if that cannot be expressed.
fn steps<S: Listed>(old_head: &Value, head: &Value, old: &S, new: &S) -> Option<Vec<PatchOperation>> {
    let (olds, news) = (old_head.as_object()?, head.as_object()?);
    // A field that did not exist cannot be tested.
    if news.keys().any(|name| !olds.contains_key(name)) {
        return None;
    }
    let mut steps: Vec<PatchOperation> = olds
        .keys()
        .flat_map(|name| entries::field(&["status", name], olds.get(name), news.get(name)))
        .collect();
    steps.extend(entries::list(&["status", S::LIST], old.entries(), new.entries())?);
    Some(steps)
}

/// The JSON merge patch that turns `old` into `new`; `None` if they are equal apart from the times of unchanged
/// conditions.
pub fn status_patch(old: &Value, mut new: Value) -> Option<Value> {
    keep_transition_times(old, &mut new);
    merge_patch(old, &new)
}

/// A condition with unchanged status keeps its time.
fn keep_transition_times(old: &Value, new: &mut Value) {
    let Some(conditions) = new.get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    let before = old.get("conditions").and_then(Value::as_array);
    for condition in conditions {
        let same = before.into_iter().flatten().find(|old| {
            old.get("type") == condition.get("type") && old.get("status") == condition.get("status")
        });
        if let Some(time) = same.and_then(|old| old.get("lastTransitionTime")) {
            condition["lastTransitionTime"] = time.clone();
        }
    }
}

/// RFC 7386: the smallest patch from `old` to `new`. Lists are replaced as a whole; fields missing in `new` are removed
/// by null.
fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let removed = old
                .keys()
                .filter(|key| !new.contains_key(*key))
                .map(|key| (key.clone(), Value::Null));
            let changed = new.iter().filter_map(|(key, value)| {
                let patch = old
                    .get(key)
                    .map_or_else(|| Some(value.clone()), |before| merge_patch(before, value));
                Some((key.clone(), patch?))
            });
            let patch: Map<String, Value> = removed.chain(changed).collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (old != new).then(|| new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(ready: &str, time: &str, message: &str) -> Value {
        json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": time, "message": message}]})
    }

    #[test]
    fn times_alone_are_no_change() {
        assert_eq!(
            status_patch(&status("True", "1", "m"), status("True", "2", "m")),
            None
        );
    }

    #[test]
    fn the_time_moves_on_a_flip_only() {
        let unchanged = status_patch(&status("True", "1", "m"), status("True", "2", "other")).unwrap();
        assert_eq!(unchanged["conditions"][0]["lastTransitionTime"], "1");
        let flipped = status_patch(&status("True", "1", "m"), status("False", "2", "m")).unwrap();
        assert_eq!(flipped["conditions"][0]["lastTransitionTime"], "2");
    }

    #[test]
    fn what_is_no_more_is_removed() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "list": [1, 2]});
        let new = json!({"b": {"c": 1}, "list": [1], "e": {"f": 1}});
        assert_eq!(
            status_patch(&old, new),
            Some(json!({"a": null, "b": {"d": null}, "list": [1], "e": {"f": 1}}))
        );
    }
}
