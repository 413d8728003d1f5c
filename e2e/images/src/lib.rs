//! Container images for the tests, built here instead of pulled.
//!
//! - Input: the static `workload` executable, and the lists in [`catalogue`].
//! - Output: one OCI image layout per image, as a tar archive that a runtime can import.
//! - Invariant: equal input gives equal bytes, so a digest names the same image on every machine of one architecture.
//!   An archive does not depend on the time, the user or the file system.
//!
//! The archives can also be pulled over HTTP, from a [`registry`] beside the runtime.
//!
//! An image is a value: take one, change its name, its user or its size, and write it.
//!
//! ```text
//! let image = test_images::workload(executable).named("ferrolet.test/large:7").padded(1 << 20);
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "a tool for tests, which reads and writes the files it is asked for"
)]

pub mod catalogue;
pub mod conformance;
mod error;
mod image;
pub mod kubeadm;
mod layer;
mod oci;
pub mod registry;

pub use catalogue::{EXTRA, catalogue, disposable, extra, pause, tools, workload};
pub use error::Error;
pub use image::{Image, noise};
pub use layer::{Entry, Layer};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_is_renamed_and_padded() -> Result<(), Error> {
        let image =
            workload(b"an executable".to_vec()).named("ferrolet.test/large:7").padded(1 << 20);
        assert_eq!(image.file_name(), "large-7.tar");
        assert!(image.archive()?.len() > 1 << 20);
        Ok(())
    }
}
