//! Every error of a source as displayed, with how a caller handles it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use muster_sync::source::{
    AppRefusal, CommitId, Credentials, EntryRefusal, HostKeyRefusal, Remote, SourceError, Unverified,
};

const URL: &str = "https://git.example.com/fleet";
const COMMIT: &str = "0123456789012345678901234567890123456789";

#[allow(clippy::too_many_lines, reason = "a table of all errors")]
fn all() -> Vec<SourceError> {
    let url = URL.to_owned();
    let commit = COMMIT.to_owned();
    let mut all = vec![
        SourceError::InvalidUrl {
            url: url.clone(),
            why: "it has a query or a fragment".to_owned(),
        },
        SourceError::SchemeRefused {
            url: url.clone(),
            scheme: "ftp".to_owned(),
            next: "use https or ssh",
        },
        SourceError::Unsupported {
            what: "semver range \"1.x\"".to_owned(),
            next: "name a tag",
        },
        SourceError::Credentials {
            why: "username and password must both be set".to_owned(),
        },
        SourceError::Unreachable {
            url: url.clone(),
            why: "connection refused".to_owned(),
        },
        SourceError::Timeout {
            url: url.clone(),
            after: Duration::from_mins(1),
            phase: "receiving",
        },
        SourceError::Unauthorized {
            url: url.clone(),
            status: 401,
            given: false,
        },
        SourceError::Unauthorized {
            url: url.clone(),
            status: 403,
            given: true,
        },
        SourceError::Proxy {
            url: url.clone(),
            proxy: "http://proxy.example.com:3128".to_owned(),
            why: "connection refused".to_owned(),
        },
        SourceError::ProxyUnauthorized {
            url: url.clone(),
            proxy: "http://proxy.example.com:3128".to_owned(),
            given: true,
        },
        SourceError::GitHubApp {
            app: "7".to_owned(),
            repository: "acme/shop".to_owned(),
            why: AppRefusal::NotInstalled,
        },
        SourceError::RepositoryNotFound { url: url.clone() },
        SourceError::RedirectRefused {
            url: url.clone(),
            to: "https://elsewhere.example.com".to_owned(),
        },
        SourceError::Protocol {
            url: url.clone(),
            why: "it answered 418".to_owned(),
        },
        SourceError::Empty { url: url.clone() },
        SourceError::UnknownTag {
            url: url.clone(),
            tag: "v9".to_owned(),
        },
        SourceError::UnknownBranch {
            url: url.clone(),
            branch: "x".to_owned(),
        },
        SourceError::UnknownCommit {
            url: url.clone(),
            commit: commit.clone(),
        },
        SourceError::NotACommit {
            url: url.clone(),
            what: "tag \"v1\"".to_owned(),
            kind: "blob".to_owned(),
        },
        SourceError::NotFetched {
            url,
            commit: commit.clone(),
        },
        SourceError::PathNotFound {
            commit,
            path: "deploy".to_owned(),
        },
        SourceError::InvalidPath {
            path: "../x".to_owned(),
            why: "it leads outside with ..",
        },
        SourceError::KustomizeUnsupported {
            path: "deploy/kustomization.yaml".to_owned(),
        },
        SourceError::LimitExceeded {
            what: "\"a.yaml\" with 9 bytes".to_owned(),
            limit: 8,
            option: "--git-max-file-bytes",
        },
        SourceError::IgnorePattern {
            path: ".sourceignore".to_owned(),
            pattern: "[".to_owned(),
            why: "unclosed".to_owned(),
        },
        SourceError::Storage {
            what: "making it",
            why: "no space left on device".to_owned(),
        },
    ];
    all.extend(of_ssh());
    let refusals = [
        EntryRefusal::Symlink,
        EntryRefusal::Submodule,
        EntryRefusal::NoDirectory,
        EntryRefusal::LfsPointer,
        EntryRefusal::ReservedName,
        EntryRefusal::NotUtf8,
        EntryRefusal::ControlCharacter,
        EntryRefusal::Separator,
        EntryRefusal::Twice,
        EntryRefusal::UnknownMode(0o100_000),
    ];
    all.extend(refusals.map(|why| SourceError::Refused {
        path: "deploy/a.yaml".to_owned(),
        why,
    }));
    all.push(SourceError::VerificationKeys {
        why: "key \"a.pub\" is not text".to_owned(),
    });
    all.extend(unverified().map(|why| SourceError::VerificationFailed {
        url: URL.to_owned(),
        what: "tag \"v1\"".to_owned(),
        why,
    }));
    all
}

fn of_ssh() -> Vec<SourceError> {
    let url = "ssh://git@git.example.com/fleet".to_owned();
    let (host, key) = ("git.example.com".to_owned(), "ssh-ed25519 SHA256:0a1b".to_owned());
    let refusals = [
        HostKeyRefusal::Unknown {
            host: host.clone(),
            key: key.clone(),
        },
        HostKeyRefusal::Changed {
            host: host.clone(),
            key: key.clone(),
            lines: "3".to_owned(),
        },
        HostKeyRefusal::Revoked {
            host: host.clone(),
            key: key.clone(),
            line: 3,
        },
        HostKeyRefusal::Certificate {
            host,
            authority: key.clone(),
            why: "it has expired".to_owned(),
        },
    ];
    let mut all = vec![
        SourceError::KeyRefused {
            url: url.clone(),
            key,
            user: "git".to_owned(),
            why: "add its public half to the repository".to_owned(),
        },
        SourceError::CommandFailed {
            url: url.clone(),
            why: "it says \"ERROR: Repository not found.\" (exit status 1)".to_owned(),
        },
    ];
    all.extend(refusals.map(|why| SourceError::HostKey {
        url: url.clone(),
        why,
    }));
    all
}

fn unverified() -> [Unverified; 20] {
    let key = || "ssh key SHA256:abc".to_owned();
    let at = jiff::Timestamp::UNIX_EPOCH;
    [
        Unverified::Unsigned,
        Unverified::Lightweight,
        Unverified::NoTag,
        Unverified::Renamed("v0".to_owned()),
        Unverified::OtherCommit {
            signed: format!("commit {COMMIT}"),
            used: COMMIT.replace('0', "1"),
        },
        Unverified::NotOfACommit("tag".to_owned()),
        Unverified::Malformed("an object whose headers cannot be read"),
        Unverified::Broken("text follows it"),
        Unverified::Several,
        Unverified::Unsupported("X.509"),
        Unverified::UnknownKey(key()),
        Unverified::Bad(key()),
        Unverified::Weak("SHA-1".to_owned()),
        Unverified::ExpiredSignature(at),
        Unverified::ExpiredKey { key: key(), at },
        Unverified::EarlyKey { key: key(), at },
        Unverified::Revoked(key()),
        Unverified::NotForSigning {
            key: key(),
            why: "is not for signing",
        },
        Unverified::WrongTime {
            at,
            why: "in the future",
        },
        Unverified::Namespace("file".to_owned()),
    ]
}

/// The index of a variant in the list: a new variant does not compile until it is added here, and the test fails until
/// it is in `all`.
fn variant_index(error: &SourceError) -> usize {
    match error {
        SourceError::InvalidUrl { .. } => 0,
        SourceError::SchemeRefused { .. } => 1,
        SourceError::Unsupported { .. } => 2,
        SourceError::Credentials { .. } => 3,
        SourceError::Unreachable { .. } => 4,
        SourceError::Timeout { .. } => 5,
        SourceError::Unauthorized { .. } => 6,
        SourceError::RepositoryNotFound { .. } => 7,
        SourceError::RedirectRefused { .. } => 8,
        SourceError::Protocol { .. } => 9,
        SourceError::Empty { .. } => 10,
        SourceError::UnknownTag { .. } => 11,
        SourceError::UnknownBranch { .. } => 12,
        SourceError::UnknownCommit { .. } => 13,
        SourceError::NotACommit { .. } => 14,
        SourceError::NotFetched { .. } => 15,
        SourceError::PathNotFound { .. } => 16,
        SourceError::InvalidPath { .. } => 17,
        SourceError::KustomizeUnsupported { .. } => 18,
        SourceError::LimitExceeded { .. } => 19,
        SourceError::IgnorePattern { .. } => 20,
        SourceError::Storage { .. } => 21,
        SourceError::Proxy { .. } => 32,
        SourceError::ProxyUnauthorized { .. } => 33,
        SourceError::GitHubApp { .. } => 34,
        SourceError::Refused { why, .. } => match why {
            EntryRefusal::Symlink => 22,
            EntryRefusal::Submodule => 23,
            EntryRefusal::NoDirectory => 24,
            EntryRefusal::LfsPointer => 25,
            EntryRefusal::ReservedName => 26,
            EntryRefusal::NotUtf8 => 27,
            EntryRefusal::ControlCharacter => 28,
            EntryRefusal::Separator => 29,
            EntryRefusal::Twice => 30,
            EntryRefusal::UnknownMode(_) => 31,
        },
        SourceError::KeyRefused { .. } => 35,
        SourceError::CommandFailed { .. } => 36,
        SourceError::HostKey { why, .. } => match why {
            HostKeyRefusal::Unknown { .. } => 37,
            HostKeyRefusal::Changed { .. } => 38,
            HostKeyRefusal::Revoked { .. } => 39,
            HostKeyRefusal::Certificate { .. } => 40,
        },
        SourceError::VerificationKeys { .. } => 41,
        SourceError::VerificationFailed { why, .. } => match why {
            Unverified::Unsigned => 42,
            Unverified::Lightweight => 43,
            Unverified::NoTag => 44,
            Unverified::Renamed(_) => 45,
            Unverified::OtherCommit { .. } => 46,
            Unverified::NotOfACommit(_) => 47,
            Unverified::Malformed(_) => 48,
            Unverified::Broken(_) => 49,
            Unverified::Several => 50,
            Unverified::Unsupported(_) => 51,
            Unverified::UnknownKey(_) => 52,
            Unverified::Bad(_) => 53,
            Unverified::Weak(_) => 54,
            Unverified::ExpiredSignature(_) => 55,
            Unverified::ExpiredKey { .. } => 56,
            Unverified::EarlyKey { .. } => 57,
            Unverified::Revoked(_) => 58,
            Unverified::NotForSigning { .. } => 59,
            Unverified::WrongTime { .. } => 60,
            Unverified::Namespace(_) => 61,
        },
    }
}

#[test]
fn errors_say_what_where_and_what_next() {
    let places: BTreeSet<usize> = all().iter().map(variant_index).collect();
    assert_eq!(places, (0..62).collect());
    let mut shown = String::new();
    for error in all() {
        writeln!(shown, "{:?}: {error}", error.class()).unwrap();
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn secrets_become_credentials_or_an_error_without_a_value() {
    let check = |pairs: &[(&str, &[u8])], expect: Result<&str, &str>| {
        let data: BTreeMap<String, Vec<u8>> =
            pairs.iter().map(|(k, v)| ((*k).to_owned(), v.to_vec())).collect();
        let got = Credentials::from_secret(&data);
        let shown = format!("{got:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        match (got, expect) {
            (Ok(credentials), Ok(expect)) => assert_eq!(format!("{credentials:?}"), expect),
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{error}"),
            (got, expect) => panic!("got {got:?}, not {expect:?}"),
        }
    };
    check(&[], Ok("Credentials{}"));
    check(
        &[("username", b"ann"), ("password", b"hunter2")],
        Ok("Credentials{\"username\", \"password\"}"),
    );
    check(
        &[("bearerToken", b"hunter2"), ("ca.crt", b"pem")],
        Ok("Credentials{\"bearerToken\", \"ca.crt\"}"),
    );
    check(
        &[("tls.crt", b"pem"), ("tls.key", b"hunter2"), ("other", b"x")],
        Ok("Credentials{\"tls.crt\", \"tls.key\"}"),
    );
    check(
        &[("username", b"ann")],
        Err("username and password must both be set"),
    );
    check(
        &[("tls.crt", b"pem")],
        Err("tls.crt and tls.key must be set together"),
    );
    check(
        &[("username", b"a"), ("password", b"b"), ("bearerToken", b"c")],
        Err("keep one"),
    );
    check(
        &[("identity", b"hunter2")],
        Err("identity also needs known_hosts"),
    );
    check(
        &[
            ("identity", b"hunter2"),
            ("known_hosts", b"x"),
            ("password", b"hunter2"),
        ],
        Ok("Credentials{\"password\", \"identity\", \"known_hosts\"}"),
    );
    check(
        &[
            ("identity", b"hunter2"),
            ("known_hosts", b"x"),
            ("username", b"ann"),
        ],
        Err("username and password must both be set"),
    );
    check(
        &[("bearerToken", b"hunter2\nhunter2")],
        Err("key \"bearerToken\" contains a line feed"),
    );
    // The trailing newline of a file.
    check(
        &[("bearerToken", b"hunter2\n")],
        Ok("Credentials{\"bearerToken\"}"),
    );
    check(
        &[("bearerToken", b"hunter2\xff")],
        Err("key \"bearerToken\" is not UTF-8"),
    );
}

#[test]
fn commits_are_given_in_full() {
    let check = |text: &str, expect: bool| assert_eq!(text.parse::<CommitId>().is_ok(), expect, "{text}");
    check(COMMIT, true);
    check(&"aB".repeat(20), true);
    check(&"a".repeat(64), true);
    check("0123456", false);
    check("main", false);
    check("", false);
    check(&"g".repeat(40), false);
    check(&"é".repeat(20), false);
    assert_eq!(
        "AB".repeat(20).parse::<CommitId>().unwrap().as_str(),
        "ab".repeat(20)
    );
    assert_eq!(
        "0123456".parse::<CommitId>().unwrap_err().to_string(),
        "\"0123456\" is not a commit: 40 (or 64) hex digits are needed, an abbreviation is ambiguous"
    );
}

#[test]
fn a_remote_never_shows_its_secrets() {
    let credentials = Credentials {
        bearer_token: Some("hunter2".to_owned()),
        ..Credentials::default()
    };
    assert!(!format!("{:?}", Remote::new(URL).with_credentials(credentials)).contains("hunter2"));
    assert!(!format!("{:?}", Remote::new("https://ann:hunter2@example.com/x")).contains("hunter2"));
}
