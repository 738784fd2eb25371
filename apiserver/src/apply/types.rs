//! One view of types for all traversals: from a custom resource's schema, from a built-in type, or without a type.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::builtin::{self, Field, Scalar, Shape};
use crate::schema::{ListType, MapType, Node, Type};

use super::TypeRef;

/// The type of a value.
#[derive(Clone, Copy)]
pub(super) enum Ty<'a> {
    /// By a schema; with `preserve` unknown fields are kept.
    Custom {
        node: &'a Node,
        resource: bool,
        preserve: bool,
    },
    /// By the table; `atomic` overrides the shape.
    Builtin {
        shape: &'static Shape,
        atomic: Option<bool>,
    },
    /// Unknown: maps are granular, lists atomic.
    Deduced,
    /// Unknown, and treated as one value.
    Opaque,
}

/// The possible forms of a value of a type: for most types exactly one of the three.
#[derive(Clone, Copy)]
pub(super) struct Atom<'a> {
    pub scalar: Option<Scalar>,
    pub list: Option<ListTy<'a>>,
    pub map: Option<MapTy<'a>>,
}

/// The form that a traversal uses.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    Scalar(Scalar),
    List(ListTy<'a>),
    Map(MapTy<'a>),
}

/// A list type, by the identity of its items.
#[derive(Clone, Copy)]
pub(super) struct ListTy<'a> {
    /// Whether items have an identity; other lists are replaced as one.
    pub associative: bool,
    /// Keys of list maps; empty for sets.
    pub keys: &'a [String],
    pub element: Ty<'a>,
}

/// A map or an object.
#[derive(Clone, Copy)]
pub(super) struct MapTy<'a> {
    pub atomic: bool,
    members: Members<'a>,
}

#[derive(Clone, Copy)]
enum Members<'a> {
    Node {
        node: &'a Node,
        resource: bool,
        preserve: bool,
    },
    Fields(&'static BTreeMap<&'static str, Field>),
    Every(&'static Shape),
    Deduced,
    Opaque,
}

const TEXT: &Shape = &Shape::Scalar(Scalar::Text);

impl<'a> Ty<'a> {
    pub(super) fn of(ty: TypeRef<'a>) -> Self {
        match ty {
            TypeRef::Custom(schema) => Self::Custom {
                node: schema.root(),
                resource: true,
                preserve: schema.root().preserve_unknown,
            },
            TypeRef::Builtin(name) => builtin::shape_of(name).map_or(Self::Deduced, Self::builtin),
            TypeRef::Untyped => Self::Deduced,
        }
    }

    fn builtin(shape: &'static Shape) -> Self {
        match shape {
            Shape::Named(_, atomic) => Self::Builtin {
                shape: shape.resolved(),
                atomic: *atomic,
            },
            shape => Self::Builtin { shape, atomic: None },
        }
    }

    fn custom(node: &'a Node, preserve: bool) -> Self {
        Self::Custom {
            node,
            resource: node.embedded,
            preserve: preserve || node.preserve_unknown,
        }
    }

    /// All possible forms of a value of this type.
    pub(super) fn atom(self) -> Atom<'a> {
        match self {
            Self::Custom {
                node,
                resource,
                preserve,
            } => custom_atom(node, resource, preserve),
            Self::Builtin { shape, atomic } => builtin_atom(shape, atomic),
            Self::Deduced => any(
                Ty::Opaque,
                MapTy {
                    atomic: false,
                    members: Members::Deduced,
                },
            ),
            Self::Opaque => any(
                Ty::Opaque,
                MapTy {
                    atomic: true,
                    members: Members::Opaque,
                },
            ),
        }
    }
}

impl<'a> Atom<'a> {
    /// Only the form that fits `value`; all forms if none fits, or if the value is null or absent.
    pub(super) fn fitting(self, value: Option<&Value>) -> Self {
        let none = Self {
            scalar: None,
            list: None,
            map: None,
        };
        match value {
            Some(Value::Object(_)) if self.map.is_some() => Self {
                map: self.map,
                ..none
            },
            Some(Value::Array(_)) if self.list.is_some() => Self {
                list: self.list,
                ..none
            },
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) if self.scalar.is_some() => Self {
                scalar: self.scalar,
                ..none
            },
            _ => self,
        }
    }

    /// The form to use.
    pub(super) fn form(self) -> Form<'a> {
        match (self.map, self.scalar, self.list) {
            (Some(map), ..) => Form::Map(map),
            (None, Some(scalar), _) => Form::Scalar(scalar),
            (None, None, Some(list)) => Form::List(list),
            (None, None, None) => Form::Scalar(Scalar::Untyped),
        }
    }

    pub(super) fn same_forms(&self, other: &Self) -> bool {
        let forms = |atom: &Self| (atom.scalar.is_some(), atom.list.is_some(), atom.map.is_some());
        forms(self) == forms(other)
    }
}

impl<'a> MapTy<'a> {
    /// The type of a declared field.
    pub(super) fn field(&self, name: &str) -> Option<Ty<'a>> {
        match self.members {
            Members::Node {
                node,
                resource,
                preserve,
            } => match name {
                "metadata" if resource => Some(metadata()),
                "apiVersion" | "kind" if resource => Some(Ty::builtin(TEXT)),
                name => node.properties.get(name).map(|node| Ty::custom(node, preserve)),
            },
            Members::Fields(fields) => fields.get(name).map(|field| Ty::builtin(&field.shape)),
            Members::Every(_) | Members::Deduced | Members::Opaque => None,
        }
    }

    /// Type of undeclared fields; `None` if they are not allowed.
    pub(super) fn element(&self) -> Option<Ty<'a>> {
        match self.members {
            Members::Node {
                node,
                preserve,
                resource,
            } => match (node.additional.schema(), node.allows_any()) {
                (Some(schema), _) => Some(Ty::custom(schema, preserve)),
                (None, true) => Some(Ty::Deduced),
                (None, false) => {
                    (preserve || (node.properties.is_empty() && !resource)).then_some(Ty::Deduced)
                }
            },
            Members::Fields(_) => None,
            Members::Every(shape) => Some(Ty::builtin(shape)),
            Members::Deduced => Some(Ty::Deduced),
            Members::Opaque => Some(Ty::Opaque),
        }
    }

    /// The type of the member `name`.
    pub(super) fn member(&self, name: &str) -> Option<Ty<'a>> {
        self.field(name).or_else(|| self.element())
    }

    /// Default of an absent key field.
    pub(super) fn default_of(&self, name: &str) -> Option<&'a Value> {
        match self.members {
            Members::Node { node, .. } => node.properties.get(name)?.default.as_ref(),
            Members::Fields(fields) => fields.get(name)?.default.as_ref(),
            Members::Every(_) | Members::Deduced | Members::Opaque => None,
        }
    }
}

fn metadata<'a>() -> Ty<'a> {
    builtin::shape_of(builtin::OBJECT_META).map_or(Ty::Deduced, Ty::builtin)
}

fn any<'a>(element: Ty<'a>, map: MapTy<'a>) -> Atom<'a> {
    Atom {
        scalar: Some(Scalar::Untyped),
        list: Some(ListTy {
            associative: false,
            keys: &[],
            element,
        }),
        map: Some(map),
    }
}

fn custom_atom(node: &Node, resource: bool, preserve: bool) -> Atom<'_> {
    let map = MapTy {
        atomic: node.map_type == MapType::Atomic,
        members: Members::Node {
            node,
            resource,
            preserve,
        },
    };
    let list = ListTy {
        associative: node.list_type != ListType::Atomic,
        keys: &node.list_keys,
        element: node
            .items
            .as_deref()
            .map_or(Ty::Opaque, |items| Ty::custom(items, preserve)),
    };
    let nothing = Atom {
        scalar: None,
        list: None,
        map: None,
    };
    let text = match node.format.as_deref() {
        None | Some("byte") => Scalar::Text,
        Some(_) => Scalar::Untyped,
    };
    match node.ty {
        _ if resource => Atom {
            map: Some(map),
            ..nothing
        },
        _ if node.int_or_string => Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(list),
            map: Some(map),
        },
        None => Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(list),
            map: Some(map),
        },
        Some(Type::Object) => Atom {
            map: Some(map),
            ..nothing
        },
        Some(Type::Array) => Atom {
            list: Some(list),
            ..nothing
        },
        Some(Type::String) => Atom {
            scalar: Some(text),
            ..nothing
        },
        Some(Type::Integer | Type::Number) => Atom {
            scalar: Some(Scalar::Numeric),
            ..nothing
        },
        Some(Type::Boolean) => Atom {
            scalar: Some(Scalar::Boolean),
            ..nothing
        },
    }
}

fn builtin_atom<'a>(shape: &'static Shape, overridden: Option<bool>) -> Atom<'a> {
    let none = Atom {
        scalar: None,
        list: None,
        map: None,
    };
    let map = |atomic: bool, members| MapTy {
        atomic: overridden.unwrap_or(atomic),
        members,
    };
    match shape {
        Shape::Scalar(scalar) => Atom {
            scalar: Some(*scalar),
            ..none
        },
        Shape::Any | Shape::Named(..) => Ty::Deduced.atom(),
        Shape::Raw => Ty::Opaque.atom(),
        Shape::Object { fields, atomic } => Atom {
            map: Some(map(*atomic, Members::Fields(fields))),
            ..none
        },
        Shape::Map { element, atomic } => Atom {
            map: Some(map(*atomic, Members::Every(element))),
            ..none
        },
        Shape::List(list) => {
            let element = Ty::builtin(&list.item);
            Atom {
                list: Some(ListTy {
                    associative: list.associative,
                    keys: &list.keys,
                    element,
                }),
                ..none
            }
        }
    }
}
