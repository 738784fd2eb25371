//! Sources that only Flux supports: OCI artifacts of a registry, charts, git over ssh, signed tags. On real control
//! planes only.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use muster_real::Registry as RealRegistry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;

use super::{Bed, real::Planes};
use crate::{
    gpg::Gpg,
    repo::Repo,
    sshd::{Setup, Sshd, key, public},
};

/// A registry of OCI artifacts with TLS, which ends with the bed.
pub struct Registry(RealRegistry);

impl Registry {
    /// Host and port, as after `oci://`.
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// A Secret for Flux's `certSecretRef`.
    pub fn certificate_secret(&self, name: &str) -> Value {
        json!({"metadata": {"name": name}, "stringData": {"ca.crt": self.0.authority()}})
    }

    /// The same with an authority that did not issue the registry's certificate.
    pub fn certificate_secret_of_another(&self, name: &str) -> Value {
        let another = rcgen::generate_simple_self_signed([self.host().to_owned()]).unwrap();
        json!({"metadata": {"name": name}, "stringData": {"ca.crt": another.cert.pem()}})
    }

    /// `flux push artifact` of these files. Returns the digest. An existing tag is moved.
    pub fn push_files(&self, repository: &str, tag: &str, files: &[(&str, &str)]) -> String {
        block_in_place(|| self.0.push_files(repository, tag, files)).unwrap()
    }

    /// `helm push` of a chart with these files to `<repository>/<name>:<version>`. Returns the digest.
    pub fn push_chart(&self, repository: &str, name: &str, version: &str, files: &[(&str, &str)]) -> String {
        block_in_place(|| self.0.push_chart(repository, name, version, files)).unwrap()
    }

    /// Creates or moves a tag to an existing manifest, given by its tag or digest.
    pub fn tag(&self, repository: &str, tag: &str, manifest: &str) {
        block_in_place(|| self.0.tag(repository, tag, manifest)).unwrap();
    }

    /// The digest that a tag points at.
    pub fn digest(&self, repository: &str, tag: &str) -> Option<String> {
        block_in_place(|| self.0.digest(repository, tag)).unwrap()
    }

    /// `cosign sign --key` of a manifest.
    pub fn sign(&self, repository: &str, digest: &str, signer: &Cosign) {
        block_in_place(|| self.0.sign(repository, digest, &signer.0)).unwrap();
    }

    /// Deletes a manifest, with every tag that points at it.
    pub fn delete(&self, repository: &str, digest: &str) {
        block_in_place(|| self.0.delete(repository, digest)).unwrap();
    }
}

/// A cosign key pair.
pub struct Cosign(rcgen::KeyPair);

impl Default for Cosign {
    /// Generates a key pair on P-256.
    fn default() -> Self {
        Self(rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap())
    }
}

impl Cosign {
    /// A Secret for `verify.secretRef` of an OCIRepository, with the public key.
    pub fn secret(&self, name: &str) -> Value {
        json!({"metadata": {"name": name}, "stringData": {"cosign.pub": self.0.public_key_pem()}})
    }
}

/// The repository of a bed, served by OpenSSH until this is dropped.
pub struct GitOverSsh {
    sshd: Sshd,
    path: PathBuf,
    identity: PathBuf,
    /// Starts the server with generated client keys.
    directory: TempDir,
}

impl GitOverSsh {
    /// `None`, with a printed notice, if there is no sshd.
    fn start(repo: &Repo) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let identity = key(directory.path(), "identity", &["-t", "ed25519", "-N", ""]);
        let authorized = [public(&identity)];
        let sshd = Sshd::start(&Setup {
            authorized: &authorized,
            ..Setup::default()
        })?;
        // An sshd that runs as root serves the repository as another user.
        fs::set_permissions(repo.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self {
            sshd,
            path: repo.path().join(".git"),
            identity,
            directory,
        })
    }

    /// `ssh://user@localhost:port/path`.
    pub fn url(&self) -> String {
        self.sshd.url(&self.path.display().to_string())
    }

    /// The authorized client key, in OpenSSH's format.
    pub fn identity(&self) -> String {
        fs::read_to_string(&self.identity).unwrap()
    }

    /// The host's public keys.
    pub fn known_hosts(&self) -> String {
        self.sshd.known_hosts(&["ed25519", "ecdsa", "rsa"])
    }

    /// The same host with a key that it does not have.
    pub fn known_hosts_of_another(&self) -> String {
        let file = self.directory.path().join("another");
        if !file.exists() {
            key(self.directory.path(), "another", &["-t", "ed25519", "-N", ""]);
        }
        format!("[localhost]:{} {}\n", self.sshd.port(), public(&file))
    }

    /// A Secret for the `secretRef` of a GitRepository, with these known hosts.
    pub fn secret(&self, name: &str, known_hosts: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "stringData": {
                "identity": self.identity(), "identity.pub": public(&self.identity), "known_hosts": known_hosts,
            },
        })
    }
}

/// A user with an OpenPGP key.
pub struct Signer {
    gpg: Gpg,
    key: String,
}

impl Signer {
    /// `None`, with a printed notice, if there is no gpg.
    pub fn new(person: &str) -> Option<Self> {
        let gpg = Gpg::new()?;
        let key = gpg.key(person);
        Some(Self { gpg, key })
    }

    /// A Secret for `verify.secretRef` of a GitRepository, with the public key.
    pub fn secret(&self, name: &str) -> Value {
        json!({"metadata": {"name": name}, "stringData": {"signer.asc": self.gpg.public(&self.key)}})
    }

    pub(super) fn sign_tag(&self, repo: &Repo, tag: &str) {
        let program = self.gpg.home().join("sign.sh");
        let script = format!(
            "#!/bin/sh\nGNUPGHOME='{}' exec gpg --batch --passphrase '' --pinentry-mode loopback \"$@\"\n",
            self.gpg.home().display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let program = format!("gpg.program={}", program.display());
        let message = format!("--message={tag}");
        repo.git(&[
            "-c",
            &program,
            "tag",
            "--sign",
            "--local-user",
            &self.key,
            &message,
            tag,
        ]);
    }
}

impl Bed {
    /// Starts a registry of OCI artifacts, which ends with the bed.
    pub async fn registry(&self) -> Registry {
        Registry(self.planes().start_registry().await)
    }

    /// Starts helm-controller in clusters where Flux runs.
    pub async fn start_helm(&self, clusters: &[&str]) {
        self.planes().start_helm(clusters).await;
    }

    /// Serves the repository of [`Bed::git`] over ssh too.
    pub fn git_over_ssh(&self) -> Option<GitOverSsh> {
        GitOverSsh::start(self.git.repo())
    }

    fn planes(&self) -> &Planes {
        self.planes.as_ref().expect("on real control planes only")
    }
}
