//! An in-process ssh server: git's own `upload-pack`, or the behavior of a hostile host.

use std::borrow::Cow;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::keys::{Algorithm, PrivateKey, PublicKey};
use russh::server::{
    self, Auth, ChannelOpenHandle, Config, Handle, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey,
};
use russh::{Channel, ChannelId, MethodKind, MethodSet, Preferred};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::repo::ENVIRONMENT;

/// What a server does when a repository is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Runs `git upload-pack`.
    Git,
    /// Accepts no key.
    RefuseKeys,
    /// Closes the connection when a key is presented.
    HangUp,
    /// Runs no commands.
    NoCommands,
    /// Sends nothing.
    Silent,
    /// Sends this, one byte every 20 ms.
    Drip(Vec<u8>),
    /// Sends this repeatedly.
    Flood(Vec<u8>),
    /// Sends this to stderr repeatedly.
    FloodBeside(Vec<u8>),
    /// Sends this response, this to stderr, and exits with this status.
    End(Vec<u8>, Vec<u8>, u32),
    /// Offers this branch, and always sends this pack.
    Pack(String, Vec<u8>),
}

/// A server that stops when it is dropped.
pub(crate) struct SshServer {
    port: u16,
    key: PublicKey,
    activity: Arc<SshActivity>,
    task: JoinHandle<()>,
}

/// What a server has received.
#[derive(Default)]
struct SshActivity {
    connections: AtomicUsize,
    commands: Mutex<Vec<String>>,
    users: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct Door {
    manner: Manner,
    activity: Arc<SshActivity>,
    input: Arc<Mutex<Option<tokio::sync::mpsc::UnboundedSender<Vec<u8>>>>>,
}

/// A key generated for this process.
pub(crate) fn key(algorithm: Algorithm) -> PrivateKey {
    PrivateKey::random(&mut russh::keys::key::safe_rng(), algorithm).unwrap()
}

impl SshServer {
    pub(crate) async fn start(manner: Manner) -> Self {
        Self::with(manner, key(Algorithm::Ed25519), Preferred::default()).await
    }

    /// With this host key and these algorithms.
    pub(crate) async fn with(manner: Manner, key: PrivateKey, preferred: Preferred) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let public = key.public_key().clone();
        let config = Arc::new(Config {
            keys: vec![key],
            preferred,
            auth_rejection_time: Duration::ZERO,
            auth_rejection_time_initial: Some(Duration::ZERO),
            methods: MethodSet::from(&[MethodKind::PublicKey][..]),
            ..Config::default()
        });
        let activity = Arc::new(SshActivity::default());
        let shared = Arc::clone(&activity);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let door = Door {
                    manner: manner.clone(),
                    activity: Arc::clone(&shared),
                    input: Arc::default(),
                };
                let config = Arc::clone(&config);
                tokio::spawn(async move {
                    if let Ok(session) = server::run_stream(config, stream, door).await {
                        let _ = session.await;
                    }
                });
            }
        });
        Self {
            port,
            key: public,
            activity,
            task,
        }
    }

    /// The URL of a repository, by its path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("ssh://git@localhost:{}{path}", self.port)
    }

    /// The `known_hosts` line of the server.
    pub(crate) fn known_hosts(&self) -> String {
        format!("[localhost]:{} {}\n", self.port, self.key.to_openssh().unwrap())
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.activity.connections.load(Ordering::SeqCst)
    }

    /// The commands so far.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.activity.commands.lock().unwrap().clone()
    }

    /// The users that authenticated, or tried to.
    pub(crate) fn users(&self) -> Vec<String> {
        self.activity.users.lock().unwrap().clone()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Door {
    async fn carry_out(&self, command: String, channel: ChannelId, handle: Handle) {
        match &self.manner {
            Manner::Git => self.git(&command, channel, handle).await,
            Manner::Drip(bytes) => {
                for byte in bytes.clone() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    if handle.data(channel, vec![byte]).await.is_err() {
                        return;
                    }
                }
            }
            Manner::Flood(bytes) => while handle.data(channel, bytes.clone()).await.is_ok() {},
            Manner::FloodBeside(bytes) => {
                while handle.extended_data(channel, 1, bytes.clone()).await.is_ok() {}
            }
            Manner::End(bytes, beside, status) => {
                let _ = handle.data(channel, bytes.clone()).await;
                let _ = handle.extended_data(channel, 1, beside.clone()).await;
                let _ = handle.exit_status_request(channel, *status).await;
                let _ = handle.eof(channel).await;
                let _ = handle.close(channel).await;
            }
            Manner::Pack(branch, pack) => self.lie(branch, pack, channel, handle).await,
            Manner::RefuseKeys | Manner::HangUp | Manner::NoCommands | Manner::Silent => {}
        }
    }

    /// `git upload-pack` between the two ends of the channel, in a shell as on a real host.
    async fn git(&self, command: &str, channel: ChannelId, handle: Handle) {
        let (sender, mut input) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
        *self.input.lock().unwrap() = Some(sender);
        let mut child = Command::new("sh")
            .args(["-c", command])
            .envs(ENVIRONMENT.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        tokio::spawn(async move {
            while let Some(bytes) = input.recv().await {
                if stdin.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
        let mut stdout = child.stdout.take().unwrap();
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = stdout.read(&mut buffer).await {
            if handle.data(channel, buffer[..read].to_vec()).await.is_err() {
                return;
            }
        }
        let mut said = Vec::new();
        let _ = child.stderr.take().unwrap().read_to_end(&mut said).await;
        if !said.is_empty() {
            let _ = handle.extended_data(channel, 1, said).await;
        }
        let code = child.wait().await.unwrap().code().unwrap_or(255);
        let _ = handle
            .exit_status_request(channel, u32::try_from(code).unwrap())
            .await;
        let _ = handle.eof(channel).await;
        let _ = handle.close(channel).await;
    }

    /// One branch is offered, and one pack is sent, whatever is requested.
    async fn lie(&self, commit: &str, pack: &[u8], channel: ChannelId, handle: Handle) {
        let (sender, mut input) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
        *self.input.lock().unwrap() = Some(sender);
        let line = format!("{commit} refs/heads/main\0side-band-64k ofs-delta shallow multi_ack_detailed\n");
        let offer = format!("{:04x}{line}0000", line.len() + 4);
        let _ = handle.data(channel, offer.into_bytes()).await;
        // The first request is about where history is cut off: nowhere. The second is for the pack.
        let _ = input.recv().await;
        let _ = handle.data(channel, b"0000".to_vec()).await;
        let _ = input.recv().await;
        let mut answer = b"0008NAK\n".to_vec();
        for part in pack.chunks(60_000) {
            answer.extend_from_slice(format!("{:04x}\u{1}", part.len() + 5).as_bytes());
            answer.extend_from_slice(part);
        }
        answer.extend_from_slice(b"0000");
        let _ = handle.data(channel, answer).await;
    }
}

impl Handler for Door {
    type Error = russh::Error;

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        _: PublicKeyOffer<'_>,
    ) -> Result<Auth, russh::Error> {
        self.let_in(user)
    }

    async fn auth_publickey(&mut self, user: &str, _: VerifiedPublicKey<'_>) -> Result<Auth, russh::Error> {
        self.let_in(user)
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        let command = String::from_utf8(command.to_vec()).unwrap();
        self.activity.commands.lock().unwrap().push(command.clone());
        if self.manner == Manner::NoCommands {
            return session.channel_failure(channel);
        }
        session.channel_success(channel)?;
        let (door, handle) = (self.clone(), session.handle());
        tokio::spawn(async move { door.carry_out(command, channel, handle).await });
        Ok(())
    }

    async fn data(&mut self, _: ChannelId, data: &[u8], _: &mut Session) -> Result<(), russh::Error> {
        if let Some(input) = &*self.input.lock().unwrap() {
            let _ = input.send(data.to_vec());
        }
        Ok(())
    }
}

impl Door {
    fn let_in(&self, user: &str) -> Result<Auth, russh::Error> {
        self.activity.users.lock().unwrap().push(user.to_owned());
        match self.manner {
            Manner::RefuseKeys => Ok(Auth::Reject {
                proceed_with_methods: None,
                partial_success: false,
            }),
            Manner::HangUp => Err(russh::Error::Disconnect),
            _ => Ok(Auth::Accept),
        }
    }
}

/// The algorithms of a server that signs only with SHA-1.
pub(crate) fn sha1_only() -> Preferred {
    Preferred {
        key: Cow::Owned(vec![Algorithm::Rsa { hash: None }]),
        ..Preferred::default()
    }
}
