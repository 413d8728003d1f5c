//! Images.

use super::Invariant;
use crate::history::{Event, ImageRemoval, Record};

/// An image stays that a container uses, that is pinned, by the runtime or by the operator, or that is
/// just being fetched or made a container of.
#[derive(Debug, Default)]
pub(super) struct UsedImagesStay;

impl Invariant for UsedImagesStay {
    fn sentence(&self) -> &'static str {
        "no image goes that is used, pinned or being pulled"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        let Event::ImageRemovalAsked(removal) = &record.event else { return Ok(()) };
        let ImageRemoval { id, users, pinned, wanted } = removal;
        if !users.is_empty() {
            return Err(format!("{id} is used by {users:?}"));
        }
        if *pinned {
            return Err(format!("{id} is pinned"));
        }
        match wanted.first() {
            Some(name) => Err(format!("{id} goes while a call asks for {name}")),
            None => Ok(()),
        }
    }
}
