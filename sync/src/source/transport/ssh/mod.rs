//! How libgit2 reaches `ssh`: one connection for each exchange of the smart protocol, within the same bounds as `https`.
//!
//! The connection is russh's: no program is started, no agent asked, and no file read, neither of a home folder nor of a
//! configuration. What is trusted and what is shown comes from the Secret alone.
//!
//! A negotiation goes on over one connection, so libgit2 keeps one stream. A connection on which nothing was asked yet is kept by the
//! operation when libgit2 leaves it, and used by the next that it makes.

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

/// Whom to connect to, and as whom.
pub(super) struct Login {
    url: String,
    /// Seconds since 1970, for certificates of hosts.
    now: u64,
    host: Host,
    user: String,
    command: String,
    key: Arc<PrivateKey>,
    known_hosts: KnownHosts,
}

impl Login {
    /// Reads the Secret for ssh: without a key and known hosts nothing is opened.
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

    /// Whether the host is the one that is meant.
    fn judge(&self, shown: &PublicKeyOrCertificate) -> Result<(), SourceError> {
        let judged = self.known_hosts.of(&self.host).judge(shown, self.now);
        judged.map_err(|why| SourceError::HostKey {
            url: self.url.clone(),
            why,
        })
    }
}

/// What the host's shell is given: the path as one quoted word, in the form that git itself sends.
fn command(path: &str) -> String {
    // git takes `/~user/x` for a path in the home folder of a user.
    let path = path
        .strip_prefix('/')
        .filter(|rest| rest.starts_with('~'))
        .unwrap_or(path);
    let mut quoted = String::with_capacity(path.len() + 2);
    for c in path.chars() {
        match c {
            // A shell reads them within quotes, or takes `!` for its history.
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
        // The service itself goes on with the stream on which it listed its references.
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

/// What libgit2 reads and writes: requests are collected, and sent when an answer is waited for.
struct Talk {
    context: Arc<Context>,
    session: Option<Session>,
    /// What is left of the references to hand on.
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
            // What was asked for is refused: another way to it may do, so it is not the failure of the operation.
            Some(why) => Err(io::Error::other(why)),
            None => Ok(read),
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // libgit2 says goodbye by a request that was not sent: the connection is as good as before.
        if let Some(session) = self.session.take().filter(|session| !session.is_used()) {
            self.context.park(session);
        }
    }
}

#[cfg(test)]
mod tests;
