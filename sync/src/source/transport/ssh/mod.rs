//! How libgit2 uses `ssh`: one connection for each exchange of the smart protocol, with the same limits as for `https`.
//!
//! The connection is made by russh: no program is started, no agent is used, and no file is read from a home directory
//! or a configuration. Known hosts and keys come only from the Secret.
//!
//! A negotiation uses one connection, so libgit2 keeps one stream. When libgit2 drops a connection on which no request
//! was sent yet, the operation keeps it for the next stream.

mod identity;
mod known_hosts;
mod session;

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use git2::{ErrorClass, ErrorCode};
use jiff::Timestamp;
use russh::keys::{PrivateKey, PublicKeyOrCertificate};

use self::known_hosts::{Host, KnownHosts};
pub(super) use self::session::Session;
use super::super::pack::Scanner;
use super::super::url::SshAddress;
use super::super::{Credentials, SourceError};
use super::context::Context;
use super::{MAX_REQUEST, current};

/// The address, the user and the keys of a connection.
pub(super) struct Login {
    url: String,
    /// Seconds since 1970, to check host certificates.
    now: u64,
    host: Host,
    user: String,
    command: String,
    key: Arc<PrivateKey>,
    known_hosts: KnownHosts,
}

impl Login {
    /// Reads the ssh keys of the Secret: without a private key and known hosts no connection is made.
    pub(super) fn new(
        url: &str,
        address: &SshAddress,
        credentials: Option<&Credentials>,
        now: Timestamp,
    ) -> Result<Self, SourceError> {
        let refuse = |why: String| SourceError::Credentials { why };
        let keys = credentials.and_then(|held| held.identity.as_deref().zip(held.known_hosts.as_deref()));
        let Some((identity, known_hosts)) = keys else {
            let why = "ssh needs the keys identity and known_hosts; put them into a Secret, and name it in secretRef";
            return Err(refuse(why.to_owned()));
        };
        let known_hosts = KnownHosts::parse(known_hosts)
            .map_err(|why| refuse(format!("key \"known_hosts\" cannot be read: {why}")))?;
        let passphrase = credentials.and_then(|held| held.password.as_deref());
        Ok(Self {
            url: url.to_owned(),
            now: now.as_second().try_into().unwrap_or_default(),
            host: Host {
                name: address.host.clone(),
                port: address.port,
            },
            user: address.user.clone(),
            command: command(&address.path),
            key: identity::read(identity, passphrase)?,
            known_hosts,
        })
    }

    /// Verifies the key of the host.
    fn judge(&self, shown: &PublicKeyOrCertificate) -> Result<(), SourceError> {
        let judged = self.known_hosts.of(&self.host).judge(shown, self.now);
        judged.map_err(|why| SourceError::HostKey {
            url: self.url.clone(),
            why,
        })
    }
}

/// The command for the host's shell: the path as one quoted word, in the same form as git sends it.
fn command(path: &str) -> String {
    // git treats `/~user/x` as a path in the home directory of a user.
    let path = path
        .strip_prefix('/')
        .filter(|rest| rest.starts_with('~'))
        .unwrap_or(path);
    let mut quoted = String::with_capacity(path.len() + 2);
    for c in path.chars() {
        match c {
            // A shell interprets these characters within quotes, or treats `!` as history expansion.
            '\'' | '!' => {
                quoted.push_str("'\\");
                quoted.push(c);
                quoted.push('\'');
            }
            c => quoted.push(c),
        }
    }
    format!("git-upload-pack '{quoted}'")
}

/// libgit2's subtransport.
pub(super) struct Shell(Arc<Context>);

impl Shell {
    pub(super) fn current() -> Result<Self, git2::Error> {
        current().map(Self)
    }
}

impl SmartSubtransport for Shell {
    fn action(&self, _url: &str, action: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        // The service continues with the stream on which it listed its references.
        if matches!(action, Service::UploadPackLs) {
            return Ok(Box::new(Talk {
                scanner: Scanner::new(self.0.url(), self.0.limits()),
                context: Arc::clone(&self.0),
                session: None,
                references: Bytes::new(),
                request: Vec::new(),
            }));
        }
        Err(git2::Error::new(
            ErrorCode::GenericError,
            ErrorClass::Net,
            "nothing is ever pushed",
        ))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// What libgit2 reads and writes: a request is buffered, and sent when its response is read.
struct Talk {
    context: Arc<Context>,
    session: Option<Session>,
    /// The references that libgit2 has not read yet.
    references: Bytes,
    request: Vec<u8>,
    scanner: Scanner,
}

impl Talk {
    fn hand_on(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let session = if let Some(session) = &mut self.session {
            session
        } else {
            let (session, references) = self.context.connection()?;
            self.references = references;
            self.session.insert(session)
        };
        if !self.references.is_empty() {
            let read = self.references.len().min(buffer.len());
            self.references.copy_to_slice(&mut buffer[..read]);
            return Ok(read);
        }
        if !self.request.is_empty() {
            session.send(&self.context, std::mem::take(&mut self.request))?;
        }
        let read = session.read(&self.context, buffer)?;
        self.scanner.feed(&buffer[..read])?;
        Ok(read)
    }
}

impl Write for Talk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.request.len() + bytes.len() > MAX_REQUEST {
            let error = self.context.protocol("the negotiation does not end".to_owned());
            return Err(self.context.fail(error));
        }
        self.request.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Talk {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.hand_on(buffer).map_err(|error| self.context.fail(error))?;
        let failure = self
            .session
            .as_ref()
            .filter(|_| read == 0)
            .and_then(Session::failure);
        match failure {
            // The request is refused: another plan may work, so this is not a failure of the operation.
            Some(why) => Err(io::Error::other(why)),
            None => Ok(read),
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // libgit2 ends with a request that was not sent: the connection can be reused.
        if let Some(session) = self.session.take().filter(|session| !session.is_used()) {
            self.context.park(session);
        }
    }
}

#[cfg(test)]
mod tests;
