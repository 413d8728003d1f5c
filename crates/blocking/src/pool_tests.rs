use std::io;
use std::sync::mpsc;

use tokio::task::JoinSet;

use super::*;
use crate::table::LEND_AFTER;

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(30);

/// Calls that return when this is dropped.
#[derive(Default)]
struct Hanging {
    gates: Vec<mpsc::Sender<()>>,
    calls: JoinSet<Result<(), CallError>>,
}

impl Hanging {
    /// Starts a call that does not return, and waits until it runs or is refused.
    async fn start(&mut self, pool: &Pool, subject: &str) {
        let (gate, wait) = mpsc::channel();
        self.gates.push(gate);
        let (pool, subject) = (pool.clone(), PathBuf::from(subject));
        self.calls.spawn(async move {
            let call = Call { operation: "read", subject: &subject, limit: LIMIT };
            pool.run(call, move || _ = wait.recv()).await
        });
        tokio::task::yield_now().await;
    }

    async fn next(&mut self) -> Result<(), CallError> {
        self.calls.join_next().await.unwrap().unwrap()
    }
}

async fn read(pool: &Pool, subject: &str) -> Result<u8, CallError> {
    let call = Call { operation: "read", subject: Path::new(subject), limit: LIMIT };
    pool.run(call, || 7).await
}

fn pool(threads: usize, spare: usize) -> Pool {
    Pool::new("files", Size { threads, spare })
}

// A running call prevents a paused clock from advancing: these tests advance it.

#[tokio::test(start_paused = true)]
async fn hanging_call_fails_at_its_limit_and_is_reported() {
    let (pool, mut hanging) = (pool(2, 0), Hanging::default());
    hanging.start(&pool, "/a").await;
    tokio::time::advance(29 * SECOND).await;
    assert_eq!((pool.stuck(Instant::now()), pool.overdue_total()), (vec![], 0));
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(hanging.next().await, Err(CallError::Overdue(LIMIT)));
    let stuck = pool.stuck(Instant::now());
    assert_eq!((stuck.len(), pool.overdue_total()), (1, 1));
    assert_eq!(stuck[0].to_string(), "read /a has not returned for 31 s");
    // A late write must not overtake a newer one.
    let error = read(&pool, "/a").await.unwrap_err();
    assert_eq!(error.to_string(), "not tried: read /a has not returned for 31 s");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
    assert_eq!(read(&pool, "/b").await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn call_that_waited_for_its_thread_is_overdue_when_its_caller_gives_up() {
    let (pool, mut hanging) = (pool(1, 0), Hanging::default());
    hanging.start(&pool, "/a").await;
    hanging.start(&pool, "/b").await;
    tokio::time::advance(4 * SECOND).await;
    drop(hanging.gates.remove(0));
    assert_eq!(hanging.next().await, Ok(()));
    tokio::task::yield_now().await;
    tokio::time::advance(26 * SECOND).await;
    assert_eq!(hanging.next().await, Err(CallError::Overdue(LIMIT)));
    assert!(matches!(read(&pool, "/b").await, Err(CallError::Stuck(_))));
}

#[tokio::test(start_paused = true)]
async fn call_is_refused_when_its_group_became_overdue_while_it_waited() {
    let (pool, mut hanging) = (pool(PER_GROUP + 1, 0), Hanging::default());
    for number in 0..PER_GROUP {
        hanging.start(&pool, &format!("/var/lib/kubelet/pods/uid/{number}")).await;
    }
    tokio::time::advance(20 * SECOND).await;
    hanging.start(&pool, "/var/lib/kubelet/pods/uid/late").await;
    tokio::time::advance(11 * SECOND).await;
    for _ in 0..PER_GROUP {
        assert_eq!(hanging.next().await, Err(CallError::Overdue(LIMIT)));
    }
    drop(hanging.gates.remove(0));
    assert!(matches!(hanging.next().await, Err(CallError::Stuck(_))));
}

#[tokio::test]
async fn late_return_frees_the_file() {
    let (pool, mut hanging) = (pool(1, 0), Hanging::default());
    hanging.start(&pool, "/a").await;
    hanging.gates.clear();
    assert_eq!(hanging.next().await, Ok(()));
    assert_eq!(read(&pool, "/a").await, Ok(7));
    assert_eq!(pool.stuck(Instant::now() + LIMIT), []);
}

#[tokio::test(start_paused = true)]
async fn threads_per_pod_are_limited() {
    let (pool, mut hanging) = (pool(PER_GROUP + 1, 0), Hanging::default());
    for number in 0..20 {
        hanging.start(&pool, &format!("/var/lib/kubelet/pods/uid/{number}")).await;
    }
    assert_eq!(read(&pool, "/var/lib/kubelet/pods/other/x").await, Ok(7));
    tokio::time::advance(LIMIT).await;
    for _ in 0..20 {
        let error = hanging.next().await.unwrap_err();
        assert!(matches!(error, CallError::Overdue(_) | CallError::Stuck(_)), "{error}");
    }
    assert_eq!(pool.overdue_total(), PER_GROUP as u64);
}

#[tokio::test(start_paused = true)]
async fn hanging_threads_are_replaced() {
    let (pool, mut hanging) = (pool(2, 2), Hanging::default());
    for subject in ["/a", "/b", "/c"] {
        hanging.start(&pool, subject).await;
    }
    let other = pool.clone();
    hanging.calls.spawn(async move { read(&other, "/d").await.map(drop) });
    tokio::task::yield_now().await;
    tokio::time::advance(LEND_AFTER).await;
    assert_eq!(hanging.next().await, Ok(()), "the one that returns");
    tokio::time::advance(LIMIT).await;
    for _ in 0..3 {
        assert_eq!(hanging.next().await, Err(CallError::Overdue(LIMIT)));
    }
    // Once all have returned there are as many threads as before.
    hanging.gates.clear();
    while !pool.stuck(Instant::now()).is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.shared.threads.available_permits(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_fail_at_once_when_all_threads_are_stuck() {
    let (pool, mut hanging) = (pool(1, 1), Hanging::default());
    hanging.start(&pool, "/a").await;
    tokio::time::advance(LEND_AFTER).await;
    hanging.start(&pool, "/b").await;
    tokio::time::advance(LIMIT).await;
    for _ in 0..2 {
        assert_eq!(hanging.next().await, Err(CallError::Overdue(LIMIT)));
    }
    let error = read(&pool, "/c").await.unwrap_err().to_string();
    let expected = "not tried: all 2 threads for files are busy; read /a has not returned for 35 s";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn panic_fails_only_its_caller() {
    let pool = pool(1, 0);
    let call = Call { operation: "read", subject: Path::new("/a"), limit: LIMIT };
    let panicked = pool.run(call, || panic!("on purpose")).await;
    let ended: Result<(), CallError> = panicked;
    assert!(matches!(ended, Err(CallError::Ended(_))), "{ended:?}");
    assert_eq!(read(&pool, "/a").await, Ok(7));
}
