//! A lookup of an image that begins before its container starts.

use std::fmt;
use std::pin::Pin;

use futures_util::future::{BoxFuture, Either, MaybeDone, select};
use model::image_claims::ImageClaim;
use model::ports::runtime::{Image, RuntimeError};

/// The result of a lookup.
pub(super) type Lookup = Result<Option<Image>, RuntimeError>;

/// A lookup of the image of a container whose turn has not come. Its result is reported in the container's turn, and
/// not at all if it is cancelled before.
pub(crate) struct EarlyLookup {
    pub(super) lookup: MaybeDone<BoxFuture<'static, Lookup>>,
    /// From before the lookup: image garbage collection must not remove the image meanwhile.
    pub(super) _claim: ImageClaim,
}

impl fmt::Debug for EarlyLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlyLookup").finish_non_exhaustive()
    }
}

impl EarlyLookup {
    /// Waits for another future while the lookup continues.
    pub(crate) async fn beside<T>(&mut self, other: impl Future<Output = T> + Unpin) -> T {
        match select(other, &mut self.lookup).await {
            Either::Left((done, _)) => done,
            Either::Right(((), other)) => other.await,
        }
    }

    pub(super) async fn result(mut self) -> Lookup {
        (&mut self.lookup).await;
        Pin::new(&mut self.lookup)
            .take_output()
            .expect("the lookup is done and its result taken once")
    }
}
