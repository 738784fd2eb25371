//! Promise: questions about the host are answered by the host: its interfaces, connections, accounts and secrets.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    rc::Rc,
    thread,
    time::Duration,
};

use muster_node::{
    Account, ApiServer as _, Dialed, Host as _, HostClock, MAX_SECRET, Machine, PlainHttp, Server, identity,
};

fn machine() -> Machine {
    Machine::new(Rc::new(HostClock), Box::new(PlainHttp))
}

/// A port of this machine without a listener.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn interfaces_with_their_states() {
    let links = machine().links().unwrap();
    let named: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("operstate").exists())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(links.len(), named.len());
    assert!(named.iter().all(|name| links.contains_key(name)), "{links:?}");
    assert!(
        links
            .values()
            .all(|state| !state.is_empty() && !state.contains('\n')),
        "{links:?}"
    );
}

#[test]
fn connections() {
    let second = Duration::from_secs(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(
        machine().dial(listener.local_addr().unwrap(), second),
        Dialed::Open
    );
    assert_eq!(machine().dial(closed(), second), Dialed::Refused);
    // The kernel itself rejects connections to a broadcast address.
    let failed = machine().dial("255.255.255.255:179".parse().unwrap(), second);
    assert!(matches!(failed, Dialed::Failed(_)), "{failed:?}");
}

/// The client's result for a server that sends this response; without one the server never responds.
fn request_result(answer: Option<&'static str>) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        let mut lines = BufReader::new(&stream);
        while !request.ends_with("\r\n\r\n") && lines.read_line(&mut request).unwrap() > 0 {}
        if let Some(answer) = answer {
            stream.write_all(answer.as_bytes()).unwrap();
        } else {
            // Until the client gives up.
            let _ = stream.read(&mut [0]);
        }
        request
    });
    let server = Server {
        host: "127.0.0.1".to_owned(),
        port,
    };
    let result = PlainHttp.answers(&server, Duration::from_millis(500));
    let request = serving.join().unwrap();
    assert!(
        request.starts_with("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
        "{request}"
    );
    result
}

#[test]
fn servers() {
    let table = [
        (Some("HTTP/1.1 200 OK\r\n\r\nok"), true),
        (Some("HTTP/1.1 401 Unauthorized\r\n\r\n"), true),
        (Some("HTTP/1.0 403 Forbidden\r\n\r\n"), true),
        (Some("HTTP/1.1 500 Internal Server Error\r\n\r\n"), false),
        (Some("HTTP/1.1 503 \r\n\r\n"), false),
        (Some("SSH-2.0-OpenSSH\r\n"), false),
        (Some(""), false),
        (None, false),
    ];
    for (answer, good) in table {
        let result = request_result(answer);
        assert_eq!(result.is_ok(), good, "{answer:?}: {result:?}");
    }
    let server = Server {
        host: "127.0.0.1".to_owned(),
        port: closed().port(),
    };
    assert!(PlainHttp.answers(&server, Duration::from_secs(1)).is_err());
}

#[test]
fn accounts_and_secrets() {
    assert_eq!(machine().account(Account::User, "root"), Some(0));
    assert_eq!(machine().account(Account::Group, "root"), Some(0));
    assert_eq!(machine().account(Account::User, "roo"), None);
    let directory = tempfile::tempdir().unwrap();
    let file = |bytes: u64| {
        let path = directory.path().join(bytes.to_string());
        fs::write(&path, vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
        machine().secret(path.to_str().unwrap())
    };
    assert_eq!(file(MAX_SECRET).unwrap().len() as u64, MAX_SECRET);
    assert!(file(MAX_SECRET + 1).is_err());
    assert!(machine().secret("/no/such/secret").is_err());
}

#[test]
fn names_of_boot_and_machine() {
    match identity() {
        Ok(found) => {
            assert_eq!(found.boot_id.len(), 36, "{found:?}");
            assert_eq!(found, identity().unwrap());
        }
        // A container may have no machine-id.
        Err(error) => println!("not run: {error}"),
    }
}
