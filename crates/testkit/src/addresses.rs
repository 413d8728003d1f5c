//! Network addresses of a machine, set by a test.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use model::ports::addresses::{Addresses, FoundAddresses};

/// Addresses set by a test.
#[derive(Debug, Default)]
pub struct MemoryAddresses {
    found: Mutex<FoundAddresses>,
}

impl MemoryAddresses {
    /// A machine with one address, which is that of its default route.
    pub fn one(address: &str) -> Self {
        let ip = address.parse().expect("an address");
        let (on_interfaces, by_default_route) = (vec![ip], vec![ip]);
        let found = FoundAddresses { on_interfaces, by_default_route, ..FoundAddresses::default() };
        Self { found: Mutex::new(found) }
    }

    /// Replaces the addresses.
    pub fn set(&self, found: FoundAddresses) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

#[async_trait]
impl Addresses for MemoryAddresses {
    async fn find(&self, name: Option<&str>) -> FoundAddresses {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_name = name.map(|_| found.of_name).unwrap_or_default();
        FoundAddresses { of_name, ..found }
    }
}
