//! The host that this process runs on.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    rc::Rc,
    time::Duration,
};

use crate::{
    clock::Clock,
    config::{Program, Server},
    host::{Account, Dialed, Host},
    journal::Identity,
    process,
    secrets::MAX_SECRET,
};

/// Maximum size of the files that list users and groups.
const MAX_ACCOUNTS: u64 = 4 * 1024 * 1024;
/// Maximum length of the first line of a response.
const MAX_LINE: u64 = 1024;

/// Sends requests to an API server.
pub trait ApiServer {
    /// Sends one request; `Err` says why there was no response.
    fn answers(&self, server: &Server, timeout: Duration) -> Result<(), String>;
}

/// This host: `/proc`, `/sys/class/net`, `/etc/passwd`, `/etc/group`, and its programs.
pub struct Machine {
    clock: Rc<dyn Clock>,
    api_server: Box<dyn ApiServer>,
}

impl Machine {
    /// The host, with a client for its API server.
    pub fn new(clock: Rc<dyn Clock>, api_server: Box<dyn ApiServer>) -> Self {
        Self { clock, api_server }
    }
}

/// The identity of this boot and of this machine.
pub fn identity() -> io::Result<Identity> {
    let read = |file: &str| Ok::<_, io::Error>(fs::read_to_string(file)?.trim().to_owned());
    Ok(Identity {
        boot_id: read("/proc/sys/kernel/random/boot_id")?,
        machine_id: read("/etc/machine-id")?,
    })
}

impl Host for Machine {
    fn run(&self, program: &Program) -> Result<(), String> {
        process::run(program, self.clock.as_ref())
    }

    fn links(&self) -> Result<BTreeMap<String, String>, String> {
        let text = |error: io::Error| format!("cannot list network interfaces: {error}");
        let mut links = BTreeMap::new();
        for entry in fs::read_dir("/sys/class/net").map_err(text)? {
            let entry = entry.map_err(text)?;
            // An entry that is not an interface (bonding_masters), or was just removed, has no state.
            if let Ok(state) = fs::read_to_string(entry.path().join("operstate")) {
                let name = entry.file_name().to_string_lossy().into_owned();
                links.insert(name, state.trim().to_owned());
            }
        }
        Ok(links)
    }

    fn dial(&self, target: SocketAddr, timeout: Duration) -> Dialed {
        match TcpStream::connect_timeout(&target, timeout) {
            Ok(_) => Dialed::Open,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Dialed::Refused,
            Err(error) => Dialed::Failed(error.to_string()),
        }
    }

    fn api_server(&self, server: &Server, timeout: Duration) -> Result<(), String> {
        self.api_server.answers(server, timeout)
    }

    fn account(&self, kind: Account, name: &str) -> Option<u32> {
        let file = match kind {
            Account::User => "/etc/passwd",
            Account::Group => "/etc/group",
        };
        let lines = BufReader::new(File::open(file).ok()?.take(MAX_ACCOUNTS)).lines();
        lines.map_while(Result::ok).find_map(|line| number(&line, name))
    }

    fn secret(&self, file: &str) -> Result<Vec<u8>, String> {
        let read = || {
            let mut content = Vec::new();
            File::open(file)?.take(MAX_SECRET + 1).read_to_end(&mut content)?;
            Ok::<_, io::Error>(content)
        };
        let content = read().map_err(|error| error.to_string())?;
        if content.len() as u64 > MAX_SECRET {
            return Err(format!("it has more than {MAX_SECRET} bytes"));
        }
        Ok(content)
    }
}

/// The number in a line `name:password:number:...`, if the name matches.
fn number(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':');
    if fields.next() != Some(name) {
        return None;
    }
    fields.nth(1)?.parse().ok()
}

/// Sends GET `/readyz` over plain HTTP: for servers without TLS, such as a local proxy. Any response except a server
/// error counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainHttp;

impl ApiServer for PlainHttp {
    fn answers(&self, server: &Server, timeout: Duration) -> Result<(), String> {
        let status = status(server, timeout).map_err(|error| error.to_string())?;
        if status < 500 {
            Ok(())
        } else {
            Err(format!("it answers {status}"))
        }
    }
}

fn status(server: &Server, timeout: Duration) -> io::Result<u16> {
    let unusable = |text: &str| io::Error::new(ErrorKind::InvalidData, text.to_owned());
    let address = (server.host.as_str(), server.port).to_socket_addrs()?.next();
    let mut stream =
        TcpStream::connect_timeout(&address.ok_or_else(|| unusable("it has no address"))?, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let host = &server.host;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line)?;
    let code = line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    code.ok_or_else(|| unusable("its answer is not HTTP"))
}
