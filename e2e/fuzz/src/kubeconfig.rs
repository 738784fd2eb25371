//! Laws of kubeconfigs: nothing forbidden is accepted, accepted values are those of the text, no error shows a value,
//! no file is opened.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_controllers::hosts::Hosts;
use muster_controllers::registry::kubeconfig::{self, Access};
use serde_json::Value;

use crate::sandbox;

/// Pieces of interesting texts, for dictionaries and generators.
pub const TOKENS: &[&str] = &[
    "apiVersion: v1\n",
    "kind: Config\n",
    "current-context: a\n",
    "contexts:\n",
    "clusters:\n",
    "users:\n",
    "- name: a\n",
    "  context: {cluster: a, user: a}\n",
    "  cluster:\n",
    "  user:\n",
    "    server: https://a:6443\n",
    "    certificate-authority-data: Q0E=\n",
    "    token: hunter2\n",
    "    client-certificate-data: Q0E=\n",
    "    client-key-data: Q0E=\n",
    "    tls-server-name: a\n",
    "    tls-server-name: \"a b\"\n",
    "    token: |\n      hunter2\n",
    "    token: \"a\\0hunter2\"\n",
    "    server: \" https://a:6443/b/\\n\"\n",
    "    server: https://a:65536\n",
    "    server: https://a..b\n",
    "\\n\"\n",
    "\\u0007",
    ":0",
    ":443/",
    "    insecure-skip-tls-verify: ",
    "    certificate-authority: /etc/ca\n",
    "    proxy-url: http://a\n",
    "    exec: {command: sh}\n",
    "    auth-provider: {name: gcp}\n",
    "    tokenFile: /etc/passwd\n",
    "    client-certificate: /etc/a\n",
    "    client-key: /etc/a\n",
    "    as: root\n",
    "    as-uid: '1'\n",
    "    as-groups: [a]\n",
    "    as-user-extra: {a: [b]}\n",
    "    username: a\n",
    "    password: hunter2\n",
    "    namespace: a\n",
    "    extensions: []\n",
    "    disable-compression: true\n",
    "preferences: {}\n",
    "true\n",
    "false\n",
    "null\n",
    "~",
    "http://a",
    "https://",
    "https://a@b",
    "https://a?b",
    "https://[::1]",
    "<<: *a\n",
    "&a ",
    "*a",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ": ",
    ", ",
    "\n",
    "  ",
    "- ",
    "\t",
    "a",
    "x: y\n",
    "hunter2",
];

/// All other fields of a user or cluster entry are rejected, whatever their values.
const HARMLESS: &[&str] = &[
    "server",
    "certificate-authority-data",
    "tls-server-name",
    "disable-compression",
    "extensions",
    "token",
    "client-certificate-data",
    "client-key-data",
];

/// A text that no message of muster contains, and which therefore reveals a leaked value.
const CANARY: &str = "hunter2";

/// The laws, for the bytes of a kubeconfig.
pub fn check(bytes: &[u8]) {
    // Parsed as by a controller that allows no proxy.
    let parsed = sandbox::run(|| {
        kubeconfig::parse_kubeconfig(bytes).and_then(|access| access.admit(&Hosts::default()))
    });
    let document = muster_sync::yaml::to_json(bytes).unwrap_or_default();
    let shown = match &parsed {
        Ok(access) => format!("{access:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    if !names(&document).iter().any(|name| name.contains(CANARY)) {
        assert!(!shown.contains(CANARY), "a value is shown: {shown}");
    }
    assert!(
        !shown.contains(char::is_control),
        "a control character is shown: {shown:?}"
    );
    if let Ok(access) = parsed {
        assert_is(&access, &document);
    }
}

/// The accepted entry is in the text, its name is unique, and it has allowed fields only.
fn assert_is(access: &Access, document: &Value) {
    let (server, user) = used(document);
    let entries = server.iter().map(|(field, value)| ("cluster", field, value));
    for (entry, field, value) in entries.chain(user.iter().map(|(field, value)| ("user", field, value))) {
        let explicitly_off = field == "insecure-skip-tls-verify" && value == &Value::Bool(false);
        let harmless = value.is_null() || HARMLESS.contains(&field.as_str()) || explicitly_off;
        assert!(harmless, "{field} of the {entry} is accepted: {document}");
    }
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let written = text(server.get("server")).unwrap_or_default();
    assert!(
        written == access.server && written.starts_with("https://"),
        "{document}"
    );
    let token = access.token.as_ref().map(kubeconfig::Secret::expose);
    let sent = [Some(&access.server), access.tls_server_name.as_ref(), token];
    for text in sent.into_iter().flatten() {
        assert!(!text.contains(char::is_control), "it cannot be sent: {document}");
    }
    let decoded = |value: Option<&Value>| {
        let packed = text(value)?.replace(|c: char| c.is_ascii_whitespace(), "");
        STANDARD.decode(packed).ok()
    };
    assert!(
        decoded(server.get("certificate-authority-data")).as_ref() == Some(&access.certificate_authority),
        "{document}"
    );
    assert!(
        text(server.get("tls-server-name")) == access.tls_server_name,
        "{document}"
    );
    assert!(
        text(user.get("token")).as_ref() == access.token.as_ref().map(kubeconfig::Secret::expose),
        "{document}"
    );
    let certificate = access.client_certificate.as_ref();
    let pair = decoded(user.get("client-certificate-data")).zip(decoded(user.get("client-key-data")));
    assert!(
        pair == certificate.map(|(certificate, key)| (certificate.clone(), key.expose().clone())),
        "{document}"
    );
}

type Fields = serde_json::Map<String, Value>;

/// The cluster and the user of the current context.
fn used(document: &Value) -> (Fields, Fields) {
    let entry = |list: &str, name: &Value, inner: &str| {
        let entries = document[list].as_array().cloned().unwrap_or_default();
        let mut named = entries.iter().filter(|entry| entry["name"] == *name);
        let fields = named.next().and_then(|entry| entry[inner].as_object()).cloned();
        assert!(
            fields.is_some() && named.next().is_none(),
            "not one {inner} {name} in {document}"
        );
        fields.unwrap_or_default()
    };
    let context = entry("contexts", &document["current-context"], "context");
    (
        entry("clusters", &context["cluster"], "cluster"),
        entry("users", &context["user"], "user"),
    )
}

/// What an error may contain: names of fields and of entries.
fn names(document: &Value) -> Vec<String> {
    match document {
        Value::Array(items) => items.iter().flat_map(names).collect(),
        Value::Object(members) => {
            let below = members.iter().flat_map(|(field, value)| {
                let mut below = names(value);
                if matches!(
                    field.as_str(),
                    "name" | "cluster" | "user" | "current-context" | "server" | "tls-server-name"
                ) {
                    below.extend(value.as_str().map(str::to_owned));
                }
                below.push(field.clone());
                below
            });
            below.collect()
        }
        _ => Vec::new(),
    }
}
