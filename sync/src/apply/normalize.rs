//! Removes what is not meant for the server from a manifest, and converts what server-side apply treats differently
//! from client-side apply. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::{Map, Value};

use super::managed::LAST_APPLIED;
use crate::inventory::ObjectId;

/// Metadata fields that the server sets. In a manifest they are leftovers of an export.
pub(super) const SERVER_METADATA: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
];

/// Removes leftovers of an export from an object, and normalizes the rest for server-side apply, as Flux does.
pub(super) fn normalize(id: &ObjectId, object: &mut Map<String, Value>) {
    object.remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_METADATA {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    match (id.group.as_str(), id.kind.as_str()) {
        ("", "Secret") => encode_string_data(object),
        ("rbac.authorization.k8s.io", "ClusterRole") => drop_aggregated_rules(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let client = object
                .get_mut("spec")
                .and_then(|spec| spec.pointer_mut("/conversion/webhook/clientConfig"));
            drop_placeholder(client);
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                drop_placeholder(webhook.get_mut("clientConfig"));
            }
        }
        _ => {}
    }
}

/// The rules of an aggregated ClusterRole are written by a controller in the cluster. Manifests contain `rules: []` as
/// a placeholder; rules applied there would be overwritten and applied again, forever.
fn drop_aggregated_rules(role: &mut Map<String, Value>) {
    if role.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        role.remove("rules");
    }
}

/// Moves `stringData` into `data`. With server-side apply `stringData` is write-only: a key that is removed from it
/// would stay in `data` forever. Values that are not text are left for the server to refuse.
fn encode_string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(texts)) = secret.get("stringData") else {
        return;
    };
    let encoded: Option<Map<String, Value>> = texts
        .iter()
        .map(|(key, text)| Some((key.clone(), STANDARD.encode(text.as_str()?).into())))
        .collect();
    let Some(encoded) = encoded else { return };
    match secret.get_mut("data") {
        Some(Value::Object(data)) => data.extend(encoded),
        None | Some(Value::Null) => {
            secret.insert("data".to_owned(), Value::Object(encoded));
        }
        Some(_) => return,
    }
    secret.remove("stringData");
}

/// Placeholders for a `caBundle` (cert-manager's is a newline) are filled in by a controller in the cluster; API
/// servers since 1.31 refuse them in definitions.
fn drop_placeholder(client: Option<&mut Value>) {
    let Some(client) = client.and_then(Value::as_object_mut) else {
        return;
    };
    let bundle = client.get("caBundle").and_then(Value::as_str);
    if bundle.is_some_and(|bundle| !holds_certificates(bundle)) {
        client.remove("caBundle");
    }
}

/// Whether it is base64 of PEM with a valid certificate, as the API server requires.
fn holds_certificates(bundle: &str) -> bool {
    let Ok(pem) = STANDARD.decode(bundle) else {
        return false;
    };
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok); // others do no harm
    let (read, _) = RootCertStore::empty().add_parsable_certificates(certificates);
    read > 0
}
