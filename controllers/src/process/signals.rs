//! How a process is asked to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::runtime::Shutdown;

/// The exit code of a process that was asked to end twice.
const FAILED: i32 = 1;

/// Cancelled by SIGTERM or Ctrl-C; the second signal ends the process at once, whatever is in flight.
///
/// # Errors
/// The signals cannot be listened to.
pub fn until_signalled() -> io::Result<Shutdown> {
    let shutdown = Shutdown::new();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let order = shutdown.clone();
    tokio::spawn(async move {
        either(&mut terminated, &mut interrupted).await;
        order.cancel();
        either(&mut terminated, &mut interrupted).await;
        std::process::exit(FAILED);
    });
    Ok(shutdown)
}

async fn either(first: &mut Signal, second: &mut Signal) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}
