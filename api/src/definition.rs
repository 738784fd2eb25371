//! Builds the CustomResourceDefinition of a kind: its schema, the columns of `kubectl get`, and the labels of objects
//! that muster installs.

pub mod columns;
pub(crate) mod structural;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
        CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
        CustomResourceSubresources, CustomResourceValidation,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use schemars::JsonSchema;

use crate::labels;

/// The CRD of one of muster's kinds. Called by the `kind!` macro.
pub(crate) fn definition<K>(
    short_name: &str,
    scope: &str,
    columns: Vec<CustomResourceColumnDefinition>,
) -> CustomResourceDefinition
where
    K: Resource<DynamicType = ()> + JsonSchema,
{
    let kind = K::kind(&()).into_owned();
    let plural = K::plural(&()).into_owned();
    let group = K::group(&()).into_owned();
    let version = CustomResourceDefinitionVersion {
        name: K::version(&()).into_owned(),
        served: true,
        storage: true,
        additional_printer_columns: Some(columns),
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: structural::schema::<K>(),
        }),
        subresources: Some(CustomResourceSubresources {
            scale: None,
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
        }),
        ..Default::default()
    };
    ours(CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{plural}.{group}")),
            ..Default::default()
        },
        spec: CustomResourceDefinitionSpec {
            group,
            names: CustomResourceDefinitionNames {
                categories: Some(vec![labels::CATEGORY.to_owned()]),
                list_kind: Some(format!("{kind}List")),
                singular: Some(kind.to_lowercase()),
                short_names: Some(vec![short_name.to_owned()]),
                kind,
                plural,
            },
            scope: scope.to_owned(),
            versions: vec![version],
            ..Default::default()
        },
        status: None,
    })
}

/// The CRD with muster's labels.
pub(crate) fn ours(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels = definition.metadata.labels.get_or_insert_default();
    for key in [labels::label::APP_MANAGED_BY, labels::label::APP_PART_OF] {
        labels.insert(key.to_owned(), labels::MUSTER.to_owned());
    }
    definition
}
