//! Free ports on loopback.

use std::{
    net::TcpListener,
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context;

/// Below the ephemeral port range of systems (from 32,768 on, for Linux): an ephemeral port could be taken by an
/// outgoing connection before its server listens.
const PORTS: Range<u16> = 20_000..32_000;

/// Ports without a listener that this process has not handed out before.
pub(crate) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Concurrent processes start at different ports.
    let (first, count) = (
        std::process::id().wrapping_mul(97),
        u32::from(PORTS.end - PORTS.start),
    );
    let mut tried = (0..count).map(|_| {
        let offset = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
        PORTS
            .start
            .saturating_add(u16::try_from(offset).unwrap_or_default()) // less than the length of a range of u16
    });
    let mut ports = [0; N];
    for port in &mut ports {
        *port = tried
            .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .with_context(|| format!("no port of {PORTS:?} is free"))?;
    }
    Ok(ports)
}
