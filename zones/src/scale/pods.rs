//! What pods are asked over HTTP: by name in DNS, at a port and path that an annotation of their StatefulSet names.
//!
//! Only pods are ever asked: the host is the pod's name in DNS, whatever a URL says, and a port is a number, so that no annotation leads
//! elsewhere. The executor follows no redirect.

/// How many pods are asked at once.
pub const AT_ONCE: usize = 32;

/// What is asked of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Prepare to leave.
    Post,
    /// Forget the preparation.
    Delete,
}

impl Method {
    /// As HTTP writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// One request to one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// What is asked.
    pub method: Method,
    /// Name of the pod.
    pub pod: String,
    /// The whole URL.
    pub url: String,
}

/// What a pod answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status; a redirect is an answer as any other.
    pub status: u16,
    /// The body, up to a limit of the executor.
    pub body: String,
}

impl Answer {
    /// Whether the pod did what it was asked: any 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// An answer, or why there is none.
pub type Answered = Result<Answer, String>;

/// The name in DNS of a pod of a StatefulSet.
pub fn fqdn(set: &str, ordinal: u64, service: &str, namespace: &str, cluster_domain: &str) -> String {
    format!("{set}-{ordinal}.{service}.{namespace}.svc.{cluster_domain}")
}

/// The URL under which a pod is asked to prepare for a downscale: `http`, one slash before the path whatever the annotation begins with.
/// An error names the part that would lead elsewhere.
pub fn prepare_url(host: &str, port: &str, path: &str) -> Result<String, String> {
    checked_host(host)?;
    checked_port(port)?;
    let path = path.trim_start_matches('/');
    if path.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("invalid path {path:?}"));
    }
    Ok(format!("http://{host}:{port}/{path}"))
}

/// The URL of an annotation; each pod is asked at it under the pod's own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPattern {
    /// As it is written.
    pub text: String,
    /// `http://`, or nothing where the text has no scheme.
    scheme: String,
    /// `user:password@`, or nothing.
    user: String,
    /// `:port`, or nothing.
    port: String,
    /// Path, query and fragment.
    rest: String,
}

impl UrlPattern {
    /// Reads a URL. The texts of errors are those of Go's `net/url`.
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

    /// The URL at which a pod is asked.
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
    let number = port.parse::<u16>().ok().filter(|port| is_number && *port > 0); // what is no number is refused below
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
