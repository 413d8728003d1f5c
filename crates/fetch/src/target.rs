//! The target of a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use model::ports::http::HttpError;

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) is_secure: bool,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as in the URL.
    pub(crate) authority: String,
    /// Path and query, beginning with a slash.
    pub(crate) path: String,
    /// The header for the credentials in the URL.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, HttpError> {
        let uri: Uri = url.trim().parse().map_err(|_| HttpError::Url("it is not one"))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(HttpError::Url("it must begin with http:// or https://")),
        };
        let whole = uri.authority().ok_or(HttpError::Url("it has no host"))?.as_str();
        let (user, authority) = match whole.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, whole),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(HttpError::Url("it has no host"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            is_secure,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 }),
            authority: authority.to_owned(),
            // A query may follow the host directly.
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            authorization: user.map(basic),
        })
    }

    /// Host and port for messages.
    pub(crate) fn server(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The target of a redirect.
    pub(crate) fn join(&self, location: &str) -> Result<Self, HttpError> {
        let location = location.split('#').next().unwrap_or_default();
        let scheme = if self.is_secure { "https" } else { "http" };
        let base = format!("{scheme}://{}", self.authority);
        let path = self.path.split('?').next().unwrap_or_default();
        let whole = if has_scheme(location) {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{base}{location}")
        } else if location.is_empty() || location.starts_with('?') {
            format!("{base}{path}{location}")
        } else {
            let directory = &path[..=path.rfind('/').unwrap_or_default()];
            format!("{base}{directory}{location}")
        };
        let mut target =
            Self::parse(&whole).map_err(|_| HttpError::Url("a redirect leads nowhere"))?;
        target.path = without_dots(&target.path);
        Ok(target)
    }

    /// Whether both have the same host, with any port. A subdomain is another host.
    pub(crate) fn has_host_of(&self, first: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&first.host)
    }
}

fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// A path without `.` and `..` segments.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut steps: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." => {}
            ".." => drop(steps.pop()),
            part => {
                steps.push(part);
                continue;
            }
        }
        if is_last {
            steps.push("");
        }
    }
    format!("/{}{query}", steps.join("/"))
}

/// The header for URL credentials, which may have percent escapes.
fn basic(user: &str) -> HeaderValue {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let plain = [decoded(user), b":".to_vec(), decoded(password)].concat();
    let text = format!("Basic {}", STANDARD.encode(plain));
    let mut value = HeaderValue::from_str(&text).expect("base64 is plain text");
    value.set_sensitive(true);
    value
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let byte = byte.filter(|_| *first == b'%');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    bytes
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
