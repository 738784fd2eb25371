//! Hosts that a process may reach if an object names the URL: gates (`--gate-hosts`) and proxies (`--proxy-hosts`).

use std::{collections::BTreeSet, fmt, str::FromStr};

use reqwest::Url;
use thiserror::Error;

/// A host, with or without a port. Without: the default port of the scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    /// As in URLs: lower case, IPv6 in brackets.
    host: String,
    port: Option<u16>,
}

/// A text that is not a host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a host: write HOST or HOST:PORT, such as prometheus.example.com:9090")]
pub struct NoHost(String);

/// A URL that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAllowed {
    /// The URL cannot be parsed.
    #[error("it is not a URL: {0}")]
    Address(String),
    /// Its host is not allowed; with the port if the URL has one.
    #[error("host {0} is not allowed")]
    Host(String),
}

/// The allowed hosts. The default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(BTreeSet<Host>);

impl FromStr for Host {
    type Err = NoHost;

    fn from_str(text: &str) -> Result<Self, NoHost> {
        let refused = || NoHost(text.to_owned());
        let authority: http::uri::Authority = text.parse().map_err(|_| refused())?;
        let port = authority.port_u16();
        let port_is_one = text
            .rsplit_once(':')
            .is_none_or(|_| port.is_some() || text.ends_with(']'));
        if authority.host().is_empty() || text.contains(['@', '*']) || !port_is_one {
            return Err(refused());
        }
        let url = Url::parse(&format!("https://{}", authority.host())).map_err(|_| refused())?;
        let host = url.host_str().ok_or_else(refused)?.to_owned();
        Ok(Self { host, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl FromIterator<Host> for Hosts {
    fn from_iter<T: IntoIterator<Item = Host>>(hosts: T) -> Self {
        Self(hosts.into_iter().collect())
    }
}

impl Hosts {
    /// The parsed URL, if its host is one of these.
    ///
    /// # Errors
    /// The URL has no host, or a host that is not allowed.
    pub fn admit(&self, url: &str) -> Result<Url, NotAllowed> {
        let url = Url::parse(url).map_err(|error| NotAllowed::Address(error.to_string()))?;
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(NotAllowed::Address("it names no host".to_owned()));
        };
        let named = |port: Option<u16>| Host {
            host: host.to_owned(),
            port,
        };
        let usual = url.port().is_none() && self.0.contains(&named(None));
        if usual || self.0.contains(&named(Some(port))) {
            Ok(url)
        } else {
            Err(NotAllowed::Host(named(url.port()).to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_host() {
        let check = |text: &str, expect: Option<&str>| {
            let read = text.parse::<Host>().ok().map(|host| host.to_string());
            assert_eq!(read.as_deref(), expect, "{text}");
        };
        check("Prometheus.example.com", Some("prometheus.example.com"));
        check("prometheus:9090", Some("prometheus:9090"));
        check("[::1]:9090", Some("[::1]:9090"));
        check("[::1]", Some("[::1]"));
        for refused in [
            "",
            "https://prometheus",
            "a/b",
            "user@host",
            "*.example.com",
            "host:port",
            "host:",
            "host:99999",
            "a b",
        ] {
            check(refused, None);
        }
    }

    fn check(hosts: &[&str], url: &str, expect: Result<&str, &str>) {
        let hosts: Hosts = hosts.iter().map(|text| text.parse::<Host>().unwrap()).collect();
        let read = hosts
            .admit(url)
            .map(|url| url.to_string())
            .map_err(|error| error.to_string());
        match (read, expect) {
            (Ok(url), Ok(expect)) => assert_eq!(url, expect),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
            (read, expect) => panic!("{url}: got {read:?}, not {expect:?}"),
        }
    }

    #[test]
    fn an_allowed_host_matches_only_its_exact_name_and_port() {
        check(&["a.test"], "https://A.test/x?q=1", Ok("https://a.test/x?q=1"));
        check(&["a.test"], "https://a.test:443/", Ok("https://a.test/"));
        check(&["a.test:443"], "https://a.test/", Ok("https://a.test/"));
        check(
            &["a.test:9090"],
            "https://a.test:9090/",
            Ok("https://a.test:9090/"),
        );
        check(&["127.0.0.1:80"], "http://127.1/", Ok("http://127.0.0.1/"));
        let not = |hosts: &[&str], url: &str, named: &str| {
            check(hosts, url, Err(&format!("host {named} is not allowed")));
        };
        not(&[], "https://a.test/", "a.test");
        not(&["a.test"], "https://a.test:9090/", "a.test:9090");
        not(&["a.test:9090"], "https://a.test/", "a.test");
        not(&["a.test"], "https://b.a.test/", "b.a.test");
        not(&["a.test"], "https://a.test.evil.test/", "a.test.evil.test");
        not(&["a.test"], "https://evil.test\\@a.test/", "evil.test");
        not(&["a.test"], "https://evil.test#@a.test/", "evil.test");
        not(&["a.test"], "https://a.test./", "a.test.");
        check(&["a.test"], "https://", Err("it is not a URL"));
    }
}
