//! A Secret that SOPS encrypted for a key that only the tests use: `e2e/fixtures/sops/README.md` shows how it was
//! created.

use serde_json::{Value, json};

/// The encrypted manifest.
pub const SECRET: &str = include_str!("../fixtures/sops/secret.yaml");
/// The age key that decrypts it.
pub const AGE_KEY: &str = include_str!("../fixtures/sops/test.agekey");
/// The name of the Secret; it has no namespace.
pub const NAME: &str = "login";
/// The data key in the Secret.
pub const KEY: &str = "password";
/// The decrypted value.
pub const PLAIN: &str = "not-a-secret-of-anyone";

/// A Secret for `decryption.secretRef` of a Kustomization.
pub fn key_secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"test.agekey": AGE_KEY}})
}
