//! The address of a cluster, from the view of the management cluster: what can be said before it is tried. Pure.

use std::net::IpAddr;

use http::Uri;

/// Who can probably reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// No restriction is known.
    Anybody,
    /// Only this machine: from elsewhere it is another host.
    Loopback,
    /// An address of a private network.
    PrivateAddress,
    /// A name that only some resolvers know.
    PrivateName,
}

impl Reach {
    /// The note about it; `None` if there is none.
    pub(crate) const fn note_text(self) -> Option<&'static str> {
        match self {
            Self::Anybody => None,
            Self::Loopback => {
                Some("is a loopback address: it works only if the controller runs on this machine")
            }
            Self::PrivateAddress => {
                Some("is in a private network: the management cluster has to be in it, or routed to it")
            }
            Self::PrivateName => {
                Some("is a name that not every resolver knows: the management cluster must resolve it")
            }
        }
    }
}

/// An address that is valid in a kubeconfig of muster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    /// The address as given.
    pub server: String,
    /// Host, an IPv6 address in brackets.
    pub host: String,
    /// Port number.
    pub port: u16,
}

impl ServerAddress {
    /// Parses `https://host[:port]`.
    pub(crate) fn parse(server: &str) -> Result<Self, String> {
        let uri: Uri = server
            .parse()
            .map_err(|_invalid| format!("{server} is not an address: write https://HOST:PORT"))?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("muster supports only https, not {server}"));
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| format!("{server} has no host: write https://HOST:PORT"))?;
        Ok(Self {
            server: server.to_owned(),
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(443),
        })
    }

    /// Who can probably reach it.
    pub(crate) fn reach(&self) -> Reach {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) if address.is_loopback() || address.is_unspecified() => Reach::Loopback,
            Ok(IpAddr::V4(address)) if address.is_private() || address.is_link_local() => {
                Reach::PrivateAddress
            }
            Ok(IpAddr::V6(address)) if address.is_loopback() || address.is_unspecified() => Reach::Loopback,
            Ok(IpAddr::V6(address)) if address.is_unique_local() || address.is_unicast_link_local() => {
                Reach::PrivateAddress
            }
            Ok(_) => Reach::Anybody,
            Err(_name) => reach_of_name(&bare.to_ascii_lowercase()),
        }
    }
}

fn reach_of_name(name: &str) -> Reach {
    let ends = |suffix: &str| name == suffix || name.ends_with(&format!(".{suffix}"));
    if ends("localhost") {
        return Reach::Loopback;
    }
    let private = ["local", "internal", "lan", "home.arpa", "svc"];
    if !name.contains('.') || private.iter().any(|suffix| ends(suffix)) {
        return Reach::PrivateName;
    }
    Reach::Anybody
}

/// In-network addresses of clusters of well-known tools.
pub(crate) fn proposal(context: &str) -> Option<String> {
    if let Some(name) = context.strip_prefix("kind-") {
        return Some(format!("https://{name}-control-plane:6443"));
    }
    let name = context.strip_prefix("k3d-")?;
    Some(format!("https://k3d-{name}-server-0:6443"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: &str, expect: Result<(&str, u16, Reach), &str>) {
        let got = ServerAddress::parse(server);
        let got = got
            .as_ref()
            .map(|address| (&*address.host, address.port, address.reach()));
        assert_eq!(got.map_err(|error| &**error), expect, "{server}");
    }

    #[test]
    fn addresses_are_read_and_judged() {
        use Reach::{Anybody, Loopback, PrivateAddress, PrivateName};
        check("https://127.0.0.1:41833", Ok(("127.0.0.1", 41833, Loopback)));
        check("https://LOCALHOST", Ok(("LOCALHOST", 443, Loopback)));
        check("https://[::1]:6443/x", Ok(("[::1]", 6443, Loopback)));
        check("https://0.0.0.0:1", Ok(("0.0.0.0", 1, Loopback)));
        check("https://10.0.4.2:6443", Ok(("10.0.4.2", 6443, PrivateAddress)));
        check("https://[fd00::1]", Ok(("[fd00::1]", 443, PrivateAddress)));
        check(
            "https://eu-2-control-plane:6443",
            Ok(("eu-2-control-plane", 6443, PrivateName)),
        );
        check(
            "https://api.corp.internal",
            Ok(("api.corp.internal", 443, PrivateName)),
        );
        check("https://api.example.com", Ok(("api.example.com", 443, Anybody)));
        check("https://203.0.113.9:6443", Ok(("203.0.113.9", 6443, Anybody)));
        check(
            "http://api.example.com",
            Err("muster supports only https, not http://api.example.com"),
        );
        check(
            "api.example.com",
            Err("muster supports only https, not api.example.com"),
        );
        check(
            "https://",
            Err("https:// is not an address: write https://HOST:PORT"),
        );
    }

    #[test]
    fn tools_have_their_inner_addresses() {
        assert_eq!(
            proposal("kind-eu-2").as_deref(),
            Some("https://eu-2-control-plane:6443")
        );
        assert_eq!(
            proposal("k3d-eu").as_deref(),
            Some("https://k3d-eu-server-0:6443")
        );
        assert_eq!(proposal("eu-2"), None);
    }
}
