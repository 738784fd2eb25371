//! What a manifest says that is not meant for the server, or that server-side apply takes otherwise than `kubectl` does. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::{Map, Value};

use super::managed::LAST_APPLIED;
use crate::inventory::ObjectId;

/// The fields of metadata that belong to the server. In a manifest they are left-overs of an export.
pub(super) const SERVER_METADATA: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
];

/// Takes left-overs of an export out of an object, and says the rest as server-side apply understands it; Flux does the same.
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

/// The rules of a role that aggregates others are written by a controller in the cluster. Manifests carry `rules: []` as a placeholder,
/// and whatever is applied there would be overwritten, and applied again, forever.
fn drop_aggregated_rules(role: &mut Map<String, Value>) {
    if role.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        role.remove("rules");
    }
}

/// `stringData` into `data`. Of server-side apply's fields `stringData` is write-only: a key that leaves it would stay in
/// `data` for ever. Values that are no text are left for the server to refuse.
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

/// Placeholders for a `caBundle` (cert-manager's is a line feed) are filled in by a controller in the cluster; API servers
/// since 1.31 refuse them in definitions.
fn drop_placeholder(client: Option<&mut Value>) {
    let Some(client) = client.and_then(Value::as_object_mut) else {
        return;
    };
    let bundle = client.get("caBundle").and_then(Value::as_str);
    if bundle.is_some_and(|bundle| !holds_certificates(bundle)) {
        client.remove("caBundle");
    }
}

/// Whether it is base64 of PEM, in it a certificate that can be read: what an API server asks of it.
fn holds_certificates(bundle: &str) -> bool {
    let Ok(pem) = STANDARD.decode(bundle) else {
        return false;
    };
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok); // others do no harm
    let (read, _) = RootCertStore::empty().add_parsable_certificates(certificates);
    read > 0
}
