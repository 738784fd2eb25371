//! A GitHub App reads one repository: the JWT that its key signs, the token and how long it is used, and each refusal
//! of GitHub's API, against a mock of that API next to a real `git http-backend`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::git_server::{Door, GitServer};
use crate::support::repo::Repo;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use muster_sync::source::{
    Clock, Credentials, GitOptions, GitSource, Limits, Remote, Source, SourceError, SourceErrorClass, Want,
};
use parking_lot::Mutex;
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

const PKCS8: &str = include_str!("../fixtures/github/app.pkcs8.pem");
const PKCS1: &str = include_str!("../fixtures/github/app.pkcs1.pem");
const START: &str = "2026-11-30T12:00:00Z";

/// How the mock API answers the next requests.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    /// Requests as `METHOD path`, and their bodies.
    requests: Vec<(String, Value)>,
    /// Claims of the received JWTs.
    claims: Vec<Value>,
    /// Number of tokens issued so far.
    given: Vec<String>,
    /// Returned instead of a token.
    refusal: Option<(u16, &'static str)>,
    suspended: bool,
    /// The time of the server.
    now: Timestamp,
}

impl Api {
    fn router(&self) -> Router {
        Router::new()
            .route("/api/v3/app/installations/{id}/access_tokens", post(token))
            .route("/api/v3/repos/{owner}/{name}/installation", get(installation))
            .with_state(self.clone())
    }

    /// Verifies the signature, and stores the claims.
    fn check(&self, headers: &HeaderMap) {
        let assertion = headers["authorization"]
            .to_str()
            .unwrap()
            .strip_prefix("Bearer ")
            .unwrap();
        let (text, signature) = assertion.rsplit_once('.').unwrap();
        let key = PrivatePkcs8KeyDer::from_pem_slice(PKCS8.as_bytes()).unwrap();
        let pair = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        public.verify(text.as_bytes(), &signature).unwrap();
        let (header, claims) = text.split_once('.').unwrap();
        let read =
            |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        assert_eq!(read(header), json!({"alg": "RS256", "typ": "JWT"}));
        self.0.lock().claims.push(read(claims));
    }

    fn refusal(&self) -> Option<Response> {
        let answers = self.0.lock();
        let (status, body) = answers.refusal?;
        let date = rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&answers.now)
            .unwrap();
        Some((StatusCode::from_u16(status).unwrap(), [("date", date)], body).into_response())
    }
}

async fn token(State(api): State<Api>, Path(id): Path<u64>, headers: HeaderMap, body: String) -> Response {
    api.check(&headers);
    let request = (format!("POST {id}"), serde_json::from_str(&body).unwrap());
    api.0.lock().requests.push(request);
    if let Some(refusal) = api.refusal() {
        return refusal;
    }
    let mut answers = api.0.lock();
    // Longer than GitHub's tokens have been for years.
    let value = format!("ghs_canary{}{}", answers.given.len(), "x".repeat(600));
    answers.given.push(value.clone());
    let until = answers.now.checked_add(SignedDuration::from_hours(1)).unwrap();
    let given = json!({"token": value, "expires_at": until, "permissions": {"contents": "read"}, "repository_selection": "selected"});
    (StatusCode::CREATED, given.to_string()).into_response()
}

async fn installation(
    State(api): State<Api>,
    Path((owner, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    api.check(&headers);
    api.0
        .lock()
        .requests
        .push((format!("GET {owner}/{name}"), Value::Null));
    if let Some(refusal) = api.refusal() {
        return refusal;
    }
    let suspended = api.0.lock().suspended.then_some(START);
    json!({"id": 42, "account": {"login": owner}, "suspended_at": suspended})
        .to_string()
        .into_response()
}

struct Bed {
    api: Api,
    server: GitServer,
    repo: Repo,
    source: GitSource,
    now: Arc<Mutex<Timestamp>>,
    data: tempfile::TempDir,
    root: tempfile::TempDir,
}

impl Bed {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let repo = Repo::new();
        repo.commit(&[("a.yaml", "a: 1\n")]);
        std::fs::create_dir(root.path().join("org")).unwrap();
        let bare = root.path().join("org/fleet.git");
        repo.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
        let api = Api::default();
        api.0.lock().now = START.parse().unwrap();
        let server = GitServer::beside(api.router(), root.path(), Door::Tls, Some("nobody")).await;
        let now = Arc::new(Mutex::new(START.parse().unwrap()));
        let clock = Arc::clone(&now);
        let data = tempfile::tempdir().unwrap();
        let options = GitOptions {
            data_dir: data.path().to_owned(),
            allow_insecure: false,
            limits: Limits::default(),
        };
        Self {
            source: GitSource::new(options, Clock::given(move || *clock.lock())).unwrap(),
            api,
            server,
            repo,
            now,
            data,
            root,
        }
    }

    fn secret(&self, change: &[(&str, Option<&str>)]) -> BTreeMap<String, Vec<u8>> {
        let ca = String::from_utf8(self.server.ca_pem()).unwrap();
        let usual = [
            ("githubAppID", "7\n"),
            ("githubAppInstallationID", "42"),
            ("githubAppPrivateKey", PKCS1),
            ("ca.crt", &ca),
        ];
        let mut data: BTreeMap<String, Vec<u8>> = usual
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        for (key, value) in change {
            match value {
                Some(value) => data.insert((*key).to_owned(), value.as_bytes().to_vec()),
                None => data.remove(*key),
            };
        }
        data
    }

    fn remote(&self, change: &[(&str, Option<&str>)]) -> Remote {
        let credentials = Credentials::from_secret(&self.secret(change)).unwrap();
        Remote::new(self.server.url("org/fleet.git")).with_credentials(credentials)
    }

    /// Accepts only the token with this number.
    fn lets_in(&self, number: usize) {
        let token = format!("ghs_canary{number}{}", "x".repeat(600));
        self.server.lets_in(&format!(
            "Basic {}",
            STANDARD.encode(format!("x-access-token:{token}"))
        ));
    }

    async fn resolve(&self, remote: &Remote) -> Result<String, SourceError> {
        let want = Want::Branch("main".to_owned());
        Ok(self.source.resolve(remote, &want).await?.commit.to_string())
    }

    fn given(&self) -> usize {
        self.api.0.lock().given.len()
    }

    fn pass(&self, minutes: i64) {
        for now in [&mut *self.now.lock(), &mut self.api.0.lock().now] {
            *now = now.checked_add(SignedDuration::from_mins(minutes)).unwrap();
        }
    }
}

#[tokio::test]
async fn a_token_reads_the_one_repository_until_a_minute_before_its_end() {
    let bed = Bed::new().await;
    let head = bed.repo.git(&["rev-parse", "main"]).trim().to_owned();
    let remote = bed.remote(&[]);
    bed.lets_in(0);
    assert_eq!(bed.resolve(&remote).await.unwrap(), head);
    bed.source
        .fetch(&remote, &Want::Branch("main".to_owned()))
        .await
        .unwrap();
    {
        let answers = bed.api.0.lock();
        let body = json!({"repositories": ["fleet"], "permissions": {"contents": "read"}});
        assert_eq!(answers.requests, [("POST 42".to_owned(), body)]);
        let now = START.parse::<Timestamp>().unwrap().as_second();
        assert_eq!(
            answers.claims[0],
            json!({"iss": "7", "iat": now - 60, "exp": now + 480})
        );
    }
    bed.pass(58);
    bed.resolve(&remote).await.unwrap();
    assert_eq!(bed.given(), 1, "used for as long as it lasts");
    bed.pass(1);
    bed.lets_in(1);
    bed.resolve(&remote).await.unwrap();
    assert_eq!(bed.given(), 2, "a minute before its end");
    // Another key of the same App counts as different credentials.
    bed.lets_in(2);
    bed.resolve(&bed.remote(&[("githubAppPrivateKey", Some(PKCS8))]))
        .await
        .unwrap();
    assert_eq!(bed.given(), 3);
    drop(bed.root);
}

#[tokio::test]
async fn a_token_that_git_refuses_is_not_used_again() {
    let bed = Bed::new().await;
    let remote = bed.remote(&[]);
    bed.lets_in(0);
    bed.resolve(&remote).await.unwrap();
    bed.lets_in(1);
    let error = bed.resolve(&remote).await.unwrap_err();
    assert!(matches!(error, SourceError::Unauthorized { .. }), "{error}");
    bed.resolve(&remote).await.unwrap();
    assert_eq!(bed.given(), 2);
}

#[tokio::test]
async fn the_installation_of_an_owner_is_that_of_the_repository() {
    let bed = Bed::new().await;
    bed.lets_in(0);
    let by_owner = |owner: &'static str| {
        bed.remote(&[
            ("githubAppInstallationID", None),
            ("githubAppInstallationOwner", Some(owner)),
        ])
    };
    bed.resolve(&by_owner("Org")).await.unwrap();
    let requests: Vec<String> = bed
        .api
        .0
        .lock()
        .requests
        .iter()
        .map(|(what, _)| what.clone())
        .collect();
    assert_eq!(requests, ["GET org/fleet", "POST 42"]);
    let error = bed.resolve(&by_owner("other")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "credentials cannot be used: key \"githubAppInstallationOwner\" is not the owner of org/fleet"
    );
    bed.pass(120);
    bed.api.0.lock().suspended = true;
    let error = bed.resolve(&by_owner("org")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "GitHub App 7 gets no token for org/fleet: its installation is suspended; ask its owner to unsuspend it"
    );
}

/// The response of the API, the resulting message, and when to try again. The message contains no secret.
#[tokio::test]
async fn each_refusal_has_its_words() {
    let check = async |refusal: (u16, &'static str), ahead: i64, class: SourceErrorClass, expect: &str| {
        let bed = Bed::new().await;
        bed.api.0.lock().refusal = Some(refusal);
        *bed.now.lock() += SignedDuration::from_secs(ahead);
        let remote = bed.remote(&[]);
        let want = Want::Branch("main".to_owned());
        let error = bed.source.fetch(&remote, &want).await.unwrap_err();
        let text = error.to_string().replace(bed.server.url("").as_str(), "HOST/");
        assert_eq!(text, expect, "{refusal:?}");
        assert_eq!(error.class(), class);
        for shown in [text, format!("{error:?}{remote:?}")] {
            assert!(
                !shown.contains("canary") && !shown.contains("PRIVATE KEY"),
                "{shown}"
            );
        }
        assert!(bed.server.recorded_requests().is_empty(), "git was not asked");
        drop(bed.data);
    };
    let (missing, away) = (SourceErrorClass::Missing, SourceErrorClass::Unavailable);
    let message = |why: &str| format!("GitHub App 7 gets no token for org/fleet: {why}");
    let body = r#"{"message": "This installation has been suspended canary"}"#;
    check(
        (403, body),
        0,
        missing,
        &message("its installation is suspended; ask its owner to unsuspend it"),
    )
    .await;
    let not = "it is not installed there; install it for this repository, or correct the Secret";
    check(
        (404, r#"{"message": "Not Found canary"}"#),
        0,
        missing,
        &message(not),
    )
    .await;
    let granted = "its installation has no contents: read permission for the repository; grant it";
    check((422, "canary"), 0, missing, &message(granted)).await;
    let key = "its key is refused; correct githubAppID and githubAppPrivateKey in the Secret";
    check((401, "canary"), 30, missing, &message(key)).await;
    let ahead = "its key is refused, and this machine's clock is 900 s ahead: set it; correct githubAppID and githubAppPrivateKey in the Secret";
    check((401, "canary"), 900, missing, &message(ahead)).await;
    check(
        (401, "canary"),
        -900,
        missing,
        &message(&ahead.replace("ahead", "behind")),
    )
    .await;
    check((403, "canary"), 0, missing, &message("it answered 403")).await;
    check(
        (201, "canary"),
        0,
        missing,
        &message("the response is not from GitHub's API"),
    )
    .await;
    let unreachable =
        |status: &str| format!("HOST/org/fleet.git cannot be reached: GitHub's API answered {status}");
    check(
        (403, "API rate limit exceeded canary"),
        0,
        away,
        &unreachable("403 Forbidden"),
    )
    .await;
    check((503, "canary"), 0, away, &unreachable("503 Service Unavailable")).await;
}

#[test]
fn a_secret_that_is_none_of_an_app() {
    let check = |change: &[(&str, Option<&str>)], expect: &str| {
        let usual = [
            ("githubAppID", "7"),
            ("githubAppInstallationID", "42"),
            ("githubAppPrivateKey", PKCS8),
        ];
        let mut data: BTreeMap<String, Vec<u8>> = usual
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        for (key, value) in change {
            match value {
                Some(value) => data.insert((*key).to_owned(), value.as_bytes().to_vec()),
                None => data.remove(*key),
            };
        }
        let error = Credentials::from_secret(&data).unwrap_err().to_string();
        assert_eq!(error, format!("credentials cannot be used: {expect}"));
    };
    check(&[("githubAppID", None)], "key \"githubAppID\" is missing");
    check(
        &[("githubAppID", Some("a b"))],
        "key \"githubAppID\" is not an App id",
    );
    check(
        &[("githubAppPrivateKey", None)],
        "key \"githubAppPrivateKey\" is missing",
    );
    check(
        &[("githubAppPrivateKey", Some("canary"))],
        "key \"githubAppPrivateKey\" is not an RSA private key in PEM format: it has none",
    );
    check(
        &[("githubAppInstallationID", Some("x"))],
        "key \"githubAppInstallationID\" is no number",
    );
    check(
        &[("githubAppInstallationID", None)],
        "key \"githubAppInstallationID\" is missing, and so is githubAppInstallationOwner",
    );
    check(
        &[("username", Some("u")), ("password", Some("p"))],
        "the keys of a GitHub App and another login are given; keep one",
    );
}
