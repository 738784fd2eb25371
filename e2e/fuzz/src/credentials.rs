//! Laws of other untrusted request settings: Secrets of gates and of repositories, hosts, receivers. Accepted values
//! can be sent, and no error shows a value.

use std::{collections::BTreeMap, path::Path};

use arbitrary::{Result, Unstructured};
use http::HeaderValue;
use muster_controllers::{
    gates::{self, Login},
    hosts::Host,
    notify,
};
use muster_sync::source::{self, Remote};

/// Valid contents of Secrets, and near misses.
const KEYS: [&str; 9] = [
    "token",
    "username",
    "password",
    "bearerToken",
    "ca.crt",
    "tls.crt",
    "tls.key",
    "identity",
    "other",
];

/// Pieces of values: characters that a header rejects, and parts of hosts.
const PIECES: [&[u8]; 26] = [
    CANARY.as_bytes(),
    b"a",
    b" ",
    b"\n",
    b"\r\n",
    b"\t",
    b"\0",
    b"\x1b[2J",
    b"\x7f",
    b"\xff",
    b"\xc3\xa4",
    b"\xe2\x80\xa8",
    b"https://",
    b"http://127.0.0.1",
    b"a.test",
    b":",
    b":65536",
    b":0",
    b"@",
    b"[::1]",
    b"%",
    b"*",
    b"receivers: [{name: a, kind: webhook, url: '",
    b"'}]",
    b"link: ",
    b"{module}",
];

/// A text that no message of muster contains, and which therefore reveals a leaked value.
const CANARY: &str = "hunter2";

/// The laws, for a Secret and a text that are derived from the bytes.
pub fn check(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    // Too few bytes for a case: nothing to check.
    if let Ok((secret, text)) = case(&mut bytes) {
        of_gates(&secret);
        of_repositories(&secret, &text);
        hosts_read_back(&text);
        // It must only not panic: a file of receivers belongs to the operator.
        drop(notify::Config::parse(&text, Path::new("/etc/muster")));
    }
}

type Data = BTreeMap<String, Vec<u8>>;

fn case(bytes: &mut Unstructured<'_>) -> Result<(Data, String)> {
    let mut secret = Data::new();
    for _ in 0..bytes.int_in_range(0..=4)? {
        secret.insert((*bytes.choose(&KEYS)?).to_owned(), value(bytes)?);
    }
    let text = value(bytes)?;
    Ok((secret, String::from_utf8_lossy(&text).into_owned()))
}

fn value(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    for _ in 0..bytes.int_in_range(0..=6)? {
        if bytes.ratio(7, 8)? {
            value.extend_from_slice(bytes.choose(&PIECES)?);
        } else {
            value.push(bytes.arbitrary()?);
        }
    }
    Ok(value)
}

fn of_gates(secret: &Data) {
    let read = match gates::Credentials::from_secret(secret) {
        Ok(read) => read,
        Err(error) => return assert!(!error.contains(CANARY), "a value is leaked: {error}"),
    };
    match &read.login {
        None => assert!(!secret.contains_key("token") && !secret.contains_key("password")),
        Some(Login::Bearer(token)) => {
            assert_sendable(secret, "token", token);
            assert!(!read.hide_in(token).contains(CANARY));
        }
        Some(Login::Basic(user, password)) => {
            assert_sendable(secret, "username", user);
            assert_sendable(secret, "password", password);
            assert!(!read.hide_in(password).contains(CANARY));
        }
    }
}

fn of_repositories(secret: &Data, url: &str) {
    match source::Credentials::from_secret(secret) {
        Err(error) => {
            let message = format!("{error} {error:?}");
            assert!(!message.contains(CANARY), "a value is leaked: {message}");
        }
        Ok(read) => {
            let texts = [
                ("username", &read.username),
                ("password", &read.password),
                ("bearerToken", &read.bearer_token),
            ];
            for (key, text) in texts {
                assert_eq!(text.is_some(), secret.contains_key(key), "{key}");
                if let Some(text) = text {
                    assert_sendable(secret, key, text);
                }
            }
            let shown = format!("{:?}", Remote::new(url).with_credentials(read));
            let leaks = !url.contains(CANARY) && shown.contains(CANARY);
            assert!(!leaks, "a value is shown: {shown}");
        }
    }
}

/// The value is in the Secret, and is valid in a header.
fn assert_sendable(secret: &Data, key: &str, text: &str) {
    let written = secret.get(key).map(|value| String::from_utf8_lossy(value));
    let written = written.unwrap_or_default();
    assert!(written.trim() == text.trim(), "{key} is another than is written");
    assert!(
        HeaderValue::from_str(&format!("Bearer {text}")).is_ok(),
        "{key} cannot be sent"
    );
    assert!(
        !text.contains(char::is_control),
        "{key} contains a control character"
    );
}

fn hosts_read_back(text: &str) {
    if let Ok(host) = text.parse::<Host>() {
        let shown = host.to_string();
        assert_eq!(
            shown.parse::<Host>().as_ref(),
            Ok(&host),
            "{text:?} is shown as {shown}"
        );
    }
}
