//! The endpoint of a runtime.

use std::path::{Path, PathBuf};

/// A Unix socket, as `unix:///run/containerd/containerd.sock` or as a plain absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

/// An invalid endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The scheme is not `unix`.
    #[error("endpoint {0:?}: only unix sockets are supported, as unix:///path")]
    Scheme(String),
    /// The path is empty or relative.
    #[error("endpoint {0:?}: the path of the socket must be absolute")]
    Relative(String),
}

impl Endpoint {
    /// Parses an endpoint of the configuration.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let path = match text.split_once("://") {
            Some(("unix", path)) => path,
            Some(_) => return Err(EndpointError::Scheme(text.to_owned())),
            None => text.strip_prefix("unix:").unwrap_or(text),
        };
        if path.starts_with('/') {
            Ok(Self(PathBuf::from(path)))
        } else {
            Err(EndpointError::Relative(text.to_owned()))
        }
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, EndpointError};

    #[test]
    fn endpoints_are_unix_sockets_with_an_absolute_path() {
        let rows = [
            ("unix:///run/a.sock", Ok("/run/a.sock")),
            ("unix:/run/a.sock", Ok("/run/a.sock")),
            ("/run/a.sock", Ok("/run/a.sock")),
            ("unix://run/a.sock", Err(EndpointError::Relative("unix://run/a.sock".into()))),
            ("", Err(EndpointError::Relative(String::new()))),
            ("tcp://127.0.0.1:1", Err(EndpointError::Scheme("tcp://127.0.0.1:1".into()))),
            ("npipe:////./pipe/x", Err(EndpointError::Scheme("npipe:////./pipe/x".into()))),
        ];
        for (text, expected) in rows {
            let parsed = Endpoint::parse(text);
            let path = parsed.as_ref().map(|endpoint| endpoint.path().to_str().unwrap());
            assert_eq!(path, expected.as_ref().map(|path| *path), "{text}");
        }
    }
}
