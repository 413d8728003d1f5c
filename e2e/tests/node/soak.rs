//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.

mod addresses;
mod api_outage;
mod deleted;
mod garbage;
