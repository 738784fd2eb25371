//! Free ports on loopback.

use std::{
    net::TcpListener,
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context;

/// Below those that systems give to outgoing connections (from 32,768 on, for Linux): one of them would be taken again by the time that
/// its server listens.
const PORTS: Range<u16> = 20_000..32_000;

/// Ports that no process listens on now, and that this process has not given out before.
pub(crate) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Several processes that start fleets begin at different places.
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
