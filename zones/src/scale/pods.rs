//! HTTP requests to pods: addressed by DNS name, at a port and path from an annotation of their StatefulSet.
//!
//! Requests are sent only to pods: the host is always the pod's DNS name, whatever a URL contains, and a port must be a
//! number, so that no annotation can redirect a request elsewhere. The executor follows no redirects.

/// Maximum number of concurrent requests to pods.
pub const AT_ONCE: usize = 32;

/// The request method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Prepare for shutdown.
    Post,
    /// Cancel the preparation.
    Delete,
}

impl Method {
    /// The HTTP method name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// A request to a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// The request method.
    pub method: Method,
    /// Name of the pod.
    pub pod: String,
    /// The complete URL.
    pub url: String,
}

/// The answer of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code; a redirect is treated like any other answer.
    pub status: u16,
    /// The body, up to a limit set by the executor.
    pub body: String,
}

impl Answer {
    /// Whether the request succeeded: any 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// An answer, or the reason why there is none.
pub type Answered = Result<Answer, String>;

/// The DNS name of a pod of a StatefulSet.
pub fn fqdn(set: &str, ordinal: u64, service: &str, namespace: &str, cluster_domain: &str) -> String {
    format!("{set}-{ordinal}.{service}.{namespace}.svc.{cluster_domain}")
}

/// The URL for the request to prepare for a downscale: `http`, with exactly one slash before the path. An error names
/// the part that would send the request elsewhere.
pub fn prepare_url(host: &str, port: &str, path: &str) -> Result<String, String> {
    checked_host(host)?;
    checked_port(port)?;
    let path = path.trim_start_matches('/');
    if path.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("invalid path {path:?}"));
    }
    Ok(format!("http://{host}:{port}/{path}"))
}

/// A URL from an annotation; for each pod the host is replaced by the pod's own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPattern {
    /// The original text.
    pub text: String,
    /// `http://`, or empty if the text has no scheme.
    scheme: String,
    /// `user:password@`, or empty.
    user: String,
    /// `:port`, or empty.
    port: String,
    /// Path, query and fragment.
    rest: String,
}

impl UrlPattern {
    /// Parses a URL. Errors have the texts of Go's `net/url`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("parse {text:?}: {why}"));
        if text.chars().any(char::is_control) {
            return refuse("net/url: invalid control character in URL");
        }
        if text.starts_with(':') {
            return refuse("missing protocol scheme");
        }
        let Some((scheme, after)) = text.split_once("://") else {
            return Ok(Self {
                text: text.to_owned(),
                scheme: "//".to_owned(),
                user: String::new(),
                port: String::new(),
                rest: format!("/{}", text.trim_start_matches('/')),
            });
        };
        if !scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        {
            return refuse("first path segment in URL cannot contain colon");
        }
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        let (authority, rest) = after.split_at(end);
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (format!("{user}@"), host),
            None => (String::new(), authority),
        };
        let is_foreign =
            |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>%".contains(*c);
        if let Some(foreign) = host.chars().find(is_foreign) {
            return refuse(&format!(
                "invalid character {:?} in host name",
                foreign.to_string()
            ));
        }
        let after_host = if host.starts_with('[') {
            let Some((_, after)) = host.split_once(']') else {
                return refuse("missing ']' in host");
            };
            after
        } else {
            host.find(':').map_or("", |colon| host.split_at(colon).1)
        };
        let port = after_host.strip_prefix(':').unwrap_or(after_host);
        if !port.chars().all(|c| c.is_ascii_digit()) {
            return refuse(&format!("invalid port {after_host:?} after host"));
        }
        if let Some(escape) = bad_escape(rest) {
            return refuse(&format!("invalid URL escape {escape:?}"));
        }
        Ok(Self {
            text: text.to_owned(),
            scheme: format!("{scheme}://"),
            user,
            port: if port.is_empty() {
                String::new()
            } else {
                format!(":{port}")
            },
            rest: rest.to_owned(),
        })
    }

    /// The URL for a specific pod.
    pub fn at(&self, host: &str) -> String {
        let Self {
            scheme,
            user,
            port,
            rest,
            ..
        } = self;
        format!("{scheme}{user}{host}{port}{rest}")
    }
}

fn checked_host(host: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    if host.chars().all(fits) {
        Ok(())
    } else {
        Err(format!("invalid host {host:?}"))
    }
}

fn checked_port(port: &str) -> Result<(), String> {
    let is_number = port.chars().all(|c| c.is_ascii_digit());
    let number = port.parse::<u16>().ok().filter(|port| is_number && *port > 0); // anything but a number is rejected below
    number.map(drop).ok_or_else(|| format!("invalid port {port:?}"))
}

/// The first `%` that is not followed by two hexadecimal digits.
fn bad_escape(text: &str) -> Option<&str> {
    text.match_indices('%').find_map(|(at, _)| {
        let escape = text
            .get(at..at + 3)
            .unwrap_or_else(|| text.get(at..).unwrap_or_default());
        let good = escape.len() == 3 && escape.chars().skip(1).all(|c| c.is_ascii_hexdigit());
        (!good).then_some(escape)
    })
}
