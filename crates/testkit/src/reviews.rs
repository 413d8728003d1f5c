//! Token and access reviews that deny everything.

use async_trait::async_trait;
use model::cluster::{AccessRequest, User};
use model::ports::cluster::{ApiError, Reviews};

/// No token is valid, and nothing is allowed.
#[derive(Debug, Clone, Copy)]
pub struct NoReviews;

#[async_trait]
impl Reviews for NoReviews {
    async fn token_owner(&self, _: &str) -> Result<Option<User>, ApiError> {
        Ok(None)
    }

    async fn is_allowed(&self, _: &User, _: &AccessRequest) -> Result<bool, ApiError> {
        Ok(false)
    }
}
