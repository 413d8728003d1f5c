//! Segments in memory.

use std::sync::Arc;

use testkit::contract::segments::check;
use testkit::segments::MemorySegments;

#[test]
fn memory_segments_pass_the_contract() {
    check(&(Arc::new(MemorySegments::default()) as _)).unwrap();
}
