//! The signals that end a server.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of a process that a second signal ended at once.
const INTERRUPTED: i32 = 130;

/// Resolves at the first SIGTERM or SIGINT. From then on a second one ends the process at once: whoever sends it
/// does not want to wait for running requests.
///
/// # Errors
/// If the signals can't be listened to.
pub fn terminated() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        either(&mut term, &mut int).await;
        tracing::info!("a signal has come; a second one ends the server at once");
        tokio::spawn(async move {
            either(&mut term, &mut int).await;
            std::process::exit(INTERRUPTED);
        });
    })
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
