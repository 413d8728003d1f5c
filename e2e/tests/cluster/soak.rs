//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.

mod emptied_store;
