//! The table in memory, parsed on first use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

/// Type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    Text,
    Boolean,
    /// Any scalar.
    Untyped,
}

/// A list, by the identity of its items.
#[derive(Debug)]
pub(crate) struct ListShape {
    pub item: Shape,
    /// Whether items have an identity: their value, or their keys.
    pub associative: bool,
    /// Keys of a list map; empty for sets.
    pub keys: Vec<String>,
}

/// The shape of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    Scalar(Scalar),
    /// No type is known: maps are granular, lists atomic.
    Any,
    /// One atomic value.
    Raw,
    Object {
        fields: BTreeMap<&'static str, Field>,
        atomic: bool,
    },
    Map {
        element: Box<Self>,
        atomic: bool,
    },
    List(Box<ListShape>),
    /// The type with this name; `Some` overrides whether it is atomic.
    Named(&'static str, Option<bool>),
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strategy {
    /// Lists are merged instead of replaced.
    pub merge: bool,
    /// Key by which objects in such a list are merged.
    pub merge_key: Option<String>,
    /// Whether `$retainKeys` is supported.
    pub retain_keys: bool,
    /// Objects are replaced instead of merged.
    pub replace: bool,
}

/// One field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub shape: Shape,
    pub required: bool,
    pub default: Option<Value>,
    pub strategy: Strategy,
}

/// All built-in types.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub types: BTreeMap<&'static str, Shape>,
    /// The type of each kind, by apiVersion and kind.
    pub kinds: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
}

/// The committed table.
pub(crate) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table.txt")));
    &TABLE
}

/// The shape of the type `name`.
pub(crate) fn shape_of(name: &str) -> Option<&'static Shape> {
    table().types.get(name)
}

impl Shape {
    /// Resolves names until a shape is found.
    pub(crate) fn resolved(&'static self) -> &'static Self {
        let mut shape = self;
        while let Self::Named(name, _) = shape {
            // Tests make sure that the table has every name.
            shape = shape_of(name).unwrap_or(&Self::Any);
        }
        shape
    }
}

impl Table {
    /// Parses the format that [`super::generate_type_table()`] describes. Invalid lines are skipped; a test makes sure
    /// that there are none.
    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut current: Option<(&'static str, BTreeMap<&'static str, Field>, bool)> = None;
        for line in text.lines() {
            if let Some(field) = line.strip_prefix(' ') {
                if let (Some((_, fields, _)), Some((name, rest))) = (&mut current, field.split_once(' ')) {
                    fields.insert(name, Field::read(rest));
                }
                continue;
            }
            if let Some((name, fields, atomic)) = current.take() {
                table.types.insert(name, Shape::Object { fields, atomic });
            }
            let words: Vec<&'static str> = line.split(' ').collect();
            match words.as_slice() {
                ["type", name] => current = Some((name, BTreeMap::new(), false)),
                ["type", name, "atomic"] => current = Some((name, BTreeMap::new(), true)),
                ["type", name, "=", shape] => {
                    table.types.insert(name, read_shape(shape));
                }
                ["kind", api_version, kind, name] => {
                    table.kinds.entry(api_version).or_default().insert(kind, name);
                }
                _ => {}
            }
        }
        table
    }
}

impl Field {
    fn read(text: &'static str) -> Self {
        let mut words = text.split(' ');
        let mut field = Self {
            shape: read_shape(words.next().unwrap_or_default()),
            required: false,
            default: None,
            strategy: Strategy::default(),
        };
        for word in words {
            let (word, value) = word.split_once('=').unwrap_or((word, ""));
            match word {
                "set" => field.associate(Vec::new()),
                "map" => field.associate(value.split(',').map(str::to_owned).collect()),
                "atomic" => field.shape.set_atomic(true),
                "granular" => field.shape.set_atomic(false),
                "req" => field.required = true,
                // Defaults are JSON written by `generate`.
                "def" => field.default = serde_json::from_str(value).ok(),
                "merge" => {
                    field.strategy.merge = true;
                    field.strategy.merge_key = Some(value.to_owned()).filter(|key| !key.is_empty());
                }
                "retain" => field.strategy.retain_keys = true,
                "replace" => field.strategy.replace = true,
                _ => {}
            }
        }
        field
    }

    fn associate(&mut self, keys: Vec<String>) {
        if let Shape::List(list) = &mut self.shape {
            list.associative = true;
            list.keys = keys;
        }
    }
}

impl Shape {
    fn set_atomic(&mut self, to: bool) {
        match self {
            Self::Map { atomic, .. } | Self::Object { atomic, .. } => *atomic = to,
            Self::Named(_, atomic) => *atomic = Some(to),
            _ => {}
        }
    }
}

fn read_shape(text: &'static str) -> Shape {
    if let Some(item) = text.strip_prefix("[]") {
        let list = ListShape {
            item: read_shape(item),
            associative: false,
            keys: Vec::new(),
        };
        return Shape::List(Box::new(list));
    }
    if let Some(element) = text.strip_prefix("{}") {
        return Shape::Map {
            element: Box::new(read_shape(element)),
            atomic: false,
        };
    }
    if let Some(name) = text.strip_prefix('@') {
        return Shape::Named(name, None);
    }
    match text {
        "str" => Shape::Scalar(Scalar::Text),
        "num" => Shape::Scalar(Scalar::Numeric),
        "bool" => Shape::Scalar(Scalar::Boolean),
        "scalar" => Shape::Scalar(Scalar::Untyped),
        "raw" => Shape::Raw,
        _ => Shape::Any,
    }
}
