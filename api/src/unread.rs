//! A part of a document that is parsed later, or never. Another version of muster, or a malicious cluster or node, may
//! use values that are unknown here: such a part is ignored, without affecting the other parts.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, value::RawValue};

/// An unparsed part of a document. For a large document, building a generic tree alone is two thirds of the cost of
/// parsing.
#[derive(Clone, Debug)]
pub enum Unread {
    /// The JSON text of the part.
    Text(Box<RawValue>),
    /// A generic value, if the document had already been parsed into one.
    Tree(Value),
}

impl Unread {
    /// Parses the part.
    ///
    /// # Errors
    ///
    /// The part is not a valid `T`.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        match self {
            Self::Text(text) => serde_json::from_str(text.get()),
            Self::Tree(tree) => T::deserialize(tree),
        }
    }
}

/// Deserializes a list, skipping elements that cannot be parsed.
pub(crate) fn readable<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let elements: Option<Vec<Unread>> = Option::deserialize(deserializer)?;
    let elements = elements.unwrap_or_default();
    Ok(elements
        .iter()
        .filter_map(|element| element.read().ok())
        .collect())
}

/// Deserializes an optional value, which is `None` if it cannot be parsed.
pub(crate) fn readable_option<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let unread: Option<Unread> = Option::deserialize(deserializer)?;
    Ok(unread.and_then(|unread| unread.read().ok()))
}

/// The name that requests a value's text from serde_json ([`RawValue`]). Deserializers of already parsed values ignore
/// it.
const AS_TEXT: &str = "$serde_json::private::RawValue";

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(AS_TEXT, UnreadVisitor)
    }
}

struct UnreadVisitor;

impl<'de> Visitor<'de> for UnreadVisitor {
    type Value = Unread;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, text: A) -> Result<Unread, A::Error> {
        <Box<RawValue>>::deserialize(MapAccessDeserializer::new(text)).map(Unread::Text)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, tree: D) -> Result<Unread, D::Error> {
        Value::deserialize(tree).map(Unread::Tree)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str, from_value, json};

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct List {
        #[serde(default, deserialize_with = "readable")]
        numbers: Vec<u8>,
        #[serde(default, deserialize_with = "readable_option")]
        one: Option<u8>,
    }

    #[test]
    fn what_cannot_be_read_takes_nothing_from_the_rest() {
        for (document, numbers, one) in [
            (
                json!({"numbers": [1, "two", {}, null, 3, 1_000], "one": 1}),
                vec![1, 3],
                Some(1),
            ),
            (json!({"numbers": null, "one": null}), vec![], None),
            (json!({"one": {"of": "another"}}), vec![], None),
        ] {
            let expect = List { numbers, one };
            assert_eq!(
                from_str::<List>(&document.to_string()).unwrap(),
                expect,
                "{document}"
            );
            assert_eq!(
                from_value::<List>(document.clone()).unwrap(),
                expect,
                "{document}"
            );
        }
    }

    #[test]
    fn a_document_that_is_no_list_is_refused() {
        for document in [json!({"numbers": 1}), json!({"numbers": {"a": 1}})] {
            assert!(from_str::<List>(&document.to_string()).is_err(), "{document}");
        }
        assert!(from_str::<Value>("[1,").is_err());
        assert!(from_str::<List>(r#"{"numbers": [1,"#).is_err());
    }
}
