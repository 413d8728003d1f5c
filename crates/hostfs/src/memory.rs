//! The memory that the agent has from the kernel.

/// From this size on, a page, a block for which the heap has no room gets pages of its own, which go back to the
/// kernel with it. The largest blocks are those that live shortest: buffers, and what is under way for a pod that
/// starts, some kilobytes for each. Where the heap has room, they still lie in it and may leave holes.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 4 << 10;

/// Sees to it that memory can be given back: threads that only wait for files need no heaps of their
/// own, each of which would keep what it once had, and large blocks do not make the heap grow. To be called
/// before there are threads.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "the C library has no other interface")]
    // SAFETY: it sets numbers, and there is no other thread yet that reads them.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Gives memory back that was freed and is still held for later use. After many pods have started
/// together, that is more than what is in use.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "the C library has no other interface")]
    // SAFETY: it may be called at any time by any thread; nothing in use is touched.
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
        // Blocks too small for a mapping of their own, with a few left among them.
        let blocks: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 3 << 10]).collect();
        let full = anonymous_kib();
        let left: Vec<Vec<u8>> = blocks.into_iter().step_by(100).collect();
        super::give_back();
        let after = anonymous_kib();
        assert!(after + (32 << 10) < full, "{full} KiB, then {after} KiB");
        assert!(left.iter().all(|block| block.len() == 3 << 10));
    }
}
