//! Images.

use super::Invariant;
use crate::history::{Event, Record};

/// An image that a container uses stays.
#[derive(Debug, Default)]
pub(super) struct UsedImagesStay;

impl Invariant for UsedImagesStay {
    fn sentence(&self) -> &'static str {
        "no image goes that a container uses"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::ImageRemovalAsked(image, users) if !users.is_empty() => {
                Err(format!("{image} is used by {users:?}"))
            }
            _ => Ok(()),
        }
    }
}
