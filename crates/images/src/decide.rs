//! Decisions about credentials and pull records: values in, values out.

pub mod credential_hash;
pub mod docker_config;
mod hex;
pub mod keyring;
pub mod must_pull;
pub mod provider_cache;
pub mod provider_config;
pub mod provider_exchange;
pub mod record;
pub mod registry_pattern;
pub mod verification;

pub(crate) use hex::sha256_hex;
