//! The variables of `postBuild`: inline ones, and those of ConfigMaps and Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use muster_api::flux::{SubstituteReference, SubstituteSourceKind};

use super::{outcome::Failure, settings::Settings};
use crate::{
    reconcile::Context,
    runtime::{Api, CallError, call, call::error_chain},
};

/// All variables by name: later references win over earlier ones, inline ones over all.
pub(super) async fn gather(
    settings: &Settings,
    namespace: &str,
    context: &Context,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = BTreeMap::new();
    for reference in &settings.substitute_from {
        variables.extend(read(reference, namespace, context).await?);
    }
    variables.extend(settings.substitute.clone());
    Ok(variables)
}

async fn read(
    reference: &SubstituteReference,
    namespace: &str,
    context: &Context,
) -> Result<BTreeMap<String, String>, Failure> {
    let name = &reference.name;
    let read = match reference.kind {
        SubstituteSourceKind::ConfigMap => config_map(name, namespace, context).await,
        SubstituteSourceKind::Secret => secret(name, namespace, context).await,
    };
    match read {
        Ok(variables) => variables,
        Err(error) if error.is_not_found() && reference.optional == Some(true) => Ok(BTreeMap::new()),
        Err(error) if error.is_not_found() => Err(Failure::build(format!(
            "substitute from '{:?}/{name}': it does not exist; create it, or mark the reference optional",
            reference.kind
        ))),
        Err(error) => Err(Failure::reconciliation(error_chain(&error)).soon()),
    }
}

type Read = Result<Result<BTreeMap<String, String>, Failure>, CallError>;

async fn config_map(name: &str, namespace: &str, context: &Context) -> Read {
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let object = call(format!("reading ConfigMap {namespace}/{name}"), api.get(name)).await?;
    Ok(Ok(object.data.unwrap_or_default()))
}

async fn secret(name: &str, namespace: &str, context: &Context) -> Read {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let object = call(format!("reading Secret {namespace}/{name}"), api.get(name)).await?;
    let data = object.data.unwrap_or_default();
    Ok(data
        .into_iter()
        .map(|(key, value)| match String::from_utf8(value.0) {
            Ok(text) => Ok((key, text)),
            Err(_) => Err(Failure::build(format!(
                "substitute from 'Secret/{name}': the value of {key} is not UTF-8"
            ))),
        })
        .collect())
}
