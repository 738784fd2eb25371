//! A registry of OCI artifacts on loopback, with TLS by its own authority, for Flux's OCIRepositories and HelmReleases.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER;
use flate2::{Compression, write::GzEncoder};
use rcgen::{KeyPair, SigningKey};
use reqwest::{
    Certificate, StatusCode,
    blocking::Client,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    cache::Cache,
    pki::Authority,
    plane::text,
    ports::free_ports,
    processes::{Launch, Processes},
};

/// The program, and its process.
pub(crate) const PROGRAM: &str = "registry";
/// Timeout for being ready; half a second is usual.
const READY: Duration = Duration::from_mins(1);
/// Timeout of a request.
const ANSWER: Duration = Duration::from_secs(10);
/// The media type of an OCI manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media types of an artifact, as `flux push artifact` creates it.
const FLUX: Form = Form {
    config: "application/vnd.cncf.flux.config.v1+json",
    layer: "application/vnd.cncf.flux.content.v1.tar+gzip",
};
/// Media types of a chart, as `helm push` creates it.
const HELM: Form = Form {
    config: "application/vnd.cncf.helm.config.v1+json",
    layer: "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
};

/// Media types of a signature, as `cosign sign --key` creates it.
const COSIGN: Form = Form {
    config: "application/vnd.oci.image.config.v1+json",
    layer: "application/vnd.dev.cosign.simplesigning.v1+json",
};
/// The annotation in which cosign stores the signature of a layer.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// The media types of an artifact.
struct Form {
    config: &'static str,
    layer: &'static str,
}

/// A registry that allows anonymous reads and writes.
#[derive(Clone, Debug)]
pub struct Registry {
    host: String,
    authority: String,
    client: Client,
}

impl Registry {
    /// Starts the registry in the directory of a fleet, and waits until it answers.
    pub(crate) fn start(directory: &Path, cache: &Cache, processes: &mut Processes) -> anyhow::Result<Self> {
        let (place, [port]) = (directory.join(PROGRAM), free_ports()?);
        fs::create_dir_all(place.join("data"))?;
        let authority = Authority::new(PROGRAM)?;
        authority.server(PROGRAM)?.write(&place, "tls")?;
        let host = format!("127.0.0.1:{port}");
        let config = json!({
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": false}},
            "storage": {"filesystem": {"rootdirectory": text(&place.join("data"))}, "delete": {"enabled": true}},
            "http": {
                "addr": host,
                "tls": {"certificate": text(&place.join("tls.crt")), "key": text(&place.join("tls.key"))},
            },
        });
        let file = place.join("config.yml");
        // JSON is valid YAML.
        fs::write(&file, config.to_string())?;
        processes.start(&Launch {
            name: PROGRAM.to_owned(),
            program: cache.program(PROGRAM),
            arguments: vec!["serve".to_owned(), text(&file)],
            environment: vec![("OTEL_TRACES_EXPORTER".to_owned(), "none".to_owned())],
        })?;
        // It could fail only for a second provider in this process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .tls_certs_only([Certificate::from_pem(authority.certificate().as_bytes())?])
            .no_proxy()
            .timeout(ANSWER)
            .build()?;
        let registry = Self {
            host,
            authority: authority.certificate(),
            client,
        };
        processes.wait(PROGRAM, READY, || {
            let answer = registry.client.get(registry.url("")).send();
            answer.is_ok_and(|answer| answer.status().is_success())
        })?;
        Ok(registry)
    }

    /// Host and port, as after `oci://`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The authority of its certificate, PEM: the `ca.crt` of Flux's `certSecretRef`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Pushes files as `flux push artifact` does. Returns the digest of the manifest. An existing tag is moved.
    pub fn push_files(&self, repository: &str, tag: &str, files: &[(&str, &str)]) -> anyhow::Result<String> {
        self.push(repository, tag, &FLUX, &json!({}), &archive(files)?)
    }

    /// Pushes a Helm chart of these files to `<repository>/<name>:<version>`. Returns the digest of the manifest.
    /// `Chart.yaml` is generated.
    pub fn push_chart(
        &self,
        repository: &str,
        name: &str,
        version: &str,
        files: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        let about = json!({"apiVersion": "v2", "name": name, "version": version, "type": "application"});
        let text = about.to_string();
        let mut all = vec![(format!("{name}/Chart.yaml"), text.as_str())];
        all.extend(
            files
                .iter()
                .map(|(path, content)| (format!("{name}/{path}"), *content)),
        );
        let all: Vec<(&str, &str)> = all
            .iter()
            .map(|(path, content)| (path.as_str(), *content))
            .collect();
        let repository = format!("{repository}/{name}");
        self.push(&repository, version, &HELM, &about, &archive(&all)?)
    }

    /// Signs a manifest as `cosign sign --key` does, with an ECDSA P-256 key and no transparency log: the signature is
    /// stored beside the manifest, under a tag derived from its digest.
    pub fn sign(&self, repository: &str, digest: &str, key: &KeyPair) -> anyhow::Result<()> {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": format!("{}/{repository}", self.host)},
                "image": {"docker-manifest-digest": digest},
                "type": "cosign container image signature",
            },
            "optional": null,
        });
        let payload = payload.to_string().into_bytes();
        let signature = STANDARD.encode(key.sign(&payload)?);
        let mut layer = self.put_blob(repository, COSIGN.layer, &payload)?;
        let config = json!({
            "architecture": "", "os": "", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        });
        layer["annotations"] = json!({ SIGNATURE: signature });
        let tag = format!("{}.sig", digest.replace(':', "-"));
        self.push_layer(repository, &tag, &COSIGN, &config, &layer)?;
        Ok(())
    }

    /// Creates or moves a tag to an existing manifest, given by its tag or digest.
    pub fn tag(&self, repository: &str, tag: &str, manifest: &str) -> anyhow::Result<()> {
        let what = format!("{repository}/manifests/{manifest}");
        let answer = self
            .client
            .get(self.url(&what))
            .header(ACCEPT, MANIFEST)
            .send()
            .context("request to the registry")?;
        ensure!(answer.status().is_success(), "{what}: {}", answer.status());
        let bytes = answer.bytes()?.to_vec();
        self.put_manifest(repository, tag, bytes)
    }

    /// The digest that a tag points at; `None` if there is no such tag.
    pub fn digest(&self, repository: &str, tag: &str) -> anyhow::Result<Option<String>> {
        let what = format!("{repository}/manifests/{tag}");
        let request = self.client.get(self.url(&what)).header(ACCEPT, MANIFEST);
        let answer = request.send().context("request to the registry")?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        ensure!(answer.status().is_success(), "{what}: {}", answer.status());
        Ok(Some(digest(&answer.bytes()?)))
    }

    /// Deletes a manifest, and with it every tag that points at it.
    pub fn delete(&self, repository: &str, digest: &str) -> anyhow::Result<()> {
        let what = format!("{repository}/manifests/{digest}");
        let answer = self.client.delete(self.url(&what)).send()?;
        ensure!(answer.status().is_success(), "{what}: {}", answer.status());
        Ok(())
    }

    fn push(
        &self,
        repository: &str,
        tag: &str,
        form: &Form,
        config: &Value,
        layer: &[u8],
    ) -> anyhow::Result<String> {
        let layer = self.put_blob(repository, form.layer, layer)?;
        self.push_layer(repository, tag, form, config, &layer)
    }

    /// Pushes a manifest with one layer, which is already uploaded. Returns its digest.
    fn push_layer(
        &self,
        repository: &str,
        tag: &str,
        form: &Form,
        config: &Value,
        layer: &Value,
    ) -> anyhow::Result<String> {
        let config = config.to_string();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.put_blob(repository, form.config, config.as_bytes())?,
            "layers": [layer],
        });
        let manifest = manifest.to_string().into_bytes();
        let digest = digest(&manifest);
        self.put_manifest(repository, tag, manifest)?;
        Ok(digest)
    }

    /// Uploads a blob in one request. Returns its descriptor.
    fn put_blob(&self, repository: &str, media_type: &str, bytes: &[u8]) -> anyhow::Result<Value> {
        let digest = digest(bytes);
        let begun = self
            .client
            .post(self.url(&format!("{repository}/blobs/uploads/")))
            .send()
            .context("starting an upload")?;
        let status = begun.status();
        ensure!(
            status == StatusCode::ACCEPTED,
            "an upload to {repository}: {status}"
        );
        let place = begun
            .headers()
            .get(LOCATION)
            .context("the response to an upload has no Location")?
            .to_str()?;
        // The upload URL already has a query.
        let answer = self
            .client
            .put(format!("{place}&digest={digest}"))
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(bytes.to_vec())
            .send()
            .context("uploading")?;
        let status = answer.status();
        ensure!(
            status == StatusCode::CREATED,
            "a blob of {repository}: {status}: {}",
            answer.text().unwrap_or_default()
        );
        Ok(json!({"mediaType": media_type, "digest": digest, "size": bytes.len()}))
    }

    fn put_manifest(&self, repository: &str, tag: &str, manifest: Vec<u8>) -> anyhow::Result<()> {
        let answer = self
            .client
            .put(self.url(&format!("{repository}/manifests/{tag}")))
            .header(CONTENT_TYPE, MANIFEST)
            .body(manifest)
            .send()
            .context("putting a manifest")?;
        let status = answer.status();
        ensure!(
            status == StatusCode::CREATED,
            "{repository}:{tag}: {status}: {}",
            answer.text().unwrap_or_default()
        );
        Ok(())
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}/v2/{path}", self.host)
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)))
}

/// A gzip-compressed tar archive of files; reproducible.
fn archive(files: &[(&str, &str)]) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(u64::try_from(content.len())?);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, path, content.as_bytes())?;
    }
    Ok(archive.into_inner()?.finish()?)
}
