//! Accepted host names. Protects a local dashboard against DNS rebinding: a foreign page that points its own host name
//! to 127.0.0.1 is rejected.

/// The accepted host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// `localhost`, loopback addresses, and these.
    Loopback(Vec<String>),
    /// Any name: for a dashboard behind a Service or an ingress.
    Any,
}

impl Hosts {
    /// Whether a `Host` header, or the authority of a request, is accepted.
    pub fn admit(&self, host: &str) -> bool {
        let Self::Loopback(more) = self else {
            return true;
        };
        let Some(name) = name(host) else {
            return false;
        };
        let address: Option<std::net::IpAddr> = name.parse().ok(); // a name, then
        address.is_some_and(|address| address.is_loopback())
            || name == "localhost"
            || name.ends_with(".localhost")
            || more.iter().any(|more| more.eq_ignore_ascii_case(&name))
    }
}

/// The name in `name`, `name:port`, `[address]` or `[address]:port`; `None` for anything else.
fn name(host: &str) -> Option<String> {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return fits.then(|| address.to_owned());
    }
    let name = match host.split_once(':') {
        Some((name, port)) => is_port(port).then_some(name)?,
        None => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    (!name.is_empty()).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine() {
        let hosts = Hosts::Loopback(vec!["fleet.example.com".to_owned()]);
        for host in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:1",
            "127.8.9.1",
            "[::1]:8080",
            "[::1]",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "fleet.example.com:443",
            "Fleet.Example.Com",
        ] {
            assert!(hosts.admit(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "[::2]",
            "[::1",
            "localhost:http",
            "localhost@evil.example",
            "notlocalhost",
            "[::1]evil",
        ] {
            assert!(!hosts.admit(host), "{host}");
        }
        assert!(Hosts::Any.admit("evil.example"));
    }
}
