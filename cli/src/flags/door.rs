//! Listen addresses.

use std::net::SocketAddr;

/// Where `/metrics`, `/healthz` and `/readyz` are served, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoorAddress(Option<SocketAddr>);

impl DoorAddress {
    /// The listen address; `None` if nothing is served.
    pub(crate) const fn address(self) -> Option<SocketAddr> {
        self.0
    }
}

/// Parses `--metrics-addr`.
pub(crate) fn door_address(text: &str) -> Result<DoorAddress, String> {
    if matches!(text, "" | "0") {
        return Ok(DoorAddress(None));
    }
    // A port alone means every address, as in Go programs; `::` accepts IPv4 too where the machine has both.
    let whole = text
        .strip_prefix(':')
        .filter(|port| port.parse::<u16>().is_ok())
        .map_or_else(|| text.to_owned(), |port| format!("0.0.0.0:{port}"));
    let address = whole
        .parse()
        .map_err(|_| "write ADDRESS:PORT or :PORT, such as 127.0.0.1:8080, or 0 to disable".to_owned())?;
    Ok(DoorAddress(Some(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen() {
        let check = |text: &str, expect: Option<Option<&str>>| {
            let read = door_address(text).ok().map(|DoorAddress(address)| address);
            assert_eq!(
                read,
                expect.map(|address| address.map(|text| text.parse().unwrap())),
                "{text}"
            );
        };
        check("", Some(None));
        check("0", Some(None));
        check("127.0.0.1:8080", Some(Some("127.0.0.1:8080")));
        check(":8080", Some(Some("0.0.0.0:8080")));
        check("[::1]:8080", Some(Some("[::1]:8080")));
        for refused in [
            "8080",
            "localhost:8080",
            ":",
            ":99999",
            "http://127.0.0.1:8080",
            "127.0.0.1",
        ] {
            check(refused, None);
        }
    }
}
