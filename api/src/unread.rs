//! A part of a document that is read later, perhaps not at all. Another version of muster, or a cluster or a node that means harm, may use words
//! that are unknown here: such a part says nothing, and takes nothing from the others.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, value::RawValue};

/// A part of a document as it came. Of a large one, a tree of it alone is two thirds of what reading it costs.
#[derive(Clone, Debug)]
pub enum Unread {
    /// Its text.
    Text(Box<RawValue>),
    /// The document had been read into a tree before.
    Tree(Value),
}

impl Unread {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// It is no `T`.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        match self {
            Self::Text(text) => serde_json::from_str(text.get()),
            Self::Tree(tree) => T::deserialize(tree),
        }
    }
}

/// The elements that can be read.
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

/// What is there, if it can be read.
pub(crate) fn readable_option<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let unread: Option<Unread> = Option::deserialize(deserializer)?;
    Ok(unread.and_then(|unread| unread.read().ok()))
}

/// The name by which serde_json is asked for a value's text ([`RawValue`]). What is no text any more ignores it.
const AS_TEXT: &str = "$serde_json::private::RawValue";

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(AS_TEXT, Whole)
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
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
