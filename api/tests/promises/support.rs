//! Shared helpers of the tests: the kinds by name, and their schemas as an API server reads them.
use std::{collections::BTreeMap, sync::LazyLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use muster_api::crds;
use muster_apiserver::schema::{Changed, Schema};
use serde_json::Value;

/// muster's CRDs for fleets and nodes.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    let all = [
        crds::management(),
        crds::downstream(),
        crds::nodes(),
        crds::machines(),
        crds::upgrades(),
    ];
    all.into_iter().flatten().collect()
}

/// The schema of a CRD as JSON.
pub(crate) fn openapi(definition: &CustomResourceDefinition) -> Value {
    let schema = definition.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.as_ref().expect("a schema")).unwrap()
}

/// The schema of one of muster's kinds as an API server reads it.
pub(crate) fn schema(kind: &str) -> &'static Schema {
    static SCHEMAS: LazyLock<BTreeMap<String, Schema>> = LazyLock::new(|| {
        let parse = |definition: &CustomResourceDefinition| {
            let kind = definition.spec.names.kind.clone();
            let schema =
                Schema::parse(&openapi(definition)).unwrap_or_else(|causes| panic!("{kind}: {causes:#?}"));
            (kind, schema)
        };
        definitions().iter().map(parse).collect()
    });
    &SCHEMAS[kind]
}

/// YAML as JSON.
pub(crate) fn yaml(text: &str) -> Value {
    // Parsed as it is printed: scalars such as `on` are strings.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap()
}

/// The object as an API server stores it, or its error messages.
pub(crate) fn admit(object: &Value, old: Option<&Value>) -> Result<Value, Vec<String>> {
    let schema = schema(object["kind"].as_str().unwrap());
    let mut stored = object.clone();
    let dropped = schema.prune(&mut stored, &Changed::Whole);
    assert!(dropped.is_empty(), "unknown fields: {dropped:?}");
    schema.default(&mut stored, &Changed::Whole);
    let causes = schema.validate(&stored, old, &Changed::Whole);
    if causes.is_empty() {
        Ok(stored)
    } else {
        Err(causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect())
    }
}
