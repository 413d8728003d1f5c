use std::sync::Arc;
use std::time::Duration;

use model::ids::PodName;
use model::objects::TokenRequest;
use testkit::cluster::{ApiCall, CallFault, MemoryCluster};
use tokio::time::sleep;

use crate::{TokenError, TokenStore};

fn request(pod: &str, seconds: i64) -> TokenRequest {
    TokenRequest {
        service_account: "default".into(),
        audiences: vec!["vault".to_owned()],
        expiration_seconds: seconds,
        pod: PodName::new("ns", pod),
        pod_uid: format!("uid-of-{pod}").into(),
    }
}

fn store() -> (MemoryCluster, TokenStore) {
    let cluster = MemoryCluster::default();
    let store = TokenStore::new(Arc::new(cluster.clone()), Arc::new(cluster.clock()));
    (cluster, store)
}

// behaviour: OBJ-14
#[tokio::test(start_paused = true)]
async fn token_is_cached_until_its_refresh_is_due() {
    let (cluster, store) = store();
    let (a, b) = (request("a", 600), request("b", 600));
    let first = store.get(&a).await.unwrap();
    sleep(Duration::from_secs(469)).await;
    assert_eq!(store.get(&a).await.unwrap(), first);
    assert_ne!(store.get(&b).await.unwrap(), first, "it is bound to its pod");
    assert_ne!(store.get(&request("a", 700)).await.unwrap(), first);
    assert_eq!(cluster.calls_of(ApiCall::Token).len(), 3);
    sleep(Duration::from_secs(12)).await;
    let second = store.get(&a).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(cluster.calls_of(ApiCall::Token).len(), 4);
    let refresh = store.refresh_at(&a).unwrap();
    let left = second.expires.duration_since(refresh).as_secs();
    assert!((120..=130).contains(&left), "{left}");
}

// behaviour: OBJ-14
#[tokio::test(start_paused = true)]
async fn cached_token_is_used_until_it_expires_when_refresh_fails() {
    let (cluster, store) = store();
    let request = request("a", 600);
    cluster.inject_fault(ApiCall::Token, CallFault::Refused(403), 1);
    assert!(matches!(store.get(&request).await, Err(TokenError::Fetch(_))));
    let first = store.get(&request).await.unwrap();
    cluster.inject_fault(ApiCall::Token, CallFault::Unreachable, 100);
    sleep(Duration::from_secs(590)).await;
    assert_eq!(store.get(&request).await.unwrap(), first);
    sleep(Duration::from_secs(11)).await;
    let error = store.get(&request).await.unwrap_err();
    assert!(matches!(error, TokenError::Expired { .. }), "{error}");
    cluster.clear_faults();
    assert_ne!(store.get(&request).await.unwrap(), first);
}

// behaviour: OBJ-14
#[tokio::test(start_paused = true)]
async fn tokens_of_a_removed_pod_are_dropped() {
    let (_, store) = store();
    store.get(&request("a", 600)).await.unwrap();
    store.get(&request("b", 600)).await.unwrap();
    store.forget(&"uid-of-a".into());
    assert!(store.refresh_at(&request("a", 600)).is_none());
    assert!(store.refresh_at(&request("b", 600)).is_some());
    // Expired tokens are dropped with the next request.
    sleep(Duration::from_secs(601)).await;
    store.get(&request("c", 600)).await.unwrap();
    assert!(store.refresh_at(&request("b", 600)).is_none());
}
