//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.

mod absence;
mod addresses;
mod deleted;
mod garbage;
