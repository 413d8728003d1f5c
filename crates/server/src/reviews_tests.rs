use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Counts reviews, each of which takes a second; the first ones fail.
#[derive(Debug, Default)]
struct Server {
    reviews: AtomicUsize,
    failures: usize,
}

impl Server {
    async fn review(&self) -> Result<(), ApiError> {
        let number = self.reviews.fetch_add(1, Ordering::Relaxed);
        sleep(SECOND).await;
        if number < self.failures { Err(ApiError::TooSlow(SECOND)) } else { Ok(()) }
    }

    fn count(&self) -> usize {
        self.reviews.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl Reviews for Server {
    async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        self.review().await?;
        let user = User { name: token.to_owned(), ..User::default() };
        Ok((token != "bad").then_some(user))
    }

    async fn is_allowed(&self, _: &User, _: &AccessRequest) -> Result<bool, ApiError> {
        self.review().await.map(|()| true)
    }
}

fn reviews(failures: usize, tries: Tries) -> (Arc<Server>, CachedReviews) {
    let server = Arc::new(Server { failures, ..Server::default() });
    let settings = ReviewSettings {
        token_ttl: SECOND * 120,
        allowed_ttl: SECOND * 300,
        denied_ttl: SECOND * 30,
        tries,
    };
    (Arc::clone(&server), CachedReviews::new(server, settings))
}

// behaviour: SRV-8
#[tokio::test(start_paused = true)]
async fn concurrent_requests_with_one_token_share_one_review() {
    for (token, is_valid) in [("good", true), ("bad", false)] {
        let (server, reviews) = reviews(0, Tries::Five);
        let owners = join_all((0..50).map(|_| reviews.owner(token))).await;
        assert!(owners.iter().all(|owner| owner.as_ref().unwrap().is_some() == is_valid));
        assert_eq!(server.count(), 1, "{token}");
        // The result is cached, valid or not.
        tokio::time::advance(SECOND * 118).await;
        reviews.owner(token).await.unwrap();
        assert_eq!(server.count(), 0, "{token}");
        tokio::time::advance(SECOND * 2).await;
        reviews.owner(token).await.unwrap();
        assert_eq!(server.count(), 1, "{token}");
    }
}

// behaviour: SRV-8
#[tokio::test(start_paused = true)]
async fn failed_review_is_shared_by_its_waiters_and_not_cached() {
    let (server, reviews) = reviews(1, Tries::Once);
    let owners = join_all((0..3).map(|_| reviews.owner("good"))).await;
    assert!(owners.iter().all(Result::is_err));
    assert_eq!(server.count(), 1);
    let (server, reviews) = self::reviews(1, Tries::Once);
    reviews.owner("good").await.unwrap_err();
    assert!(reviews.owner("good").await.unwrap().is_some());
    assert_eq!(server.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn review_is_made_by_a_waiter_when_its_first_request_is_dropped() {
    let (_, reviews) = reviews(0, Tries::Once);
    let first = tokio::time::timeout(SECOND / 2, reviews.owner("good"));
    let (first, second) = tokio::join!(first, reviews.owner("good"));
    first.unwrap_err();
    assert!(second.unwrap().is_some());
}

// behaviour: SRV-9
#[tokio::test(start_paused = true)]
async fn review_is_tried_five_times_with_growing_delays() {
    let request = AccessRequest::Path("/x".to_owned());
    for (failures, succeeds) in [(4, true), (5, false)] {
        let (server, reviews) = reviews(failures, Tries::Five);
        let start = Instant::now();
        let allowed = reviews.is_allowed(&User::default(), &request).await;
        assert_eq!(allowed.is_ok(), succeeds, "{failures}");
        assert_eq!(server.count(), 5);
        let waited = start.elapsed().checked_sub(5 * SECOND).unwrap();
        let least: Duration = DELAYS.iter().sum();
        assert!(waited >= least && waited <= least.mul_f64(1.2) + SECOND / 100, "{waited:?}");
    }
}

// behaviour: SRV-9
#[tokio::test(start_paused = true)]
async fn decision_on_large_attributes_is_not_cached() {
    let (server, reviews) = reviews(0, Tries::Once);
    for (length, count) in [(9_999, 1), (10_000, 2)] {
        let request = AccessRequest::Path("x".repeat(length));
        for _ in 0..2 {
            reviews.is_allowed(&User::default(), &request).await.unwrap();
        }
        assert_eq!(server.count(), count, "{length}");
    }
}
