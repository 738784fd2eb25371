//! Checks before every route (host name and access), and the headers of every response.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{self, AUTHORIZATION, HOST, WWW_AUTHENTICATE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    admission::{Admission, Cached, Verdict},
    host::Hosts,
};

/// Content security policy: forbids everything that the pages do not need.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Checks for every request.
pub(super) struct Guard {
    hosts: Hosts,
    admission: Option<Cached>,
}

impl Guard {
    pub(super) fn new(hosts: Hosts, admission: Option<Arc<dyn Admission>>) -> Self {
        Self {
            hosts,
            admission: admission.map(Cached::new),
        }
    }

    /// The response to a request for another host; `None` if the host is accepted.
    fn misdirected(&self, request: &Request) -> Option<Response> {
        let host_header = request.headers().get(HOST).and_then(|host| host.to_str().ok()); // not valid text: no name
        let host = host_header.or_else(|| request.uri().host()).unwrap_or_default();
        let why = "this host name is not allowed: use localhost, or allow the name with --dashboard-hosts\n";
        (!self.hosts.admit(host)).then(|| (StatusCode::MISDIRECTED_REQUEST, why).into_response())
    }

    /// The response to a token without access; `None` if it has access.
    async fn refusal(&self, token: Option<String>) -> Option<Response> {
        let admission = self.admission.as_ref()?;
        let Some(token) = token else {
            return Some(unauthenticated("a bearer token is required\n"));
        };
        match admission.verdict(&token).await {
            Verdict::Admitted => None,
            Verdict::Unknown => Some(unauthenticated("the API server does not accept the token\n")),
            Verdict::Forbidden => {
                let why = "the token is not allowed to get modules.fleet.muster.dev in this namespace\n";
                Some((StatusCode::FORBIDDEN, why).into_response())
            }
            Verdict::Unsure => {
                let retry = [(header::RETRY_AFTER, "5")];
                let why = "the API server cannot check the token now\n";
                Some((StatusCode::SERVICE_UNAVAILABLE, retry, why).into_response())
            }
        }
    }
}

/// Rejects the request, or runs it and adds the headers.
pub(super) async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let token = bearer(request.headers()).map(str::to_owned);
    let refused = match guard.misdirected(&request) {
        Some(misdirected) => Some(misdirected),
        None => guard.refusal(token).await,
    };
    let mut response = match refused {
        Some(refused) => refused,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn unauthenticated(why: &'static str) -> Response {
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], why).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let authorization = headers.get(AUTHORIZATION)?.to_str().ok()?; // not valid text: no token
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
