//! Keeps the server's certificate up to date: reads it from its store, renews it in time, serves it, and publishes its
//! authorities.
//!
//! Each replica does this on its own: writes of the Secret are compare-and-swap, and what another replica wrote is
//! served within [`REREAD`], which is less than [`SPREAD`].

use std::{path::PathBuf, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Client,
    api::{ObjectMeta, PostParams},
};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    certificate::{self, CertificateError, SPREAD, Step, Stored, Subject},
    server::{Shown, ShownError, certified_key},
};
use crate::runtime::{Api, Clock, Shutdown, call::error_chain};

/// How often the Secret or the files are read.
const REREAD: Duration = Duration::from_secs(SPREAD.as_secs() / 2);
/// How long to wait after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How many times a write is tried when another replica wrote first.
const TRIES: u8 = 5;

/// Where the certificate is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a Secret, created and renewed by muster.
    Secret {
        /// The namespace of the Secret.
        namespace: String,
        /// The name of the Secret.
        name: String,
        /// The subject of generated certificates.
        subject: Subject,
    },
    /// In files, written and renewed by another program, such as cert-manager.
    Files {
        /// The certificate and its chain, PEM.
        certificate: PathBuf,
        /// The private key, PEM.
        key: PathBuf,
    },
}

/// Why no certificate is served.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The Secret could not be read or written.
    #[error("Secret {0}: {message}", message = error_chain(.1))]
    Secret(String, #[source] kube::Error),
    /// Other replicas wrote the Secret first at each try.
    #[error("Secret {0} was written by another replica {TRIES} times in a row")]
    Conflicts(String),
    /// A file could not be read.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] std::io::Error),
    /// The certificate in a file has expired.
    #[error("{path}: this certificate expired at {1}, and API servers refuse it; write a new one to the file", path = .0.display())]
    Expired(PathBuf, Timestamp),
    /// The certificate could not be created.
    #[error(transparent)]
    Make(#[from] CertificateError),
    /// The certificate cannot be used by the server.
    #[error("the certificate cannot be served: {0}")]
    Show(#[from] ShownError),
}

/// Keeps a certificate up to date.
pub struct Keeper {
    client: Client,
    clock: Clock,
    storage: Storage,
    shown: Shown,
    authorities: watch::Sender<String>,
    current: Option<Stored>,
}

impl Keeper {
    /// The served certificate, and the authorities that signed it (PEM; empty until they are known, and with files).
    pub fn new(client: Client, clock: Clock, storage: Storage) -> (Self, Shown, watch::Receiver<String>) {
        let (authorities, published) = watch::channel(String::new());
        let shown = Shown::default();
        let keeper = Self {
            client,
            clock,
            storage,
            shown: shown.clone(),
            authorities,
            current: None,
        };
        (keeper, shown, published)
    }

    /// Keeps the certificate up to date until shutdown. After a failure it retries and serves the previous certificate
    /// meanwhile.
    pub async fn run(mut self, shutdown: Shutdown) {
        loop {
            let pause = match self.turn().await {
                Ok(pause) => pause,
                Err(error) => {
                    warn!(%error, "the certificate of the admission server could not be updated");
                    AFTER_FAILURE
                }
            };
            let slept = shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
            if slept.is_none() {
                return;
            }
        }
    }

    /// Reads the certificate once, and renews it if it is time; returns how long it is good.
    pub async fn turn(&mut self) -> Result<Duration, KeepError> {
        let (stored, until) = match &self.storage {
            Storage::Secret {
                namespace,
                name,
                subject,
            } => self.of_secret(namespace, name, subject).await?,
            Storage::Files { certificate, key } => {
                let stored = Stored {
                    certificate: read(certificate).await?,
                    key: read(key).await?,
                    ..Stored::default()
                };
                // A certificate that cannot be parsed is refused below, with the parser's message.
                let until = certificate::expires(&stored.certificate).unwrap_or(Timestamp::MAX);
                if until <= self.clock.now() {
                    return Err(KeepError::Expired(certificate.clone(), until));
                }
                (stored, until)
            }
        };
        if self.current.as_ref() != Some(&stored) {
            self.shown
                .change(certified_key(&stored.certificate, &stored.key)?);
            self.authorities.send_replace(stored.authorities.clone());
            info!("the certificate of the admission server was replaced");
            self.current = Some(stored);
        }
        let left = Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default(); // zero if it has passed
        Ok(left.min(REREAD).max(Duration::from_secs(1)))
    }

    async fn of_secret(
        &self,
        namespace: &str,
        name: &str,
        subject: &Subject,
    ) -> Result<(Stored, Timestamp), KeepError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let failed = |error| KeepError::Secret(name.to_owned(), error);
        for _ in 0..TRIES {
            let live = secrets.get_opt(name).await.map_err(failed)?;
            let stored = live.as_ref().map(content).unwrap_or_default();
            let next = match certificate::next_certificate_step(&stored, subject, self.clock.now())? {
                Step::Keep(until) => return Ok((stored, until)),
                Step::Replace(next) => next,
            };
            let by = PostParams::default();
            let written = match live {
                None => secrets.create(&by, &with(Secret::default(), name, &next)).await,
                Some(live) => secrets.replace(name, &by, &with(live, name, &next)).await,
            };
            match written {
                // It is read again: there may be another step.
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(KeepError::Conflicts(name.to_owned()))
    }
}

async fn read(path: &PathBuf) -> Result<String, KeepError> {
    let read = tokio::fs::read_to_string(path).await;
    read.map_err(|error| KeepError::File(path.clone(), error))
}

fn content(secret: &Secret) -> Stored {
    let data = secret.data.iter().flatten();
    Stored::read(&data.map(|(key, value)| (key.clone(), value.0.clone())).collect())
}

/// The Secret with this content; other keys stay.
fn with(secret: Secret, name: &str, stored: &Stored) -> Secret {
    let mut data = secret.data.unwrap_or_default();
    data.extend(
        stored
            .data()
            .into_iter()
            .map(|(key, value)| (key, ByteString(value))),
    );
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..secret.metadata
        },
        data: Some(data),
        ..secret
    }
}
