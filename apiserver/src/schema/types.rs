//! Types of values in a schema.

/// JSON type in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) const ALL: [Self; 6] = [
        Self::Object,
        Self::Array,
        Self::String,
        Self::Integer,
        Self::Number,
        Self::Boolean,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Unique scalars.
    Set,
    /// Objects, identified by the values of their keys.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each entry has its own owner.
    #[default]
    Granular,
    /// Replaced as a whole.
    Atomic,
}
