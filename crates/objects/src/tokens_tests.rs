use std::sync::Arc;
use std::time::Duration;

use model::ids::PodName;
use model::objects::TokenRequest;
use testkit::cluster::{Ask, MemoryCluster, Trouble};
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
async fn a_token_is_kept_until_it_is_time_for_another() {
    let (cluster, store) = store();
    let (a, b) = (request("a", 600), request("b", 600));
    let first = store.get(&a).await.unwrap();
    sleep(Duration::from_secs(469)).await;
    assert_eq!(store.get(&a).await.unwrap(), first);
    assert_ne!(store.get(&b).await.unwrap(), first, "it is bound to its pod");
    assert_ne!(store.get(&request("a", 700)).await.unwrap(), first);
    assert_eq!(cluster.asked(Ask::Token).len(), 3);
    sleep(Duration::from_secs(12)).await;
    let second = store.get(&a).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(cluster.asked(Ask::Token).len(), 4);
    let refresh = store.refresh_at(&a).unwrap();
    let left = second.expires.duration_since(refresh).as_secs();
    assert!((120..=130).contains(&left), "{left}");
}

// behaviour: OBJ-14
#[tokio::test(start_paused = true)]
async fn while_no_other_is_given_the_one_that_is_there_does_until_it_expires() {
    let (cluster, store) = store();
    let request = request("a", 600);
    cluster.trouble(Ask::Token, Trouble::Refused(403), 1);
    assert!(matches!(store.get(&request).await, Err(TokenError::Fetch(_))));
    let first = store.get(&request).await.unwrap();
    cluster.trouble(Ask::Token, Trouble::Unreachable, 100);
    sleep(Duration::from_secs(590)).await;
    assert_eq!(store.get(&request).await.unwrap(), first);
    sleep(Duration::from_secs(11)).await;
    let error = store.get(&request).await.unwrap_err();
    assert!(matches!(error, TokenError::Expired { .. }), "{error}");
    cluster.end_troubles();
    assert_ne!(store.get(&request).await.unwrap(), first);
}

// behaviour: OBJ-14
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_takes_its_tokens_along() {
    let (_, store) = store();
    store.get(&request("a", 600)).await.unwrap();
    store.get(&request("b", 600)).await.unwrap();
    store.forget(&"uid-of-a".into());
    assert!(store.refresh_at(&request("a", 600)).is_none());
    assert!(store.refresh_at(&request("b", 600)).is_some());
    // What expired goes with the next one.
    sleep(Duration::from_secs(601)).await;
    store.get(&request("c", 600)).await.unwrap();
    assert!(store.refresh_at(&request("b", 600)).is_none());
}
