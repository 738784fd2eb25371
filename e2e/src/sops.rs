//! A Secret that SOPS encrypted for a key that only tests have: how it was made is in `e2e/fixtures/sops/README.md`.

use serde_json::{Value, json};

/// The manifest, as it lies in a folder.
pub const SECRET: &str = include_str!("../fixtures/sops/secret.yaml");
/// The key of age that decrypts it.
pub const AGE_KEY: &str = include_str!("../fixtures/sops/test.agekey");
/// The name of the Secret; it has no namespace.
pub const NAME: &str = "login";
/// The key in it.
pub const KEY: &str = "password";
/// What the key holds when it is decrypted.
pub const PLAIN: &str = "not-a-secret-of-anyone";

/// A Secret for `decryption.secretRef` of a Kustomization.
pub fn key_secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"test.agekey": AGE_KEY}})
}
