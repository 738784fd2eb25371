//! Redacts what goes into a bundle. Pure.
//!
//! Three filters, each for what slips through the others: fields that are known to hold secrets are blanked, text that
//! looks like a credential is masked, and every value of a Secret that the reader could read is masked wherever it
//! appears.
//!
//! Invariant: everything that is written into a bundle went through this module.

use std::{collections::BTreeSet, sync::LazyLock};

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// The replacement of a redacted value.
pub const MASK: &str = "***";
/// Annotations that repeat a whole object.
const COPIES: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];
/// Maps whose values may contain anything.
const BLANKED_MAPS: [&str; 2] = ["substitute", "values"];
/// Keys of Secrets whose values are public, or common words.
const PUBLIC_KEYS: [&str; 6] = [
    "username",
    "namespace",
    "ca.crt",
    "tls.crt",
    "known_hosts",
    "type",
];
/// Shorter values are common words rather than secrets, and would be masked everywhere.
const SHORTEST: usize = 6;
/// A word of this length within a value that mixes character classes is a token or a key.
const WORD: usize = 20;

/// Patterns of credentials: `before` stays, `value` is masked. They are constants, and a test compiles them.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        // The user info of a URL.
        r"(?<before>[A-Za-z][A-Za-z0-9+.-]*://)(?<value>[^/\s@]+)(?<after>@)",
        // A parameter, variable or flag with a telltale name.
        r#"(?i)(?<before>[a-z0-9_.-]*(?:token|password|passwd|secret|api[_-]?key|access[_-]?key|signature)s?=["']?)(?<value>[^\s"'&,;{}\[\]]+)"#,
        // A field with a telltale name. What follows `secret:` in a message is not a secret: "reading the secret: not
        // found".
        r#"(?i)(?<before>[a-z0-9_.-]*(?:token|password|passwd|api[_-]?key|access[_-]?key|clientsecret)["']?:[ \t]*["']?)(?<value>[^\s"'&,;{}\[\]]+)"#,
        r"(?i)(?<before>\b(?:bearer|basic)\s+)(?<value>[A-Za-z0-9._~+/=-]{8,})",
        // Tokens with the prefixes of GitLab, Slack, GitHub, AWS, npm, Vault and others.
        r"(?<value>\b(?:glpat-|xox[abeprs]-|gh[oprsu]_|github_pat_|AKIA|npm_|hvs\.|sk-)[A-Za-z0-9_.-]{12,})",
        // JSON Web Tokens.
        r"(?<value>\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*)",
        r"(?s)(?<value>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))",
    ];
    // A test finds invalid patterns.
    patterns
        .into_iter()
        .filter_map(|pattern| Regex::new(pattern).ok())
        .collect()
});

/// The values that must not appear.
#[derive(Default)]
pub struct SecretValues(BTreeSet<String>);

impl SecretValues {
    /// Registers a value of a Secret: plain, in base64, and the keys and tokens within it.
    pub fn learn(&mut self, key: &str, value: &[u8]) {
        if PUBLIC_KEYS.contains(&key) {
            return;
        }
        if value.len() >= SHORTEST {
            self.0.insert(STANDARD.encode(value));
        }
        let Ok(text) = std::str::from_utf8(value) else {
            return;
        };
        let text = text.trim();
        if text.len() >= SHORTEST && !text.contains('\n') {
            self.0.insert(text.to_owned());
            self.0.insert(STANDARD.encode(text));
        }
        let words = text.split(|c: char| c.is_whitespace() || "\"',;:={}[]".contains(c));
        let words = words.filter(|word| word.len() >= WORD && is_mixed(word));
        self.0.extend(words.map(str::to_owned));
    }
}

/// The text with everything masked that looks like a credential.
pub fn without_credentials(mut text: String) -> String {
    for pattern in PATTERNS.iter() {
        text = pattern.replace_all(&text, masked).into_owned();
    }
    text
}

/// Masks the registered values, and text that looks like a credential.
pub struct Redactor {
    /// Matches all values at once: a bundle is read once, however many Secrets there are. The longest match wins, as
    /// one value may be a part of another.
    known: AhoCorasick,
}

impl Redactor {
    /// Builds a mask of these values; fails if there are too many for a matcher.
    pub fn of(known: &SecretValues) -> Result<Self, BuildError> {
        let known = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&known.0)?;
        Ok(Self { known })
    }

    /// The text without credentials.
    pub fn text(&self, raw: &str) -> String {
        let mut text = String::with_capacity(raw.len());
        self.known.replace_all_with(raw, &mut text, |_, _, text| {
            text.push_str(MASK);
            true
        });
        without_credentials(text)
    }

    /// The object without credentials and managed fields.
    pub fn object(&self, object: &Value) -> Value {
        let mut object = self.value(object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                for copy in COPIES {
                    annotations.remove(copy);
                }
            }
        }
        object
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::Object(fields) => Value::Object(self.fields(fields)),
            other => other.clone(),
        }
    }

    fn fields(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        let is_variable = fields.contains_key("name") && fields.contains_key("value");
        let fields = fields.iter().map(|(key, value)| {
            let value = match value {
                // An environment variable, or a header.
                Value::String(_) if is_variable && key == "value" => Value::from(MASK),
                Value::Object(map) if BLANKED_MAPS.contains(&key.as_str()) => blanked(map),
                Value::String(_) if is_telling(key) => Value::from(MASK),
                other => self.value(other),
            };
            // A key may contain a value, as in `MUSTER_X=…`.
            (self.text(key), value)
        });
        fields.collect()
    }
}

/// Keeps the keys and masks the values.
fn blanked(map: &Map<String, Value>) -> Value {
    let blank = map.iter().map(|(key, value)| match value {
        Value::String(_) => (key.clone(), Value::from(MASK)),
        other => (key.clone(), other.clone()),
    });
    Value::Object(blank.collect())
}

/// Whether the name of a field says that it holds a secret. `token` of a row is a number, and is kept.
fn is_telling(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    [
        "password",
        "passwd",
        "token",
        "apikey",
        "privatekey",
        "client-key-data",
        "clientsecret",
        "authorization",
    ]
    .contains(&key.as_str())
}

fn is_mixed(word: &str) -> bool {
    word.chars().any(|c| c.is_ascii_digit())
        && word.chars().any(|c| c.is_ascii_uppercase())
        && word.chars().any(|c| c.is_ascii_lowercase())
}

/// The match with its value masked. Numbers are kept: the token of a row is one.
fn masked(found: &Captures<'_>) -> String {
    let part = |name: &str| found.name(name).map(|part| part.as_str()).unwrap_or_default();
    let value = part("value");
    let value = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        value
    } else {
        MASK
    };
    format!("{}{value}{}", part("before"), part("after"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(PATTERNS.len(), 7);
    }

    fn nothing_known() -> Redactor {
        Redactor::of(&SecretValues::default()).unwrap()
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(nothing_known().text(text), expect);
    }

    #[test]
    fn credential_like_text_is_masked() {
        check(
            "clone https://ann:canary@git.example.com/x failed",
            "clone https://***@git.example.com/x failed",
        );
        check(
            "GET https://x/q?query=up&access_token=canary&a=b",
            "GET https://x/q?query=up&access_token=***&a=b",
        );
        check(
            "cloning with glpat-canarycanary failed",
            "cloning with *** failed",
        );
        check("xoxb-1234567890-canary, ghp_canarycanarycanary", "***, ***");
        check("--password=canary", "--password=***");
        check("PASSWORD: canary", "PASSWORD: ***");
        check("Authorization: Bearer canarycanary", "Authorization: Bearer ***");
        check("token eyJhbGciOi.eyJzdWIi.c2ln rejected", "token *** rejected");
        check(
            "a\n-----BEGIN RSA PRIVATE KEY-----\ncanary\n-----END RSA PRIVATE KEY-----\nb",
            "a\n***\nb",
        );
        check("-----BEGIN PRIVATE KEY-----\ncanary", "***");
        check("{\"clientSecret\": \"canary\"}", "{\"clientSecret\": \"***\"}");
    }

    #[test]
    fn what_is_no_credential_stays() {
        for text in [
            "Deployment web: 1/2 replicas ready (podinfo@v1.2.3)",
            "sha256:0123456789abcdef",
            "https://git.example.com/fleet",
            "apiVersion: fleet.muster.dev/v1alpha1",
            "token: 7",
            "reading the secret: not found",
            "serviceAccountToken:\n  path: token",
            "the API server refuses the credential: Unauthorized",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn values_of_secrets_are_masked_wherever_they_are() {
        let mut known = SecretValues::default();
        known.learn("password", b"hunter2hunter2\n");
        known.learn("username", b"prometheus");
        known.learn("value", b"users: [{user: {token: aB3aB3aB3aB3aB3aB3aB3}}]");
        assert_eq!(
            Redactor::of(&known)
                .unwrap()
                .text("prometheus said hunter2hunter2, aHVudGVyMmh1bnRlcjI= and aB3aB3aB3aB3aB3aB3aB3"),
            "prometheus said ***, *** and ***"
        );
    }

    #[test]
    fn a_value_that_begins_as_another_is_masked_whole() {
        let mut known = SecretValues::default();
        known.learn("a", b"canary");
        known.learn("b", b"canary-in-a-mine");
        let redactor = Redactor::of(&known).unwrap();
        assert_eq!(
            redactor.text("canary-in-a-mine, canary-in-a-cage"),
            "***, ***-in-a-cage"
        );
    }

    #[test]
    fn fields_that_hold_secrets_are_blanked_and_copies_dropped() {
        let object = json!({
            "metadata": {"name": "web", "managedFields": [], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "canary", "a": "b"}},
            "spec": {
                "env": [{"name": "X", "value": "canary"}, {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                "postBuild": {"substitute": {"A": "canary"}}, "syncs": [{"name": "x", "token": 7, "values": {"B": "canary"}}],
            },
        });
        let expect = json!({
            "metadata": {"name": "web", "annotations": {"a": "b"}},
            "spec": {
                "env": [{"name": "X", "value": "***"}, {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                "postBuild": {"substitute": {"A": "***"}}, "syncs": [{"name": "x", "token": 7, "values": {"B": "***"}}],
            },
        });
        assert_eq!(nothing_known().object(&object), expect);
    }
}
