//! One connection: to a verified host, with the key of the Secret, and `git-upload-pack` on its one channel.
//!
//! It has its own runtime, which runs only during waits: each wait ends at the deadline of the operation.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use russh::client::{self, AuthResult, ChannelOpenHandle, Config, Handle, Handler, Msg};
use russh::keys::agent::AgentSessionBinding;
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{Channel, ChannelMsg, Disconnect, Preferred, SshId, compression};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::super::super::SourceError;
use super::super::super::deadline::Deadline;
use super::super::context::Context;
use super::Login;
use super::known_hosts::shown_as;

/// Maximum length of a host's error message that is kept, in bytes.
const MAX_SAID: usize = 512;

/// How long closing a connection may take.
const GOODBYE: Duration = Duration::from_millis(500);

/// The packet that ends a negotiation, and tells the host that nothing is wanted.
const FLUSH: &[u8] = b"0000";

/// Number of digits of a packet length.
const LENGTH: usize = 4;

/// A connection; it is closed when it is dropped.
pub(in super::super) struct Session {
    driver: Driver,
    deadline: Deadline,
    handle: Handle<Door>,
    channel: Channel<Msg>,
    /// Received bytes that were not read yet.
    left: Bytes,
    /// What the host wrote to stderr.
    stderr: Vec<u8>,
    exit: Option<u32>,
    ended: bool,
    /// Whether a request was sent: then the connection cannot be used for another one.
    used: bool,
}

/// A runtime that is dropped without waiting: name resolution may block for long.
struct Driver(Option<Runtime>);

/// Verifies the host; refuses channels that it opens.
struct Door(Arc<Login>);

/// Why the connection failed.
#[derive(Debug)]
enum Failure {
    Source(SourceError),
    Ssh(russh::Error),
}

impl From<russh::Error> for Failure {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl Session {
    /// Connects, authenticates, and starts `git-upload-pack`.
    pub(in super::super) fn open(context: &Context, login: &Arc<Login>) -> Result<Self, SourceError> {
        let driver = Driver::new()?;
        let handle = driver.within(context, "connecting", connect(context, login))?;
        let (handle, channel) = driver.within(
            context,
            "waiting for authentication",
            enter(context, login, handle),
        )?;
        Ok(Self {
            driver,
            deadline: context.deadline(),
            handle,
            channel,
            left: Bytes::new(),
            stderr: Vec::new(),
            exit: None,
            ended: false,
            used: false,
        })
    }

    /// Whether a request was sent already.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// The references of the host: all packets up to the first flush.
    pub(in super::super) fn references(&mut self, context: &Context) -> Result<Bytes, SourceError> {
        let mut text = BytesMut::new();
        // Start of the next packet.
        let mut at = 0;
        loop {
            while let Some(digits) = text.get(at..at + LENGTH) {
                let length = std::str::from_utf8(digits).ok();
                match length.and_then(|digits| usize::from_str_radix(digits, 16).ok()) {
                    Some(0) => {
                        self.left = text.split_off(at + LENGTH).freeze();
                        return Ok(text.freeze());
                    }
                    Some(length) if length >= LENGTH => at += length,
                    _ => return Err(self.no_answer(context, &text)),
                }
            }
            let Some(bytes) = self.next(context)? else {
                return Err(self.no_answer(context, &text));
            };
            text.extend_from_slice(&bytes);
            context.check_references(text.len() as u64)?;
        }
    }

    /// Sends a request.
    pub(super) fn send(&mut self, context: &Context, request: Vec<u8>) -> Result<(), SourceError> {
        self.used = true;
        let channel = &self.channel;
        self.driver.within(context, "sending", async {
            let sent = channel.data_bytes(request).await;
            sent.map_err(|_| context.protocol("the connection was lost".to_owned()))
        })
    }

    /// Reads more of the response; 0 when the host has closed the channel.
    pub(super) fn read(&mut self, context: &Context, buffer: &mut [u8]) -> Result<usize, SourceError> {
        while self.left.is_empty() {
            match self.next(context)? {
                Some(bytes) => self.left = bytes,
                None => return Ok(0),
            }
        }
        let read = self.left.len().min(buffer.len());
        self.left.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }

    /// The host's error message after it closed the channel; `None` if it did not fail.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = self.exit.is_some_and(|exit| exit != 0);
        failed.then(|| self.why(&self.stderr))
    }

    fn next(&mut self, context: &Context) -> Result<Option<Bytes>, SourceError> {
        if self.ended {
            return Ok(None);
        }
        let (channel, stderr, exit) = (&mut self.channel, &mut self.stderr, &mut self.exit);
        let next = self.driver.within(context, "receiving", async {
            loop {
                match channel.wait().await {
                    Some(ChannelMsg::Data { data }) => {
                        context.count(data.len())?;
                        return Ok(Some(data));
                    }
                    Some(ChannelMsg::ExtendedData { data, .. }) => {
                        context.count(data.len())?;
                        let room = MAX_SAID.saturating_sub(stderr.len());
                        stderr.extend_from_slice(&data[..data.len().min(room)]);
                    }
                    Some(ChannelMsg::ExitStatus { exit_status }) => *exit = Some(exit_status),
                    Some(ChannelMsg::ExitSignal { error_message, .. }) => {
                        context.count(error_message.len())?;
                        let room = MAX_SAID.saturating_sub(stderr.len());
                        stderr.extend_from_slice(&error_message.as_bytes()[..error_message.len().min(room)]);
                        *exit = Some(u32::MAX);
                    }
                    // The reply to our only channel request: the host does not run commands.
                    Some(ChannelMsg::Failure) => {
                        stderr.extend_from_slice(b"it does not run git-upload-pack");
                        return Ok(None);
                    }
                    Some(ChannelMsg::Close) | None => return Ok(None),
                    Some(_) => {}
                }
            }
        })?;
        self.ended = next.is_none();
        Ok(next)
    }

    /// The host sent no references.
    fn no_answer(&self, context: &Context, text: &[u8]) -> SourceError {
        let error = text.get(LENGTH..).filter(|rest| rest.starts_with(b"ERR "));
        if !self.ended && error.is_none() {
            let began = cleaned(&text[..text.len().min(80)]);
            let why = format!(
                "its response starts with {began:?}; a program in the shell's startup files may print that"
            );
            return context.protocol(why);
        }
        SourceError::CommandFailed {
            url: context.url().to_owned(),
            why: self.why(error.unwrap_or(&self.stderr)),
        }
    }

    fn why(&self, message: &[u8]) -> String {
        let message = cleaned(message);
        let message = if message.is_empty() {
            "it closed the connection without a word".to_owned()
        } else {
            format!("it says {message:?}")
        };
        match self.exit {
            Some(exit) if exit != 0 && exit != u32::MAX => format!("{message} (exit status {exit})"),
            _ => message,
        }
    }
}

impl Drop for Session {
    /// Disconnects properly, so that the host does not log a lost connection.
    fn drop(&mut self) {
        let Some(runtime) = &self.driver.0 else { return };
        let (handle, channel) = (&mut self.handle, &self.channel);
        let nothing_wanted = !self.used && !self.ended;
        let wait = GOODBYE.min(self.deadline.remaining());
        runtime.block_on(async {
            let goodbye = async {
                if nothing_wanted {
                    // A lost connection needs no disconnect.
                    let _ = channel.data_bytes(FLUSH).await;
                }
                let _ = handle.disconnect(Disconnect::ByApplication, "", "").await;
                let _ = handle.await;
            };
            let _ = tokio::time::timeout(wait, goodbye).await;
        });
    }
}

impl Driver {
    fn new() -> Result<Self, SourceError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| SourceError::Storage {
            what: "preparing ssh",
            why: error.to_string(),
        })?;
        Ok(Self(Some(runtime)))
    }

    /// Runs a future until it is done, or the deadline of the operation has passed.
    fn within<T>(
        &self,
        context: &Context,
        phase: &'static str,
        work: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        context.check_deadline(phase)?;
        let Some(runtime) = &self.0 else {
            return Err(context.protocol("the connection is closed".to_owned()));
        };
        runtime.block_on(async {
            let done = tokio::time::timeout(context.remaining(), work).await;
            done.unwrap_or_else(|_| Err(context.timeout(phase)))
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn connect(context: &Context, login: &Arc<Login>) -> Result<Handle<Door>, SourceError> {
    let known = login.known_hosts.of(&login.host);
    let preferred = Preferred {
        key: known.algorithms().into(),
        host_key_certificates: known.certificates().into(),
        compression: vec![compression::NONE].into(),
        ..Preferred::default()
    };
    let config = Config {
        client_id: SshId::Standard(concat!("SSH-2.0-muster_", env!("CARGO_PKG_VERSION")).into()),
        preferred,
        nodelay: true,
        ..Config::default()
    };
    let stream = TcpStream::connect((login.host.name.as_str(), login.host.port)).await;
    let stream = stream.map_err(|error| context.unreachable(error.to_string()))?;
    // Without it the connection is slower, nothing else.
    let _ = stream.set_nodelay(true);
    let connected = client::connect_stream(Arc::new(config), stream, Door(Arc::clone(login))).await;
    let handle = connected.map_err(|failure| failed(context, failure))?;
    // The key exchange was signed with the verified key; with SHA-1 that would prove little.
    let signature = handle.agent_session_binding().map(AgentSessionBinding::signature);
    if signature
        .and_then(|blob| blob.get(LENGTH..))
        .is_none_or(|name| name.starts_with(b"ssh-rsa"))
    {
        return Err(context.protocol("it signs with SHA-1 (ssh-rsa), which is not accepted".to_owned()));
    }
    Ok(handle)
}

/// Authenticates with the key, and starts the command.
async fn enter(
    context: &Context,
    login: &Login,
    mut handle: Handle<Door>,
) -> Result<(Handle<Door>, Channel<Msg>), SourceError> {
    let broken = |error: russh::Error| failed(context, Failure::Ssh(error));
    let hash = if matches!(login.key.algorithm(), Algorithm::Rsa { .. }) {
        match handle.best_supported_rsa_hash().await.map_err(broken)? {
            Some(None) => {
                let why = "it accepts RSA keys only with SHA-1; use an ed25519 key";
                return Err(refused(context, login, why));
            }
            Some(hash) => hash,
            // A host that does not announce its algorithms may be too old for SHA-512.
            None => Some(HashAlg::Sha256),
        }
    } else {
        None
    };
    let key = PrivateKeyWithHashAlg::new(Arc::clone(&login.key), hash);
    match handle
        .authenticate_publickey(&login.user, key)
        .await
        .map_err(broken)?
    {
        AuthResult::Success => {}
        AuthResult::Failure {
            partial_success: true,
            ..
        } => {
            return Err(refused(
                context,
                login,
                "it requires more than a key; allow authentication by key only",
            ));
        }
        AuthResult::Failure { .. } if handle.is_closed() => {
            let why = "it closed the connection while the key was checked".to_owned();
            return Err(context.unreachable(why));
        }
        AuthResult::Failure { .. } => {
            let why = "add its public half to the repository (a deploy key), or renew identity in the Secret";
            return Err(refused(context, login, why));
        }
    }
    let channel = handle.channel_open_session().await.map_err(broken)?;
    channel
        .exec(true, login.command.as_bytes())
        .await
        .map_err(broken)?;
    Ok((handle, channel))
}

fn refused(context: &Context, login: &Login, why: &str) -> SourceError {
    SourceError::KeyRefused {
        url: context.url().to_owned(),
        key: shown_as(login.key.public_key().key_data()),
        user: login.user.clone(),
        why: why.to_owned(),
    }
}

fn failed(context: &Context, failure: Failure) -> SourceError {
    let error = match failure {
        Failure::Source(error) => return error,
        Failure::Ssh(error) => error,
    };
    match error {
        russh::Error::IO(error) => context.unreachable(error.to_string()),
        russh::Error::Disconnect | russh::Error::HUP | russh::Error::SendError | russh::Error::RecvError => {
            context.unreachable("it closed the connection".to_owned())
        }
        russh::Error::NoCommonAlgo { kind, theirs, .. } => {
            let theirs = cleaned(theirs.join(", ").as_bytes());
            let kind = format!("{kind:?}").to_lowercase();
            context.protocol(format!("no {kind} algorithm in common: it offers {theirs}"))
        }
        russh::Error::WrongServerSig => {
            context.protocol("it does not have the private key of the host key that it presents".to_owned())
        }
        error => context.protocol(cleaned(error.to_string().as_bytes())),
    }
}

/// One line of the host's message: without control characters, truncated.
fn cleaned(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(&message[..message.len().min(MAX_SAID)]);
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Handler for Door {
    type Error = Failure;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Failure> {
        let judged = self.0.judge(shown);
        judged.map(|()| true).map_err(Failure::Source)
    }

    // The host must not open channels. Dropping one refuses it.

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut client::Session,
    ) -> Result<(), Failure> {
        Ok(())
    }
}
