//! The few API calls that are needed at startup: probes and applies.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, ensure};
use reqwest::{Certificate, blocking::Client, header::CONTENT_TYPE};
use serde_json::Value;

use crate::pki::Identity;

/// How long a server may take to answer while it starts.
const ANSWER: Duration = Duration::from_secs(5);

/// A server and the credentials for it.
pub(crate) struct Api {
    client: Client,
    url: String,
}

impl Api {
    pub(crate) fn new(url: &str, authority: &str, identity: &Identity) -> anyhow::Result<Self> {
        // It could fail only for a second provider in this process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let both = format!("{}{}", identity.certificate, identity.key);
        let client = Client::builder()
            .tls_certs_only([Certificate::from_pem(authority.as_bytes())?])
            .identity(reqwest::Identity::from_pem(both.as_bytes())?)
            .no_proxy()
            .timeout(ANSWER)
            .build()?;
        Ok(Self {
            client,
            url: url.to_owned(),
        })
    }

    /// An endpoint without TLS and authentication.
    pub(crate) fn plain(url: &str) -> anyhow::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            client: Client::builder().no_proxy().timeout(ANSWER).build()?,
            url: url.to_owned(),
        })
    }

    /// Whether a path answers with 200.
    pub(crate) fn is_there(&self, path: &str) -> bool {
        let answer = self.client.get(format!("{}{path}", self.url)).send();
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// An object or a list; `None` without a successful answer.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let answer = self.client.get(format!("{}{path}", self.url)).send().ok()?;
        serde_json::from_slice(&answer.bytes().ok()?).ok()
    }

    /// Server-side apply.
    pub(crate) fn apply(&self, path: &str, yaml: impl Into<Vec<u8>>) -> anyhow::Result<()> {
        let answer = self
            .client
            .patch(format!("{}{path}?fieldManager=muster-real&force=true", self.url))
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(yaml.into())
            .send()
            .with_context(|| format!("applying {path}"))?;
        let status = answer.status();
        ensure!(
            status.is_success(),
            "applying {path}: {status}: {}",
            answer.text().unwrap_or_default()
        );
        Ok(())
    }

    /// Merges fields into an object (JSON merge patch).
    pub(crate) fn merge(&self, path: &str, fields: &str) -> anyhow::Result<()> {
        let answer = self
            .client
            .patch(format!("{}{path}", self.url))
            .header(CONTENT_TYPE, "application/merge-patch+json")
            .body(fields.to_owned())
            .send()
            .with_context(|| format!("patching {path}"))?;
        ensure!(
            answer.status().is_success(),
            "patching {path}: {}",
            answer.status()
        );
        Ok(())
    }

    /// Applies a CRD from a file with a generated name, `<group>_<plural>.yaml`. Returns its path.
    pub(crate) fn apply_definition(&self, file: &Path) -> anyhow::Result<String> {
        let stem = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let (group, plural) = stem
            .split_once('_')
            .with_context(|| format!("{} is not named <group>_<plural>.yaml", file.display()))?;
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}");
        self.apply(&path, fs::read(file)?)?;
        Ok(path)
    }

    /// Whether an object has a condition that is true.
    pub(crate) fn has(&self, path: &str, condition: &str) -> bool {
        self.get(path).is_some_and(|object| is(&object, condition))
    }
}

/// Whether an object has a condition that is true.
pub(crate) fn is(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found["type"] == condition && found["status"] == "True")
}
