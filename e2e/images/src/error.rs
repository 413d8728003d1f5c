//! The errors.

use std::io;
use std::path::PathBuf;

use crate::registry::LayoutError;

/// An image that could not be made, written or read back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("image name {name} is not of the form registry/repository:tag")]
    Name { name: String },
    #[error("adding {path} to an archive")]
    Entry {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("writing {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("listing {}", path.display())]
    List {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("serving {}", path.display())]
    Layout {
        path: PathBuf,
        #[source]
        source: LayoutError,
    },
}
