//! Ids and addresses: the same in every run, and in no order that a test could depend on.

use std::net::{IpAddr, Ipv4Addr};

use crate::random::mixed;

/// Hands out ids and addresses, each once.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    ids: u64,
    addresses: u32,
}

impl Numbers {
    /// An id of 64 hexadecimal digits.
    pub(super) fn id(&mut self) -> String {
        self.ids += 1;
        hex64(self.ids)
    }

    /// An address of the pod network, 10.0.0.0/8.
    pub(super) fn address(&mut self) -> IpAddr {
        self.addresses = (self.addresses + 1) % (1 << 24);
        Ipv4Addr::from_bits((10 << 24) | self.addresses).into()
    }
}

/// 64 hexadecimal digits that differ for different seeds.
pub(super) fn hex64(seed: u64) -> String {
    let mut state = seed;
    let [a, b, c, d] = std::array::from_fn(|_| {
        state = mixed(state);
        state
    });
    format!("{a:016x}{b:016x}{c:016x}{d:016x}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_long_and_unique() {
        let mut numbers = Numbers::default();
        let ids: BTreeSet<String> = (0..1000).map(|_| numbers.id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 64));
    }

    #[test]
    fn addresses_start_at_the_first_host() {
        assert_eq!(Numbers::default().address().to_string(), "10.0.0.1");
    }
}
