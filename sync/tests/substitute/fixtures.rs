//! Substitutions: the results of Flux's envsubst (`cargo xtask fixtures`) compared to ours.
//!
//! Equal, or an error for both, or marked as a deviation: then ours is an error that names what is not supported.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_sync::substitute::{Variables, expand};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    variables: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    value: Option<String>,
    /// Why ours is an error where envsubst has a value, or vice versa.
    deviation: Option<String>,
}

#[test]
fn texts_become_what_envsubst_makes_of_them() {
    let fixture: Fixture =
        serde_json::from_str(include_str!("../fixtures/substitute/envsubst.json")).unwrap();
    assert!(fixture.cases.len() >= 200, "{}", fixture.cases.len());
    let variables = Variables::new(&fixture.variables).unwrap();
    let mut problems = String::new();
    let mut errors = String::new();
    for Case {
        text,
        value,
        deviation,
    } in &fixture.cases
    {
        let ours = expand(text, &variables);
        let agree = ours.as_ref().ok() == value.as_ref();
        let marked_well = match deviation {
            None => agree,
            Some(_) => !agree && ours.is_err(),
        };
        if !marked_well {
            writeln!(
                problems,
                "{text:?}: envsubst {value:?}, ours {ours:?}, marked {deviation:?}"
            )
            .unwrap();
        }
        if let Err(error) = ours {
            writeln!(errors, "{text:?}\n    {error}").unwrap();
        }
    }
    assert!(problems.is_empty(), "{problems}");
    insta::assert_snapshot!("errors_of_texts", errors);
}
