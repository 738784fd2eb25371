//! Git through an HTTP proxy, against a real `git http-backend` that is only reachable by name through the proxy: which
//! route is used, and what a proxy may do without content or credentials leaking.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::git_server::{Door, GitServer};
use crate::support::proxy::{self, Conduct};
use crate::support::repo::Repo;
use muster_sync::proxy::{Proxies, Proxy};
use muster_sync::source::{
    Clock, Credentials, GitOptions, GitSource, Limits, Remote, Source, SourceError, SourceErrorClass, Want,
};

/// `user:hunter2-canary`, as sent to proxies.
const BASIC: &str = "Basic dXNlcjpodW50ZXIyLWNhbmFyeQ==";
const PASSWORD: &str = "hunter2-canary";

struct Bed {
    repo: Repo,
    server: GitServer,
    proxy: proxy::Proxy,
    data: tempfile::TempDir,
}

impl Bed {
    /// The server is called `git.test`, which only the proxy resolves.
    async fn new(door: Door) -> Self {
        let repo = Repo::new();
        repo.commit(&[("a.yaml", "a: 1\n")]);
        let server = GitServer::start(repo.path(), door, None).await;
        let url: reqwest::Url = server.url("").parse().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], url.port().unwrap()));
        Self {
            proxy: proxy::Proxy::start(address).await,
            repo,
            server,
            data: tempfile::tempdir().unwrap(),
        }
    }

    fn remote(&self, url: &str) -> Remote {
        let remote = Remote::new(url);
        if !url.starts_with("https") {
            return remote;
        }
        remote.with_credentials(Credentials {
            ca_crt: Some(self.server.ca_pem()),
            username: Some("git-user".to_owned()),
            password: Some("git-password".to_owned()),
            ..Credentials::default()
        })
    }

    /// With environment variables; `PROXY` is replaced by the proxy's host and port.
    fn source(&self, variables: &[(&str, &str)]) -> GitSource {
        let options = GitOptions {
            data_dir: self.data.path().to_owned(),
            allow_insecure: true,
            limits: Limits {
                timeout: Duration::from_secs(2),
                ..Limits::default()
            },
        };
        let host = self.proxy.address.to_string();
        let variables: BTreeMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.replace("PROXY", &host)))
            .collect();
        let proxies = Proxies::from_variables(|name| variables.get(name).cloned()).unwrap();
        GitSource::new(options, Clock::system())
            .unwrap()
            .with_proxies(proxies)
    }

    fn named_proxy(&self, user: Option<&str>) -> Proxy {
        let mut data = BTreeMap::from([(
            "address".to_owned(),
            format!("http://{}", self.proxy.address).into_bytes(),
        )]);
        if let Some(user) = user {
            data.insert("username".to_owned(), user.as_bytes().to_vec());
            data.insert("password".to_owned(), PASSWORD.as_bytes().to_vec());
        }
        Proxy::from_secret(&data).unwrap()
    }
}

fn main() -> Want {
    Want::Branch("main".to_owned())
}

#[tokio::test]
async fn https_goes_through_a_tunnel_and_http_in_the_clear() {
    for (door, url, variable, first) in [
        (
            Door::Tls,
            "https://git.test/.git",
            "HTTPS_PROXY",
            "CONNECT git.test:443 HTTP/1.1",
        ),
        (
            Door::Plain,
            "http://git.test/.git",
            "HTTP_PROXY",
            "GET http://git.test/.git/info/refs?service=git-upload-pack HTTP/1.1",
        ),
    ] {
        let bed = Bed::new(door).await;
        let source = bed.source(&[(variable, "http://PROXY")]);
        let fetched = source.fetch(&bed.remote(url), &main()).await.unwrap();
        assert_eq!(
            fetched.commit.as_str(),
            bed.repo.git(&["rev-parse", "main"]).trim()
        );
        assert_eq!(bed.proxy.request_lines()[0], first);
    }
}

#[tokio::test]
async fn the_ways_that_need_no_proxy() {
    let bed = Bed::new(Door::Tls).await;
    let both = [("HTTPS_PROXY", "http://PROXY"), ("HTTP_PROXY", "http://PROXY")];
    // The local host is reached without a proxy, for variables and for a Secret.
    let here = bed.remote(&bed.server.url(".git"));
    bed.source(&both).fetch(&here, &main()).await.unwrap();
    let named = Remote {
        proxy: Some(bed.named_proxy(None)),
        ..here
    };
    bed.source(&[]).resolve(&named, &main()).await.unwrap();
    assert_eq!(bed.proxy.request_lines(), Vec::<String>::new());
    // Hosts in NO_PROXY are reached directly: no other server has this name.
    let excepted = bed.source(&[("HTTPS_PROXY", "http://PROXY"), ("NO_PROXY", ".test")]);
    let error = excepted
        .resolve(&bed.remote("https://git.test/.git"), &main())
        .await;
    assert!(matches!(error, Err(SourceError::Unreachable { .. })), "{error:?}");
    assert_eq!(bed.proxy.request_lines(), Vec::<String>::new());
}

#[tokio::test]
async fn the_proxy_of_a_secret_is_used_instead() {
    let bed = Bed::new(Door::Tls).await;
    bed.proxy.conduct(Conduct::Asks(BASIC));
    let source = bed.source(&[("HTTPS_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", "*")]);
    let remote = Remote {
        proxy: Some(bed.named_proxy(Some("user"))),
        ..bed.remote("https://git.test/.git")
    };
    let fetched = source.fetch(&remote, &main()).await.unwrap();
    assert_eq!(
        fetched.commit.as_str(),
        bed.repo.git(&["rev-parse", "main"]).trim()
    );
}

#[tokio::test]
async fn a_password_in_the_variable_is_sent() {
    for (door, url, variable) in [
        (Door::Tls, "https://git.test/.git", "HTTPS_PROXY"),
        (Door::Plain, "http://git.test/.git", "HTTP_PROXY"),
    ] {
        let bed = Bed::new(door).await;
        bed.proxy.conduct(Conduct::Asks(BASIC));
        let source = bed.source(&[(variable, "http://user:hunter2-canary@PROXY")]);
        source.resolve(&bed.remote(url), &main()).await.unwrap();
    }
}

/// What a proxy does, the resulting message, and when to try again.
#[tokio::test]
async fn a_proxy_that_does_not_let_through() {
    let check = async |conduct: Conduct, user: Option<&str>, class: SourceErrorClass, expect: &str| {
        for (door, url) in [
            (Door::Tls, "https://git.test/.git"),
            (Door::Plain, "http://git.test/.git"),
        ] {
            let bed = Bed::new(door).await;
            bed.proxy.conduct(conduct);
            let source = bed.source(&[]);
            let remote = Remote {
                proxy: Some(bed.named_proxy(user)),
                ..bed.remote(url)
            };
            let error = source.fetch(&remote, &main()).await.unwrap_err();
            let text = error.to_string();
            let expect = expect
                .replace("URL", url)
                .replace("PROXY", &format!("http://{}", bed.proxy.address));
            assert!(
                text.contains(&expect),
                "{url}: {text:?} does not contain {expect:?}"
            );
            assert_eq!(error.class(), class, "{text}");
            for shown in [text, format!("{error:?}"), format!("{remote:?}")] {
                for secret in [PASSWORD, "aHVudGVy", "git-password"] {
                    assert!(!shown.contains(secret), "{shown}");
                }
            }
            let mirrors = std::fs::read_dir(bed.data.path()).unwrap();
            let is_empty = mirrors.flatten().all(|directory| {
                git2::Repository::open(directory.path())
                    .is_ok_and(|mirror| mirror.is_empty().unwrap_or_default())
            });
            assert!(is_empty, "something was fetched");
        }
    };
    let missing = SourceErrorClass::Missing;
    let away = SourceErrorClass::Unavailable;
    check(
        Conduct::Asks("never"),
        None,
        missing,
        "URL: proxy PROXY asks for a user and a password",
    )
    .await;
    check(
        Conduct::Asks("never"),
        Some("user"),
        missing,
        "URL: proxy PROXY refuses the user and the password",
    )
    .await;
    check(Conduct::Stalls, None, away, "URL did not answer within 2s").await;
    check(Conduct::Drips, None, away, "URL").await;
}

#[tokio::test]
async fn a_proxy_that_refuses_or_is_not_there() {
    let bed = Bed::new(Door::Tls).await;
    bed.proxy.conduct(Conduct::Refuses);
    let remote = bed.remote("https://git.test/.git");
    let proxy = format!("http://{}", bed.proxy.address);
    let check = async |variable: &str, expect: String| {
        let source = bed.source(&[("HTTPS_PROXY", variable)]);
        let error = source.resolve(&remote, &main()).await.unwrap_err();
        assert_eq!(error.class(), SourceErrorClass::Unavailable);
        let text = error.to_string();
        assert!(
            text.starts_with(&expect),
            "{text:?} does not begin with {expect:?}"
        );
        assert!(
            text.contains("see HTTPS_PROXY and NO_PROXY of the process"),
            "{text}"
        );
    };
    check(
        "http://PROXY",
        format!("https://git.test/.git cannot be reached through proxy {proxy}: it refuses the connection"),
    )
    .await;
    check(
        "http://127.0.0.1:9",
        "https://git.test/.git cannot be reached through proxy http://127.0.0.1:9: ".to_owned(),
    )
    .await;
}
