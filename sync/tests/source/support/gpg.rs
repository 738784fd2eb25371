//! Keys and signatures made by `gpg`, in a temporary home directory.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::repo::output_of;

/// A gpg home directory with secret keys; its agent ends with it.
pub(crate) struct Gpg {
    home: TempDir,
}

impl Gpg {
    /// Without keys. `None` if gpg is not installed: the test says so.
    pub(crate) fn new() -> Option<Self> {
        let there = Command::new("gpg")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if !there.is_ok_and(|status| status.success()) {
            println!("not made: gpg");
            return None;
        }
        Some(Self {
            home: tempfile::tempdir().unwrap(),
        })
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A key of a person that does not expire, for certifying and signing; returns its fingerprint.
    pub(crate) fn key(&self, person: &str) -> String {
        self.key_of(person, &["ed25519", "cert,sign", "0"], &[])
    }

    /// The same with an algorithm, a usage, an expiry and options.
    pub(crate) fn key_of(&self, person: &str, kind: &[&str], options: &[&str]) -> String {
        let mut arguments = options.to_vec();
        arguments.extend(["--quick-generate-key", person]);
        arguments.extend(kind);
        self.run(&arguments, b"");
        self.fingerprints(person)[0].clone()
    }

    /// The fingerprints of the key of a person and of its subkeys.
    pub(crate) fn fingerprints(&self, person: &str) -> Vec<String> {
        let listed = self.run(
            &[
                "--list-keys",
                "--with-colons",
                "--with-subkey-fingerprints",
                person,
            ],
            b"",
        );
        let listed = String::from_utf8(listed).unwrap();
        let lines = listed.lines().filter(|line| line.starts_with("fpr"));
        lines
            .map(|line| line.split(':').nth(9).unwrap().to_owned())
            .collect()
    }

    /// Answers to the prompts of `--edit-key`.
    pub(crate) fn edit(&self, fingerprint: &str, answers: &[&str]) {
        let input = format!("{}\nsave\n", answers.join("\n"));
        let arguments = [
            "--no-tty",
            "--command-fd",
            "0",
            "--expert",
            "--edit-key",
            fingerprint,
        ];
        self.run(&arguments, input.as_bytes());
    }

    /// Revokes the key with the revocation certificate that gpg generated with it.
    pub(crate) fn revoke(&self, fingerprint: &str) {
        let path = self.home().join(format!("openpgp-revocs.d/{fingerprint}.rev"));
        let text = std::fs::read_to_string(path).unwrap();
        self.run(
            &["--import"],
            text.replace(":-----BEGIN", "-----BEGIN").as_bytes(),
        );
    }

    /// The public key, armored.
    pub(crate) fn public(&self, fingerprint: &str) -> String {
        String::from_utf8(self.run(&["--armor", "--export", fingerprint], b"")).unwrap()
    }

    /// A detached armored signature of bytes, as git requests it; `options` are passed first.
    pub(crate) fn sign(&self, key: &str, options: &[&str], payload: &[u8]) -> String {
        let mut arguments = options.to_vec();
        arguments.extend(["--armor", "--detach-sign", "--local-user", key]);
        String::from_utf8(self.run(&arguments, payload)).unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--quiet", "--pinentry-mode", "loopback"]);
        command.args(["--passphrase", ""]).args(arguments);
        command.env("GNUPGHOME", self.home()).env("LC_ALL", "C");
        output_of(command, input)
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        // Its agent also ends on its own, once its home directory is gone.
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(self.home())
            .args(["--kill", "all"])
            .status();
    }
}
