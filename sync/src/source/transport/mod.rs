//! How libgit2 uses `http`, `https` and `ssh`: with one TLS stack, one deadline, one byte count.
//!
//! libgit2 is built without TLS and without ssh. It passes each exchange of the smart protocol to [`Web`], which sends
//! it with reqwest: the deadline is that of the whole operation (a slow server does not extend it), received bytes are
//! counted, redirects stay on the host, credentials are sent nowhere else, and packs are scanned before libgit2 gets
//! them. libgit2 creates transports with a function that is registered once per process; it finds the context of the
//! fetch through a thread-local that is set during the blocking call ([`Context::enter`]). `ssh` is in [`ssh`], with
//! the same context.
//!
//! This is the only file of the workspace with `unsafe`: libgit2 keeps its list of transports and its settings without
//! a lock.

mod client;
mod context;
mod ssh;

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};

use bytes::{Buf as _, Bytes};
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use git2::{ConfigLevel, ErrorClass, ErrorCode};
use reqwest::blocking::Response;

pub(super) use self::context::Context;
use super::SourceError;
use super::pack::Scanner;

/// The maximum size of a negotiation that we send: wants and haves of a depth-1 fetch are far below.
const MAX_REQUEST: usize = 16 << 20;

/// How much of a pack libgit2 maps at once, and of all packs together: mapped pages count as memory of the process.
const WINDOW: usize = 4 << 20;
const MAPPED: usize = 32 << 20;

/// The size of libgit2's object cache (its default is 256 MiB).
const CACHE: isize = 16 << 20;

/// The path appended to the URL of a repository to list its references.
const REFERENCES: &str = "/info/refs?service=git-upload-pack";

/// Registers the transports, limits libgit2's memory and disables its configuration files; runs once per process.
pub(super) fn ready() -> Result<(), SourceError> {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let ready = READY.get_or_init(|| register().map_err(|error| error.message().to_owned()));
    ready.clone().map_err(|why| SourceError::Storage {
        what: "preparing libgit2",
        why,
    })
}

#[allow(unsafe_code)]
fn register() -> Result<(), git2::Error> {
    for level in [
        ConfigLevel::ProgramData,
        ConfigLevel::System,
        ConfigLevel::XDG,
        ConfigLevel::Global,
    ] {
        // SAFETY: must not run while libgit2 reads the search paths or the list of transports in another thread. Every
        // use of libgit2 in this crate is behind `ready`, whose OnceLock runs this once, before the first of them.
        unsafe { git2::opts::set_search_path(level, "") }?;
    }
    // SAFETY: as above: no thread reads these settings yet.
    unsafe {
        git2::opts::set_mwindow_size(WINDOW)?;
        git2::opts::set_mwindow_mapped_limit(MAPPED)?;
        git2::opts::set_cache_max_size(CACHE)?;
    }
    for scheme in ["http", "https"] {
        // SAFETY: as above; the function given is called with a live remote for the duration of the call only.
        unsafe {
            git2::transport::register(scheme, |remote| Transport::smart(remote, true, Web::current()?))
        }?;
    }
    // SAFETY: as above.
    unsafe {
        git2::transport::register("ssh", |remote| {
            Transport::smart(remote, false, ssh::Shell::current()?)
        })
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Context>>> = const { RefCell::new(None) };
}

/// The context of the fetch running on this thread.
fn current() -> Result<Arc<Context>, git2::Error> {
    CURRENT
        .with_borrow(Clone::clone)
        .ok_or_else(|| git2::Error::new(ErrorCode::GenericError, ErrorClass::Net, "no fetch is running"))
}

/// One exchange of the smart protocol.
enum Exchange {
    References,
    Pack(Vec<u8>),
}

impl Exchange {
    fn answer_type(&self) -> &'static str {
        match self {
            Self::References => "application/x-git-upload-pack-advertisement",
            Self::Pack(_) => "application/x-git-upload-pack-result",
        }
    }
}

/// libgit2's subtransport: creates one stream for each exchange.
struct Web(Arc<Context>);

impl Web {
    fn current() -> Result<Self, git2::Error> {
        current().map(Self)
    }
}

impl SmartSubtransport for Web {
    fn action(&self, _url: &str, action: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let exchange = match action {
            Service::UploadPackLs => Exchange::References,
            Service::UploadPack => Exchange::Pack(Vec::new()),
            Service::ReceivePackLs | Service::ReceivePack => {
                return Err(git2::Error::new(
                    ErrorCode::GenericError,
                    ErrorClass::Net,
                    "nothing is ever pushed",
                ));
            }
        };
        Ok(Box::new(Stream {
            context: Arc::clone(&self.0),
            exchange,
            answer: None,
        }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// Collects the request, sends it at the first read, returns the response.
struct Stream {
    context: Arc<Context>,
    exchange: Exchange,
    answer: Option<Answer>,
}

/// The response that is being read.
enum Answer {
    References(Bytes),
    Pack(Box<(Response, Scanner)>),
}

impl Stream {
    fn send_request(&self) -> Result<Answer, SourceError> {
        let context = &self.context;
        Ok(match &self.exchange {
            Exchange::References => Answer::References(context.references()?),
            exchange @ Exchange::Pack(_) => {
                let scanner = Scanner::new(context.url(), context.limits());
                Answer::Pack(Box::new((context.send(exchange)?, scanner)))
            }
        })
    }

    fn hand_on(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => self.send_request()?,
        };
        let read = match &mut answer {
            Answer::References(text) => {
                let read = text.len().min(buffer.len());
                text.copy_to_slice(&mut buffer[..read]);
                read
            }
            Answer::Pack(pack) => {
                let (response, scanner) = &mut **pack;
                let read = self.context.receive(response, buffer)?;
                scanner.feed(&buffer[..read])?;
                read
            }
        };
        self.answer = Some(answer);
        Ok(read)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.exchange {
            Exchange::Pack(body) if self.answer.is_none() && body.len() + bytes.len() <= MAX_REQUEST => {
                body.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            _ => Err(self
                .context
                .fail(self.context.protocol("the negotiation does not end".to_owned()))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.hand_on(buffer).map_err(|error| self.context.fail(error))
    }
}
