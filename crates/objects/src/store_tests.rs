use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use config::{ChangeDetectionStrategy as Strategy, GoDuration, KubeletConfiguration};
use model::ids::PodUid;
use model::objects::{DataObject, ObjectKey};
use model::ports::objects::{ObjectError, PodObjects as _};
use testkit::cluster::{ApiCall, CallFault, MemoryCluster, object};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{ObjectStore, Settings};

struct Harness {
    cluster: MemoryCluster,
    store: ObjectStore,
    _tasks: JoinSet<()>,
}

fn harness(strategy: Strategy) -> Harness {
    let cluster = MemoryCluster::default();
    let settings = Settings { strategy, ..Settings::default() };
    let store = ObjectStore::new(Arc::new(cluster.clone()), settings);
    let mut tasks = JoinSet::new();
    tasks.spawn(store.clone().run(CancellationToken::new()));
    Harness { cluster, store, _tasks: tasks }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::secret("ns", name)
}

impl Harness {
    fn register(&self, pod: &str, names: &[&str]) {
        let keys = names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
        self.store.register(&PodUid::from(pod), keys);
    }

    fn put(&self, name: &str, value: &str) {
        self.cluster.put_object(&key(name), object([("k", value)]));
    }

    async fn get(&self, name: &str) -> Result<String, ObjectError> {
        let found = self.store.get(&key(name)).await?;
        Ok(String::from_utf8(found.data["k"].to_vec()).unwrap())
    }

    /// Waits until an object has a value.
    async fn wait(&self, name: &str, value: &str) {
        let wait = async {
            while self.get(name).await.as_deref() != Ok(value) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = timeout(Duration::from_mins(1), wait).await;
        assert!(waited.is_ok(), "{name}: {:?}", self.get(name).await);
    }
}

// behaviour: OBJ-13, OBJ-15
#[test]
fn change_detection_follows_the_configuration() {
    let mut config = KubeletConfiguration::default();
    assert_eq!(Settings::of(&config), Settings::default());
    config.sync_frequency = GoDuration::from_secs(120);
    config.config_map_and_secret_change_detection_strategy = Strategy::Cache;
    let expected = Settings {
        strategy: Strategy::Cache,
        idle: Duration::from_mins(10),
        ..Settings::default()
    };
    assert_eq!(Settings::of(&config), expected);
}

// behaviour: OBJ-2, OBJ-11
#[tokio::test(start_paused = true)]
async fn object_is_watched_while_a_pod_refers_to_it() {
    let harness = harness(Strategy::Watch);
    harness.put("a", "1");
    let error = harness.get("a").await.unwrap_err();
    assert_eq!(error.to_string(), "object \"ns\"/\"a\" not registered");
    harness.register("pod-1", &["a", "b"]);
    harness.register("pod-2", &["a"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    assert_eq!(harness.get("b").await.unwrap_err().to_string(), "secret \"b\" not found");
    harness.cluster.wait_followed(&[&key("a"), &key("b")]).await;
    assert_eq!(harness.cluster.calls_of(ApiCall::Watch), ["secret ns/a", "secret ns/b"]);

    harness.put("a", "2");
    harness.wait("a", "2").await;
    harness.put("b", "new");
    harness.wait("b", "new").await;
    harness.cluster.drop_object(&key("b"));
    harness.store.unregister(&"pod-1".into());
    harness.cluster.wait_followed(&[&key("a")]).await;
    harness.store.unregister(&"pod-2".into());
    harness.cluster.wait_followed(&[]).await;
    assert!(matches!(harness.get("a").await, Err(ObjectError::NotRegistered { .. })));
}

// behaviour: OBJ-12
#[tokio::test(start_paused = true)]
async fn lookup_waits_a_second_for_the_first_version() {
    let harness = harness(Strategy::Watch);
    harness.put("a", "1");
    harness.cluster.freeze_objects(true);
    harness.register("pod-1", &["a"]);
    let begun = Instant::now();
    let error = harness.get("a").await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    let message = "failed to sync secret cache: timed out waiting for the condition";
    assert_eq!(error.to_string(), message);
    let requested = harness.get("a");
    let (got, ()) = tokio::join!(requested, async { harness.cluster.freeze_objects(false) });
    assert_eq!(got.as_deref(), Ok("1"));
}

// behaviour: OBJ-12
#[tokio::test(start_paused = true)]
async fn last_known_version_is_used_while_the_watch_delivers_nothing() {
    let harness = harness(Strategy::Watch);
    harness.put("a", "1");
    harness.register("pod-1", &["a"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    harness.cluster.freeze_objects(true);
    harness.put("a", "2");
    harness.register("pod-2", &["a"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    harness.cluster.freeze_objects(false);
    harness.wait("a", "2").await;
}

// behaviour: OBJ-13
#[tokio::test(start_paused = true)]
async fn immutable_object_is_not_watched_once_read() {
    let harness = harness(Strategy::Watch);
    let fixed = DataObject { is_immutable: true, ..object([("k", "1")]) };
    harness.cluster.put_object(&key("a"), fixed.clone());
    harness.put("b", "1");
    harness.register("pod-1", &["a", "b"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    harness.cluster.wait_followed(&[&key("b")]).await;
    // Hours later it is still known, without a request.
    sleep(Duration::from_hours(3)).await;
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    assert_eq!(harness.cluster.calls_of(ApiCall::Watch).len(), 2);
    // An object that becomes immutable is watched until then.
    assert_eq!(harness.get("b").await.as_deref(), Ok("1"));
    harness.cluster.wait_followed(&[&key("b")]).await;
    harness
        .cluster
        .put_object(&key("b"), DataObject { is_immutable: true, ..object([("k", "2")]) });
    harness.cluster.wait_followed(&[]).await;
    assert_eq!(harness.get("b").await.as_deref(), Ok("2"));
    // For a new pod after all others are gone it is read again.
    harness.store.unregister(&"pod-1".into());
    harness
        .cluster
        .put_object(&key("a"), DataObject { is_immutable: true, ..object([("k", "9")]) });
    harness.register("pod-2", &["a"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("9"));
}

// behaviour: OBJ-13
#[tokio::test(start_paused = true)]
async fn idle_object_is_not_watched_until_the_next_lookup() {
    let harness = harness(Strategy::Watch);
    harness.put("a", "1");
    harness.register("pod-1", &["a"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    sleep(Duration::from_mins(4)).await;
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    sleep(Duration::from_secs(270)).await;
    assert_eq!(harness.cluster.followed(), [key("a")], "used less than five minutes ago");
    harness.cluster.wait_followed(&[]).await;
    harness.put("a", "2");
    assert_eq!(harness.get("a").await.as_deref(), Ok("2"), "read again, not cached");
    harness.cluster.wait_followed(&[&key("a")]).await;
    assert_eq!(harness.cluster.calls_of(ApiCall::Watch).len(), 2);
}

// behaviour: OBJ-41
#[tokio::test(start_paused = true)]
async fn idle_object_keeps_its_last_version_while_the_server_is_unavailable() {
    let harness = harness(Strategy::Watch);
    let away = |trouble: CallFault| harness.cluster.inject_fault(ApiCall::Object, trouble, 1);
    harness.put("a", "1");
    harness.register("pod-1", &["a"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    sleep(Duration::from_mins(5)).await;
    harness.cluster.wait_followed(&[]).await;
    harness.cluster.freeze_objects(true);
    harness.put("a", "2");
    let troubles =
        [CallFault::Unreachable, CallFault::Refused(503), CallFault::Late(Duration::from_mins(1))];
    for trouble in troubles {
        let begun = Instant::now();
        away(trouble.clone());
        assert_eq!(harness.get("a").await.as_deref(), Ok("1"), "{trouble:?}");
        let took = begun.elapsed();
        assert!(took <= Duration::from_millis(2100), "{trouble:?}: {took:?}");
    }
    // The server is available but the watch delivers nothing: a read counts.
    away(CallFault::Refused(403));
    assert!(matches!(harness.get("a").await, Err(ObjectError::NotYet { .. })));
    assert_eq!(harness.get("a").await.as_deref(), Ok("2"));
    harness.cluster.drop_object(&key("a"));
    assert_eq!(harness.get("a").await.unwrap_err().to_string(), "secret \"a\" not found");
    // There is no version of an object that was never known.
    harness.put("b", "1");
    harness.register("pod-2", &["b"]);
    assert!(matches!(harness.get("b").await, Err(ObjectError::NotYet { .. })));
    harness.put("a", "3");
    harness.cluster.freeze_objects(false);
    harness.wait("a", "3").await;
    harness.wait("b", "1").await;
}

// behaviour: OBJ-13
#[tokio::test(start_paused = true)]
async fn object_without_a_version_stays_watched_for_any_time() {
    let harness = harness(Strategy::Watch);
    harness.put("a", "1");
    harness.cluster.freeze_objects(true);
    harness.register("pod-1", &["a"]);
    sleep(Duration::from_mins(20)).await;
    assert_eq!(harness.cluster.followed(), [key("a")]);
    assert_eq!(harness.cluster.calls_of(ApiCall::Watch).len(), 1);
}

// behaviour: OBJ-15
#[tokio::test(start_paused = true)]
async fn cached_object_is_read_again_after_its_ttl_and_for_each_new_pod() {
    let harness = harness(Strategy::Cache);
    let reads = || harness.cluster.calls_of(ApiCall::Object).len();
    harness.put("a", "1");
    harness.register("pod-1", &["a"]);
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    harness.put("a", "2");
    sleep(Duration::from_secs(59)).await;
    assert_eq!((harness.get("a").await.as_deref(), reads()), (Ok("1"), 1));
    sleep(Duration::from_secs(1)).await;
    assert_eq!((harness.get("a").await.as_deref(), reads()), (Ok("2"), 2));
    harness.put("a", "3");
    harness.register("pod-1", &["a"]);
    assert_eq!((harness.get("a").await.as_deref(), reads()), (Ok("2"), 2));
    harness.register("pod-2", &["a"]);
    assert_eq!((harness.get("a").await.as_deref(), reads()), (Ok("3"), 3));
    // A failure does not matter while a version is known, but it does for a new pod.
    sleep(Duration::from_mins(2)).await;
    harness.cluster.inject_fault(ApiCall::Object, CallFault::Unreachable, 2);
    assert_eq!(harness.get("a").await.as_deref(), Ok("3"));
    harness.register("pod-3", &["a"]);
    assert!(matches!(harness.get("a").await, Err(ObjectError::NotRead(_))));
    harness.cluster.drop_object(&key("a"));
    assert_eq!(harness.get("a").await.unwrap_err().to_string(), "secrets \"a\" not found");
    harness.put("a", "4");
    assert_eq!(harness.get("a").await.as_deref(), Ok("4"), "a missing object is always read again");
    harness.store.set_time_to_live(Some(Duration::from_secs(5)));
    harness.put("a", "5");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(harness.get("a").await.as_deref(), Ok("5"));
    harness.store.set_time_to_live(None);
    harness.put("a", "6");
    sleep(Duration::from_secs(59)).await;
    assert_eq!(harness.get("a").await.as_deref(), Ok("5"), "a minute again");
    assert_eq!(harness.cluster.calls_of(ApiCall::Watch), [""; 0]);
}

// behaviour: OBJ-15
#[tokio::test(start_paused = true)]
async fn every_lookup_is_a_request_without_a_cache() {
    let harness = harness(Strategy::Get);
    harness.put("a", "1");
    assert_eq!(harness.get("a").await.as_deref(), Ok("1"));
    harness.put("a", "2");
    assert_eq!(harness.get("a").await.as_deref(), Ok("2"));
    assert_eq!(harness.get("b").await.unwrap_err().to_string(), "secrets \"b\" not found");
    assert_eq!(harness.cluster.calls_of(ApiCall::Object).len(), 3);
}
