//! Where a value is in an object. The text is only built for messages, as most values are valid.

use std::fmt;

/// A path from the root of an object to a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'a> {
    /// The root, printed as this text.
    Root(&'a str),
    /// A declared field: `spec.size`.
    Field(&'a Self, &'a str),
    /// A field that is printed with a dot even below an empty root: `.size`.
    Member(&'a Self, &'a str),
    /// A key of a map: `labels[app]`.
    Key(&'a Self, &'a str),
    /// An item of a list: `items[0]`.
    Item(&'a Self, usize),
}

impl Path<'_> {
    /// Whether this is the root of a resource, which prints nothing.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Root(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(text) => f.write_str(text),
            Self::Field(parent, name) if parent.is_empty() => f.write_str(name),
            Self::Field(parent, name) | Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, name) => write!(f, "{parent}[{name}]"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn paths_are_printed_like_those_of_the_real_server() {
        let (empty, status) = (Path::Root(""), Path::Root("status"));
        let items = Path::Field(&empty, "items");
        let item = Path::Item(&items, 2);
        for (path, text) in [
            (Path::Field(&empty, "spec"), "spec"),
            (Path::Member(&empty, "spec"), ".spec"),
            (Path::Field(&status, "phase"), "status.phase"),
            (Path::Key(&item, "app"), "items[2][app]"),
            (Path::Field(&item, "name"), "items[2].name"),
        ] {
            assert_eq!(path.to_string(), text);
        }
    }
}
