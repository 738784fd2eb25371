//! The evaluation itself: pure, in the order of dependencies, whatever the order of the list.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use muster_api::{
    node::content::NodeBinding,
    schema::MAX_VALUE,
    sync::Binding,
    template::{self, Part},
};
use serde_json::Value;

use super::{BindingError, Kinds, ObjectId, Values, error::FieldPath};

/// Objects that were read; `None`: the object does not exist.
pub type KnownObjects = BTreeMap<ObjectId, Option<Arc<Value>>>;

/// The result of an evaluation with the objects known so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// The value of each binding.
    Values(Values),
    /// These objects must be read first. They may lead to more.
    Needs(BTreeSet<ObjectId>),
}

/// A binding of either kind of module.
#[derive(Clone, Copy, Debug)]
pub struct Variable<'a> {
    name: &'a str,
    value: Option<&'a str>,
    field: Option<Field<'a>>,
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
struct Field<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
    pointer: &'a str,
}

impl<'a> From<&'a Binding> for Variable<'a> {
    fn from(binding: &'a Binding) -> Self {
        let field = binding.object_field_ref.as_ref().map(|reference| Field {
            api_version: &reference.api_version,
            kind: &reference.kind,
            namespace: None,
            name: &reference.name,
            pointer: &reference.field_path,
        });
        Self {
            name: &binding.name,
            value: binding.value.as_deref(),
            field,
        }
    }
}

impl<'a> From<&'a NodeBinding> for Variable<'a> {
    fn from(binding: &'a NodeBinding) -> Self {
        let field = binding.object_field_ref.as_ref().map(|reference| Field {
            api_version: &reference.api_version,
            kind: &reference.kind,
            namespace: Some(&reference.namespace),
            name: &reference.name,
            pointer: &reference.field_path,
        });
        Self {
            name: &binding.name,
            value: binding.value.as_deref(),
            field,
        }
    }
}

/// Evaluates bindings with the predefined values and the objects known so far.
pub fn evaluate<'a, B>(
    bindings: &'a [B],
    given: &Values,
    kinds: &Kinds,
    known: &KnownObjects,
) -> Result<Evaluation, BindingError>
where
    Variable<'a>: From<&'a B>,
{
    let bindings: Vec<Variable<'a>> = bindings.iter().map(Variable::from).collect();
    let mut by_name = BTreeMap::new();
    for binding in &bindings {
        if given.contains_key(binding.name) || by_name.insert(binding.name, *binding).is_some() {
            return Err(BindingError::Duplicate(binding.name.to_owned()));
        }
    }
    let mut run = Run {
        by_name,
        given,
        kinds,
        known,
        values: BTreeMap::new(),
        waiting: BTreeSet::new(),
        needs: BTreeSet::new(),
        path: Vec::new(),
    };
    for binding in bindings {
        run.value(binding)?;
    }
    if run.needs.is_empty() {
        Ok(Evaluation::Values(run.values))
    } else {
        Ok(Evaluation::Needs(run.needs))
    }
}

/// Replaces the variables of a text. `place` is used in the error.
pub(super) fn replace_variables(text: &str, place: &str, values: &Values) -> Result<String, BindingError> {
    let text = expand(text, place, |name| match values.get(name) {
        Some(value) => Ok(Some(value.clone())),
        None => Err(unknown(place, name, values.keys())),
    })?;
    // The lookup above always gives a value or an error.
    bounded(text.unwrap_or_default(), place)
}

/// One evaluation.
struct Run<'a> {
    by_name: BTreeMap<&'a str, Variable<'a>>,
    given: &'a Values,
    kinds: &'a Kinds,
    known: &'a KnownObjects,
    values: Values,
    /// Bindings that wait for an object.
    waiting: BTreeSet<String>,
    needs: BTreeSet<ObjectId>,
    /// The bindings that are being evaluated; each is needed by the one before it.
    path: Vec<String>,
}

impl Run<'_> {
    /// The value of a binding; `None`: it waits for an object.
    fn value(&mut self, binding: Variable<'_>) -> Result<Option<String>, BindingError> {
        if let Some(value) = self.values.get(binding.name) {
            return Ok(Some(value.clone()));
        }
        if self.waiting.contains(binding.name) {
            return Ok(None);
        }
        if let Some(start) = self.path.iter().position(|name| name == binding.name) {
            let cycle = self.path[start..]
                .iter()
                .cloned()
                .chain([binding.name.to_owned()]);
            return Err(BindingError::Cycle(cycle.collect()));
        }
        self.path.push(binding.name.to_owned());
        let place = format!("binding {}", binding.name);
        let value = match (binding.value, binding.field) {
            (Some(text), None) => self.expand(text, &place)?,
            (None, Some(field)) => self.field(binding.name, field, &place)?,
            (Some(_), Some(_)) | (None, None) => return Err(BindingError::Form(binding.name.to_owned())),
        };
        self.path.pop();
        let Some(value) = value else {
            self.waiting.insert(binding.name.to_owned());
            return Ok(None);
        };
        let value = bounded(value, &place)?;
        self.values.insert(binding.name.to_owned(), value.clone());
        Ok(Some(value))
    }

    fn expand(&mut self, text: &str, place: &str) -> Result<Option<String>, BindingError> {
        expand(text, place, |name| {
            if let Some(value) = self.given.get(name) {
                return Ok(Some(value.clone()));
            }
            if let Some(binding) = self.by_name.get(name).copied() {
                return self.value(binding);
            }
            let bindings = self.by_name.keys().map(|name| (*name).to_owned());
            let known: BTreeSet<String> = self.given.keys().cloned().chain(bindings).collect();
            Err(unknown(place, name, known.iter()))
        })
    }

    fn field(
        &mut self,
        binding: &str,
        field: Field<'_>,
        place: &str,
    ) -> Result<Option<String>, BindingError> {
        let (api_version, kind) = (
            self.expand(field.api_version, place)?,
            self.expand(field.kind, place)?,
        );
        let (name, pointer) = (
            self.expand(field.name, place)?,
            self.expand(field.pointer, place)?,
        );
        let (Some(api_version), Some(kind), Some(name), Some(pointer)) = (api_version, kind, name, pointer)
        else {
            return Ok(None);
        };
        if !self.kinds.allow(&api_version, &kind) {
            return Err(BindingError::KindRefused {
                binding: binding.to_owned(),
                kind,
                api_version,
                allowed: self.kinds.names(),
            });
        }
        let object = ObjectId {
            api_version,
            kind,
            namespace: field.namespace.map(str::to_owned),
            name,
        };
        let Some(known) = self.known.get(&object) else {
            self.needs.insert(object);
            return Ok(None);
        };
        let value = known.as_ref().ok_or_else(|| BindingError::ObjectMissing {
            binding: binding.to_owned(),
            object: object.clone(),
        })?;
        let binding = binding.to_owned();
        scalar(
            value,
            FieldPath {
                binding,
                object,
                pointer,
            },
        )
        .map(Some)
    }
}

/// The text of a field.
fn scalar(value: &Value, place: FieldPath) -> Result<String, BindingError> {
    let found = match value.pointer(&place.pointer) {
        Some(Value::String(text)) => return Ok(text.clone()),
        Some(Value::Number(number)) => return Ok(number.to_string()),
        Some(Value::Bool(truth)) => return Ok(truth.to_string()),
        Some(Value::Null) => "null",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "a mapping",
        None => return Err(BindingError::FieldMissing(Box::new(place))),
    };
    let place = Box::new(place);
    Err(BindingError::NotScalar { place, found })
}

/// Replaces the variables of a text; `None` if one of them waits for an object (the others are requested nevertheless).
fn expand(
    text: &str,
    place: &str,
    mut lookup: impl FnMut(&str) -> Result<Option<String>, BindingError>,
) -> Result<Option<String>, BindingError> {
    let parts =
        template::template_parts(text).map_err(|template::Unterminated| BindingError::Unterminated {
            place: place.to_owned(),
        })?;
    let mut all = Some(String::new());
    for part in parts {
        let piece = match part {
            Part::Text(text) => Some(text.to_owned()),
            Part::Name(name) => lookup(name)?,
        };
        all = all.zip(piece).map(|(all, piece)| all + &piece);
        if let Some(all) = &all {
            check_length(all.len(), place)?;
        }
    }
    Ok(all)
}

fn bounded(text: String, place: &str) -> Result<String, BindingError> {
    check_length(text.len(), place).map(|()| text)
}

fn check_length(bytes: usize, place: &str) -> Result<(), BindingError> {
    if bytes <= MAX_VALUE {
        return Ok(());
    }
    Err(BindingError::TooLong {
        place: place.to_owned(),
        bytes,
        max: MAX_VALUE,
    })
}

fn unknown<'a>(place: &str, name: &str, known: impl Iterator<Item = &'a String>) -> BindingError {
    BindingError::Unknown {
        place: place.to_owned(),
        name: name.to_owned(),
        known: known.cloned().collect(),
    }
}
