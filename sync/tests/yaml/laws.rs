//! Properties of every text.

use muster_sync::yaml;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any JSON that a manifest could contain; no floats, whose text is not unique.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~\\n\\tä€😀]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "yes",
            "~",
            "0644",
            "1e3",
            "<<",
            "${N}",
            "- a",
            "a: b",
            "# c",
            "|",
            "2024-01-01"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z~<.0-9]{1,6}", inner, 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the bytes, there is a result, and an error has a position in the text.
    #[test]
    fn no_text_stops_the_reader(text in "([-?:,\\[\\]{}#&*!|>'\"%@` \\n\\t.a0~<]|\\PC|--- |\\.\\.\\.\\n|&a |\\*a|<<: |!!str |\\r\\n){0,40}") {
        let outcome = yaml::documents("f", text.as_bytes())
            .and_then(|documents| documents.iter().map(yaml::Document::value).collect::<Result<Vec<_>, _>>());
        if let Err(error) = outcome {
            prop_assert!(error.at.line >= 1 && error.at.column >= 1, "{error}");
            prop_assert!(error.at.line <= text.lines().count() + 2, "{error} in {text:?}");
        }
    }

    /// JSON is read as JSON, in a separate file and as a value in YAML.
    #[test]
    fn json_is_read_as_it_is(value in json()) {
        let object = serde_json::json!({"x": value});
        prop_assert_eq!(&yaml::to_json(serde_json::to_string_pretty(&object).unwrap()).unwrap(), &object);
        prop_assert_eq!(&yaml::to_json(format!("# yaml\n{object}\n")).unwrap(), &object);
    }
}
