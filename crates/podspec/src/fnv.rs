//! The FNV-1a hashes, which Kubernetes uses to identify content.
//!
//! They detect accidental changes, and do not protect against intended collisions.

use std::io::{self, Write};

const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;
const OFFSET_128: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME_128: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

pub(crate) fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET_32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME_32))
}

/// The 128-bit hash, updated piece by piece.
#[derive(Debug, Clone)]
pub(crate) struct Fnv1a128(u128);

impl Fnv1a128 {
    pub(crate) fn new() -> Self {
        Self(OFFSET_128)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME_128);
        }
    }

    /// 32 hexadecimal digits.
    pub(crate) fn hex(&self) -> String {
        format!("{:032x}", self.0)
    }
}

impl Write for Fnv1a128 {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Fnv1a128, fnv1a_32};

    #[test]
    fn published_test_vectors_match() {
        assert_eq!(fnv1a_32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        let mut hash = Fnv1a128::new();
        hash.update(b"a");
        assert_eq!(hash.hex(), "d228cb696f1a8caf78912b704e4a8964");
        hash.update(b"bc");
        assert_eq!(hash.hex(), "a68d622cec8b5822836dbc7977af7f3b");
    }
}
