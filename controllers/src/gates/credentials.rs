//! The credentials of a gate: read from a Secret for one evaluation, and never shown.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};

/// The replacement of a Secret's value in a message.
const HIDDEN: &str = "***";

/// Credentials from a Secret. Must not be printed: there is no `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The authentication of the request.
    pub login: Option<Login>,
    /// Additional certificate authorities to trust (PEM).
    pub authorities: Option<Vec<u8>>,
}

/// How a gate authenticates.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// A bearer token (key `token`).
    Bearer(String),
    /// Basic auth (keys `username` and `password`).
    Basic(String, String),
}

impl Credentials {
    /// Reads the data of a Secret; the error says which key is wrong, and nothing of its value.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, String> {
        let text = |key: &str| -> Result<Option<String>, String> {
            let Some(value) = data.get(key) else {
                return Ok(None);
            };
            let text = std::str::from_utf8(value).map_err(|_| format!("key {key:?} is not UTF-8"))?;
            // A file ends with a line feed; white space around a token is never part of it, but a password may begin or
            // end with some.
            let text = match key {
                "token" => text.trim(),
                _ => text.trim_end_matches(['\r', '\n']),
            };
            if text.chars().any(char::is_control) {
                return Err(format!(
                    "key {key:?} contains a line feed or another control character"
                ));
            }
            Ok(Some(text.to_owned()))
        };
        let login = match (text("token")?, text("username")?, text("password")?) {
            (Some(token), None, None) => Some(Login::Bearer(token)),
            (None, Some(user), Some(password)) => Some(Login::Basic(user, password)),
            (None, None, None) if data.contains_key("ca.crt") => None,
            (None, None, None) => {
                return Err("it has neither token nor username and password (nor ca.crt)".to_owned());
            }
            (Some(_), _, _) => {
                return Err("both token and username or password are set; remove one".to_owned());
            }
            (None, _, _) => return Err("username and password must both be set".to_owned()),
        };
        Ok(Self {
            login,
            authorities: data.get("ca.crt").cloned(),
        })
    }

    /// A text without the values of the Secret, in case the host echoed them.
    pub fn hide_in(&self, text: &str) -> String {
        let secrets = match &self.login {
            None => Vec::new(),
            Some(Login::Bearer(token)) => vec![token.clone()],
            Some(Login::Basic(user, password)) => {
                vec![STANDARD.encode(format!("{user}:{password}")), password.clone()]
            }
        };
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret.as_str(), HIDDEN)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[(&str, &str)], expect: Result<Option<Login>, &str>) {
        let data = keys
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        match (Credentials::from_secret(&data), expect) {
            (Ok(read), Ok(expect)) => assert!(read.login == expect, "{keys:?}"),
            (Err(error), Err(expect)) => {
                assert!(error.contains(expect), "{error}");
                assert!(!error.contains("hunter2"), "{error}");
            }
            (Ok(_), Err(expect)) => panic!("{keys:?} is taken, not {expect}"),
            (Err(error), Ok(_)) => panic!("{keys:?}: {error}"),
        }
    }

    #[test]
    fn what_a_secret_may_hold() {
        check(
            &[("token", "hunter2")],
            Ok(Some(Login::Bearer("hunter2".to_owned()))),
        );
        check(
            &[("username", "ann"), ("password", "hunter2")],
            Ok(Some(Login::Basic("ann".to_owned(), "hunter2".to_owned()))),
        );
        check(&[("ca.crt", "hunter2")], Ok(None));
        check(&[], Err("neither token"));
        check(&[("bearerToken", "hunter2")], Err("neither token"));
        check(&[("username", "ann")], Err("must both be set"));
        check(&[("password", "hunter2")], Err("must both be set"));
        check(
            &[("token", "hunter2"), ("username", "ann"), ("password", "x")],
            Err("remove one"),
        );
        check(
            &[("token", " hunter2\r\n")],
            Ok(Some(Login::Bearer("hunter2".to_owned()))),
        );
        check(
            &[("username", "ann\n"), ("password", " hunter2\n")],
            Ok(Some(Login::Basic("ann".to_owned(), " hunter2".to_owned()))),
        );
        for refused in ["hunter2\nhunter2", "hunter2\0", "hunter2\u{7f}"] {
            check(&[("token", refused)], Err("key \"token\" contains a line feed"));
            check(
                &[("username", "ann"), ("password", refused)],
                Err("key \"password\" contains a line feed"),
            );
        }
    }

    #[test]
    fn what_comes_back_is_hidden() {
        let with = |login: Login| Credentials {
            login: Some(login),
            authorities: None,
        };
        let check = |credentials: &Credentials, text: &str, expect: &str| {
            assert_eq!(credentials.hide_in(text), expect);
        };
        check(
            &with(Login::Bearer("hunter2".to_owned())),
            "Bearer hunter2!",
            "Bearer ***!",
        );
        let basic = with(Login::Basic("ann".to_owned(), "hunter2".to_owned()));
        check(
            &basic,
            "ann hunter2, Basic YW5uOmh1bnRlcjI=",
            "ann ***, Basic ***",
        );
        check(&Credentials::default(), "hunter2", "hunter2");
        check(&with(Login::Bearer(String::new())), "a", "a");
    }
}
