#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics on failure")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use russh::keys::PublicKey;
use russh::keys::ssh_key::LineEnding;

use super::*;
use crate::source::HostKeyRefusal;

const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDRM6idLoipbNhbqkLebrd0BckS+AcRSTLuXUXaA2Akx";
const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIjpj5bGhLcWVFlJEQGxVYqowIaYlGnQl5U7qI/i+ZA/";
const DSA: &str = "ssh-dss AAAAB3NzaC1kc3MAAACBANgngCnJwoYOPl9wWK7FzzepSRR/n9fSd108OWi1AlD2WoKcNaK73L45h+tIIcqlxkmeETLE2+JPLkDCvkxTYWhLSlWqgTQRKyzhXB2QjCFlgdom+CJN9hge3kYzegaY9CcBdrS3DgXIRUKsHLd1p5rwATQWQSx6MF1aOGEBe9j9AAAAFQCLGsN5FoMY23VZrALIGPizogt3VwAAAIA4jIMpgmnfLZgs+Rg/DvYb+FWqRKwkzeStvtwOhWZU53fxwhwzL9IuTS83eUMAU5SKrgRF6cuPi9sh1p4+rq0oOA4OaP/+qhzY7+eH0lZ7K9DH+6Gz++4xPeGrjU5fdXl/73RuTuI/iRDDUqb980axm/9ZW/TV2iga6rQv5OE3DwAAAIEAp5XDAulgDHigm5QHlX2cb+FASCaFoDuSZsYwgmlad8eUkm1c+dliqttokajBnMKda/C9ZMSNn4o6kTN4kblFn8IjVK5Cw4BOQE35e67x5TBcEjdaKbRoUtR12mS11QM75Ync8V6s2FWJbLhUMVDQxyslch9mpHiDdNRecu6IqCc=";

/// `git.example.com` and `[git.example.com]:2222`, as `ssh-keygen -H` writes them.
const HASHED: &str = "|1|6asNDKb8DaMapTS+AwQU/rbPufo=|YK/VH0xxUANAdHVwLpdd0gRrB+U=";
const HASHED_WITH_PORT: &str = "|1|mAQhxazLKvWNMDPbEpfz+eHqRm4=|9vV+SuGf/OXudHswXVkbvKKb0x0=";

fn host(port: u16) -> Host {
    Host {
        name: "git.example.com".to_owned(),
        port,
    }
}

/// The result for a host that presents key A, as a word.
fn verdict(text: &str, port: u16) -> String {
    let known = match KnownHosts::parse(text.as_bytes()) {
        Ok(known) => known,
        Err(why) => return why,
    };
    let shown = PublicKeyOrCertificate::from(PublicKey::from_openssh(A).unwrap());
    match known.of(&host(port)).judge(&shown, 0) {
        Ok(()) => "known".to_owned(),
        Err(HostKeyRefusal::Unknown { host, key }) => {
            assert!(key.starts_with("ssh-ed25519 SHA256:"), "{key}");
            format!("unknown {host}")
        }
        Err(HostKeyRefusal::Changed { lines, .. }) => format!("changed {lines}"),
        Err(HostKeyRefusal::Revoked { line, .. }) => format!("revoked {line}"),
        Err(HostKeyRefusal::Certificate { why, .. }) => why,
    }
}

#[test]
fn what_known_hosts_says_of_a_host() {
    let check =
        |text: &str, port: u16, expect: &str| assert_eq!(verdict(text, port), expect, "{text} {port}");
    let of = |hosts: &str| format!("{hosts} {A}");
    // Names and ports.
    check(&of("git.example.com"), 22, "known");
    check(&of("git.example.com"), 2222, "unknown [git.example.com]:2222");
    check(&of("[git.example.com]:2222"), 2222, "known");
    check(&of("[git.example.com]:2222"), 22, "unknown git.example.com");
    check(&of("[git.example.com]:22"), 22, "known");
    check(&of("Git.Example.COM"), 22, "known");
    check(&of("a.test,git.example.com,192.0.2.1"), 22, "known");
    check(&of("  git.example.com"), 22, "known");
    check(&format!("git.example.com\t{A} a comment\r\n"), 22, "known");
    check(&of("git.example.co"), 22, "unknown git.example.com");
    check(&of("git.example.com."), 22, "unknown git.example.com");
    // Patterns.
    check(&of("*.example.com"), 22, "known");
    check(&of("*.example.com"), 2222, "unknown [git.example.com]:2222");
    check(&of("*"), 2222, "known");
    check(&of("g?t.example.com"), 22, "known");
    check(&of("*e*.com,!git.*"), 22, "unknown git.example.com");
    check(&of("!git.example.com,*"), 22, "unknown git.example.com");
    check(&of("!git.example.com"), 22, "unknown git.example.com");
    check(&of("git.example.com*x"), 22, "unknown git.example.com");
    // Hashed names.
    check(&of(HASHED), 22, "known");
    check(&of(HASHED), 2222, "unknown [git.example.com]:2222");
    check(&of(HASHED_WITH_PORT), 2222, "known");
    check(&of("|1|AAAA|AAAA"), 22, "unknown git.example.com");
    // Several lines.
    check(&format!("git.example.com {B}\ngit.example.com {A}"), 22, "known");
    check(
        &format!("# git.example.com {A}\n\ngit.example.com {B}\n*.com {B}"),
        22,
        "changed 3, 4",
    );
    check(&format!("git.example.com {A}\n@revoked * {A}"), 22, "revoked 2");
    check(
        &format!("@revoked git.example.com {A}\ngit.example.com {A}"),
        22,
        "revoked 1",
    );
    check(
        &format!("git.example.com {A}\n@revoked other.test {A}"),
        22,
        "known",
    );
    check(&format!("git.example.com {A}\n@revoked * {B}"), 22, "known");
    check(&format!("@revoked * {B}"), 22, "unknown git.example.com");
    check(&format!("@cert-authority * {A}"), 22, "changed 1");
    // An unsupported key does not count.
    check(
        &format!("git.example.com {DSA}\ngit.example.com {A}"),
        22,
        "known",
    );
    let empty = "it contains no host key; add the lines that `ssh-keyscan` prints";
    check("", 22, empty);
    check("\n# a comment\n", 22, empty);
    check(&format!("git.example.com {DSA}"), 22, empty);
    // Malformed lines: the error has the line number, and nothing is guessed.
    let fields = "it has too few fields; write the host, the type of the key and the key";
    check(
        &format!("git.example.com {A}\ngit.example.com"),
        22,
        &format!("line 2: {fields}"),
    );
    check(A, 22, &format!("line 1: {fields}"));
    check(&format!("@revoked {A}"), 22, &format!("line 1: {fields}"));
    let marker = "line 1: its marker is unknown; there are @revoked and @cert-authority";
    check(&format!("@trusted * {A}"), 22, marker);
    let key = "line 1: its key cannot be read; write the type and the key as `ssh-keyscan` prints them";
    check("git.example.com ssh-ed25519 AAAA", 22, key);
    check("git.example.com ssh-ed25519 ????", 22, key);
    check(
        &format!("git.example.com {}", A.replace("ssh-ed25519", "ssh-rsa")),
        22,
        key,
    );
    check(&format!("git.example.com {}", &A[..A.len() - 4]), 22, key);
    let hashed = "line 1: its hashed name cannot be read; write it as `ssh-keygen -H` does";
    check(&of("|2|AAAA|AAAA"), 22, hashed);
    check(&of("|1|AAAA"), 22, hashed);
    check(&of("|1|?|?"), 22, hashed);
    let Err(why) = KnownHosts::parse(b"\xff") else {
        panic!("it is read")
    };
    assert_eq!(why, "it is not UTF-8");
}

proptest! {
    /// For any file: a host is known only by a line with its key, and no line with a marker makes it known.
    #[test]
    fn nothing_but_a_line_with_its_key_makes_a_host_known(
        parts in vec(select(vec![
            "git.example.com", "*", "!", "?", ",", "[", "]:22", "|1|", "AAAA", "@revoked ", "@cert-authority ", "#", " ", "\t", "\n", B, DSA, "ü",
        ]), 0..40)
    ) {
        let text = parts.concat();
        prop_assert_ne!(verdict(&text, 22), "known");
        let marked = format!("{text}\n@cert-authority * {A}\n");
        prop_assert_ne!(verdict(&marked, 22), "known");
        let revoked = format!("{text}\ngit.example.com {A}\n@revoked git.example.com {A}\n");
        prop_assert_ne!(verdict(&revoked, 22), "known");
    }
}

#[test]
fn the_kinds_of_keys_that_are_known_are_asked_for_first() {
    let check = |text: &str, first: &str, certificates: bool| {
        let known = KnownHosts::parse(text.as_bytes()).unwrap();
        let host = host(22);
        let known = known.of(&host);
        let algorithms: Vec<String> = known.algorithms().iter().map(ToString::to_string).collect();
        assert!(algorithms.join(" ").starts_with(first), "{algorithms:?}");
        assert_eq!(algorithms.len(), 6);
        assert!(
            !algorithms
                .iter()
                .any(|name| name == "ssh-rsa" || name == "ssh-dss"),
            "{algorithms:?}"
        );
        assert_eq!(!known.certificates().is_empty(), certificates);
    };
    let rsa = PrivateKey::random(
        &mut russh::keys::key::safe_rng(),
        russh::keys::Algorithm::Rsa { hash: None },
    );
    let rsa = rsa.unwrap().public_key().to_openssh().unwrap();
    check(&format!("* {A}"), "ssh-ed25519 ecdsa-sha2-nistp256", false);
    check(
        &format!("* {rsa}"),
        "rsa-sha2-512 rsa-sha2-256 ssh-ed25519",
        false,
    );
    check(&format!("other.test {rsa}"), "ssh-ed25519", false);
    check(&format!("@cert-authority * {rsa}"), "ssh-ed25519", true);
}

#[test]
fn a_path_is_one_quoted_word() {
    let check = |path: &str, expect: &str| assert_eq!(command(path), format!("git-upload-pack {expect}"));
    check("/srv/app.git", "'/srv/app.git'");
    check("/~ann/app.git", "'~ann/app.git'");
    check("/it's", r"'/it'\''s'");
    check("/a!b", r"'/a'\!'b'");
    check("/$(id) `id` \"x\" ; &", "'/$(id) `id` \"x\" ; &'");
}

#[test]
fn a_key_that_cannot_be_used_is_named_and_not_shown() {
    let check = |identity: &str, passphrase: Option<&str>, expect: &str| {
        let error = identity::read(identity.as_bytes(), passphrase).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("credentials cannot be used: key \"identity\" {expect}")
        );
        assert!(!format!("{error:?}").contains("hunter2"));
    };
    let none = "is not a private key in OpenSSH or PEM format; create one with `ssh-keygen -t ed25519`";
    check("", None, none);
    check("hunter2", Some("hunter2"), none);
    check(A, None, none);
    check(
        "PuTTY-User-Key-File-3: ssh-ed25519\nhunter2",
        Some("hunter2"),
        none,
    );
    check(
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
        None,
        none,
    );
    check(&"hunter2".repeat(10_000), None, "is longer than 32768 bytes");
    let damaged = "is damaged: it is incomplete";
    check("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n", None, damaged);
    check("-----BEGIN OPENSSH PRIVATE KEY-----\n?\n", None, damaged);
    let dsa = "is a DSA key, which is not supported; create an ed25519 key";
    check("-----BEGIN DSA PRIVATE KEY-----\nhunter2\n", None, dsa);
    let convert = "is encrypted in an unsupported way; rewrite it with `ssh-keygen -p -f <file>`";
    let old = |kind: &str, cipher: &str| {
        format!(
            "-----BEGIN {kind} PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: {cipher},00\n\nhunter2\n"
        )
    };
    check(&old("RSA", "DES-EDE3-CBC"), Some("hunter2"), convert);
    check(&old("EC", "AES-128-CBC"), Some("hunter2"), convert);
    let missing = "is encrypted; put its passphrase into the key \"password\" of the Secret";
    check(&old("RSA", "AES-128-CBC"), None, missing);
    let wrong = "cannot be decrypted with the passphrase in the key \"password\" of the Secret; correct it";
    check(&old("RSA", "AES-128-CBC"), Some("hunter2"), wrong);
    // The cost of a passphrase is checked before it is spent: the number of rounds is given in the file.
    let key = PrivateKey::random(&mut russh::keys::key::safe_rng(), russh::keys::Algorithm::Ed25519).unwrap();
    let kdf = russh::keys::ssh_key::Kdf::Bcrypt {
        salt: vec![0; 16],
        rounds: 1,
    };
    let key = key
        .encrypt_with(russh::keys::ssh_key::Cipher::Aes256Ctr, kdf, 1, "hunter2")
        .unwrap();
    identity::read(
        key.to_openssh(LineEnding::LF).unwrap().as_bytes(),
        Some("hunter2"),
    )
    .unwrap();
    let mut bytes = key.to_bytes().unwrap().to_vec();
    let at = bytes
        .windows(20)
        .position(|window| window[..16] == [0; 16] && window[16..] == [0, 0, 0, 1])
        .unwrap();
    bytes[at + 16..at + 20].copy_from_slice(&u32::MAX.to_be_bytes());
    let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let costly = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n");
    let rounds =
        "asks for 4294967295 rounds, at most 256 are made; rewrite it with `ssh-keygen -p -f <file>`";
    check(&costly, Some("hunter2"), rounds);
}
