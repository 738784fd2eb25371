//! Proxies for git, gates and notification receivers.
//!
//! A proxy is set by environment variables of the process (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`, or in lower case),
//! or by the Secret that `proxySecretRef` names, which replaces them. The local host is never reached through a proxy.
//!
//! `NO_PROXY` is a comma-separated list: a domain (with or without a leading dot) matches itself and its subdomains, an
//! IP address matches itself, a network (`10.0.0.0/8`) matches its addresses, and `*` matches everything. Entries have
//! no port.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

/// Which URL is reached through which proxy: none by default.
#[derive(Clone, Default)]
pub struct Proxies(Arc<Routes>);

#[derive(Default)]
struct Routes {
    https: Option<Proxy>,
    http: Option<Proxy>,
    /// Matches hosts that are not in `NO_PROXY`.
    excepted: Option<Matcher>,
}

/// The URL of an HTTP proxy, with user and password if needed.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy(Url);

/// A proxy setting that cannot be used. Never contains the value, which may include a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin} {why}")]
pub struct ProxyError {
    /// Name of the variable, or key in the Secret.
    pub origin: String,
    /// What is wrong with the value.
    pub why: &'static str,
}

impl Proxies {
    /// Reads the environment variables of the process through `get`.
    ///
    /// # Errors
    /// If a variable is not the URL of an HTTP proxy.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let read = |upper: &str| {
            let lower = upper.to_ascii_lowercase();
            let value = |name: &str| get(name).filter(|value| !value.is_empty());
            value(upper)
                .map(|value| (upper.to_owned(), value))
                .or_else(|| value(&lower).map(|value| (lower, value)))
        };
        let proxy = |name| {
            read(name)
                .map(|(origin, value)| Proxy::parse(&value).map_err(|why| ProxyError { origin, why }))
                .transpose()
        };
        // A CGI server passes a request header of its client as HTTP_PROXY.
        let is_cgi = get("REQUEST_METHOD").is_some();
        let excepted =
            read("NO_PROXY").map(|(_, list)| Matcher::builder().all("http://proxy").no(list).build());
        Ok(Self(Arc::new(Routes {
            https: proxy("HTTPS_PROXY")?,
            http: if is_cgi { None } else { proxy("HTTP_PROXY")? },
            excepted,
        })))
    }

    /// One proxy for everything except the local host.
    pub fn through(proxy: Proxy) -> Self {
        Self(Arc::new(Routes {
            https: Some(proxy.clone()),
            http: Some(proxy),
            excepted: None,
        }))
    }

    /// The proxy for a URL, if there is one.
    pub fn route(&self, url: &Url) -> Option<&Proxy> {
        let routes = &*self.0;
        let proxy = match url.scheme() {
            "https" => routes.https.as_ref(),
            "http" => routes.http.as_ref(),
            _ => None,
        }?;
        let excepted = routes.excepted.as_ref().is_some_and(|excepted| {
            let uri = url.as_str().parse::<Uri>().ok();
            uri.is_none_or(|uri| excepted.intercept(&uri).is_none())
        });
        (!excepted && !is_here(url)).then_some(proxy)
    }

    /// For a reqwest client, which then ignores the environment.
    pub fn rule(&self) -> reqwest::Proxy {
        let proxies = self.clone();
        reqwest::Proxy::custom(move |url| proxies.route(url).map(|proxy| proxy.0.clone()))
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("https", &self.0.https)
            .field("http", &self.0.http)
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// Reads a Secret with Flux's keys: `address`, and `username` with `password` if the proxy needs them.
    ///
    /// # Errors
    /// If a key is missing, is not text, or is not the address of an HTTP proxy.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, ProxyError> {
        let refused = |key: &str, why| ProxyError {
            origin: format!("key {key:?}"),
            why,
        };
        let text = |key: &str| {
            let value = data.get(key).map(|value| std::str::from_utf8(value));
            value
                .transpose()
                .map(|value| value.map(str::trim).filter(|value| !value.is_empty()))
                .map_err(|_| refused(key, "is not UTF-8"))
        };
        let address = text("address")?
            .ok_or_else(|| refused("address", "is missing: it is the address of the proxy"))?;
        let Self(mut url) = Self::parse(address).map_err(|why| refused("address", why))?;
        let (user, password) = (text("username")?, text("password")?);
        if user.is_none() && password.is_some() {
            return Err(refused("username", "is missing, but there is a password"));
        }
        if let Some(user) = user {
            let set = url.set_username(user).and_then(|()| url.set_password(password));
            set.map_err(|()| refused("address", NOT_HTTP))?;
        }
        Ok(Self(url))
    }

    /// Parses an address with or without a scheme, `http` by default; user and password may precede an `@`.
    ///
    /// # Errors
    /// Describes what is wrong with the address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let with_scheme = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let url = Url::parse(&with_scheme).map_err(|_| "is not an address")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(NOT_HTTP);
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err("has a path; set only host and port");
        }
        Ok(Self(url))
    }

    /// The URL with user and password.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }
}

/// What reqwest reports for a proxy that requires authentication, and for one that answers with any other error status.
pub(crate) const ASKS: &str = "tunnel error: proxy authorization required";
pub(crate) const REFUSES: &str = "tunnel error: unsuccessful";

const NOT_HTTP: &str =
    "is not an address of an HTTP proxy (http:// or https://); others, such as socks5, are not supported";

impl fmt::Debug for Proxy {
    /// Omits user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

/// Whether the URL is on the local host.
fn is_here(url: &Url) -> bool {
    url.host_str().is_none_or(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost"
            || host.ends_with(".localhost")
            || address.is_ok_and(|address| address.to_canonical().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2-canary";

    fn proxies(variables: &[(&str, &str)]) -> Result<Proxies, ProxyError> {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        Proxies::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_way_to_an_address() {
        let check = |variables: &[(&str, &str)], url: &str, expect: Option<&str>| {
            let proxies = proxies(variables).unwrap();
            let route = proxies.route(&url.parse().unwrap()).map(Proxy::origin);
            assert_eq!(route.as_deref(), expect, "{url} with {variables:?}");
        };
        let both = [
            ("HTTPS_PROXY", "http://secure:3128"),
            ("http_proxy", "plain:3129"),
        ];
        check(&[], "https://git.test/r", None);
        check(&both, "https://git.test/r", Some("http://secure:3128"));
        check(&both, "http://git.test/r", Some("http://plain:3129"));
        check(
            &[("https_proxy", "https://lower")],
            "https://git.test/r",
            Some("https://lower"),
        );
        check(
            &[("HTTPS_PROXY", ""), ("https_proxy", "lower")],
            "https://git.test",
            Some("http://lower"),
        );
        check(
            &[("HTTPS_PROXY", "upper"), ("https_proxy", "lower")],
            "https://git.test",
            Some("http://upper"),
        );
        check(
            &[("HTTP_PROXY", "plain"), ("REQUEST_METHOD", "GET")],
            "http://git.test",
            None,
        );
        for here in [
            "localhost:8443",
            "127.0.0.1",
            "[::1]:8443",
            "127.8.8.8",
            "[::ffff:127.0.0.1]",
            "a.localhost",
        ] {
            check(&both, &format!("https://{here}/r"), None);
        }
        let without = |list| [("HTTPS_PROXY", "proxy"), ("NO_PROXY", list)];
        let used = Some("http://proxy");
        check(&without("git.test"), "https://git.test/r", None);
        check(&without("git.test"), "https://a.git.test/r", None);
        check(&without("git.test"), "https://agit.test/r", used);
        check(&without(" a.test, .git.test "), "https://git.test/r", None);
        check(&without("10.0.0.0/8"), "https://10.1.2.3/r", None);
        check(&without("10.0.0.0/8"), "https://11.1.2.3/r", used);
        check(&without("fd00::/8"), "https://[fd00::1]/r", None);
        check(&without("10.1.2.3"), "https://10.1.2.3:8443/r", None);
        check(&without("*"), "https://git.test/r", None);
        check(&without("git.test:8443"), "https://git.test:8443/r", used);
        check(&without(""), "https://git.test/r", used);
    }

    #[test]
    fn what_is_no_proxy() {
        let check = |value: &str, expect: &str| {
            let error = proxies(&[("HTTPS_PROXY", value)]).unwrap_err();
            assert_eq!(error.to_string(), format!("HTTPS_PROXY {expect}"));
        };
        check(&format!("socks5://user:{SECRET}@proxy:1080"), NOT_HTTP);
        check(&format!("http://user:{SECRET}@proxy:99999"), "is not an address");
        check(
            &format!("http://proxy/{SECRET}"),
            "has a path; set only host and port",
        );
        check("http://", "is not an address");
    }

    #[test]
    fn a_secret() {
        let read = |pairs: &[(&str, &str)]| {
            let data = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
            Proxy::from_secret(&data.collect())
        };
        let full = read(&[
            ("address", "http://proxy:3128\n"),
            ("username", "a@b"),
            ("password", SECRET),
        ])
        .unwrap();
        assert_eq!(full.url().as_str(), format!("http://a%40b:{SECRET}@proxy:3128/"));
        for shown in [
            format!("{full:?}"),
            format!("{:?}", Proxies::through(full.clone())),
            full.origin(),
        ] {
            assert!(shown.contains("http://proxy:3128"), "{shown}");
            assert!(!shown.contains(SECRET) && !shown.contains("a%40b"), "{shown}");
        }
        let check = |pairs: &[(&str, &str)], expect: &str| {
            assert_eq!(read(pairs).unwrap_err().to_string(), expect);
        };
        check(&[], "key \"address\" is missing: it is the address of the proxy");
        check(
            &[("address", "ftp://proxy")],
            &format!("key \"address\" {NOT_HTTP}"),
        );
        check(
            &[("address", "proxy"), ("password", SECRET)],
            "key \"username\" is missing, but there is a password",
        );
    }
}
