use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::*;

fn watch(secret: usize) -> Request<Vec<u8>> {
    let path =
        format!("/api/v1/namespaces/ns/secrets?watch=true&fieldSelector=metadata.name={secret}");
    Request::get(path).body(Vec::new()).unwrap()
}

// behaviour: NODE-71
#[test]
fn watches_behind_silent_name_servers_share_one_thread() {
    let (looked_up, (go, gate)) = (Arc::new(AtomicUsize::new(0)), mpsc::channel::<()>());
    let (count, gate) = (Arc::clone(&looked_up), Mutex::new(gate));
    let resolver = Resolver::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        gate.lock().unwrap().recv().ok();
        Err(std::io::ErrorKind::NotFound.into())
    });
    // As many threads as formerly for all blocking calls.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(16).build();
    runtime.unwrap().block_on(async {
        let connection = Connection::resolved_by(resolver, "http://api.example:6443").unwrap();
        let mut watches = JoinSet::new();
        for secret in 0..200 {
            let connection = connection.clone();
            watches.spawn(async move { connection.send(watch(secret), CallKind::Watch).await });
        }
        // Until the lookup has started, and each watch was polled.
        let mut turns = 0;
        while looked_up.load(Ordering::Relaxed) == 0 || turns < 1000 {
            tokio::task::yield_now().await;
            turns += 1;
        }
        let file = timeout(Duration::from_secs(30), spawn_blocking(|| 7)).await;
        assert_eq!(file.expect("a thread is free").unwrap(), 7);
        assert_eq!(looked_up.load(Ordering::Relaxed), 1);
        assert_eq!(watches.len(), 200);
        drop(go);
        while let Some(ended) = watches.join_next().await {
            assert!(ended.unwrap().is_err());
        }
    });
}
