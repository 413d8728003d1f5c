//! The memory of the agent process.

/// Blocks from this size on, one page, get their own mapping if the heap has no free space, and return to the
/// kernel when they are freed. The largest blocks are the shortest-lived: buffers, and some kilobytes for each
/// starting pod. Blocks that fit into free heap space may still leave holes.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 4 << 10;

/// Configures the allocator so that memory can be returned: threads for blocking calls share one heap instead
/// of keeping their own, and large blocks do not grow the heap. Call this before any thread starts.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "the C library has no other interface")]
    // SAFETY: it sets numbers, and no other thread exists that reads them.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Returns freed memory to the kernel. After many pods have started together, it is more than the memory in
/// use.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "the C library has no other interface")]
    // SAFETY: any thread may call it at any time; used memory is not touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_env = "gnu")]
    #[test]
    fn freed_memory_is_returned_to_the_system() {
        fn anonymous_kib() -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        }
        // Blocks too small for their own mapping, with a few remaining ones between them.
        let blocks: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 3 << 10]).collect();
        let full = anonymous_kib();
        let left: Vec<Vec<u8>> = blocks.into_iter().step_by(100).collect();
        super::return_freed_memory();
        let after = anonymous_kib();
        assert!(after + (32 << 10) < full, "{full} KiB, then {after} KiB");
        assert!(left.iter().all(|block| block.len() == 3 << 10));
    }
}
