use std::io::ErrorKind;

use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;
use testkit::http::{MemoryHttp, Page};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use model::ports::files::draft_of;

use super::*;
use crate::source::support::NoVolumes;
use crate::source::{CopyWatch, PodSetWatch, RefusalWatch};
use testkit::logged::Logged;

const PERIOD: Duration = Duration::from_secs(20);
const URL: &str = "http://user:password@pods.example/list?token=secret";

/// A source that polls [`URL`].
struct Bench {
    web: Arc<MemoryHttp>,
    files: Arc<MemoryFiles>,
    pods: PodSetWatch,
    refusals: RefusalWatch,
    copies: CopyWatch,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        Self::starting(Arc::default(), Arc::default())
    }

    fn starting(web: Arc<MemoryHttp>, files: Arc<MemoryFiles>) -> Self {
        let settings = HttpSourceSettings {
            url: URL.into(),
            headers: Headers(vec![("Authorization".into(), vec!["Bearer hidden".into()])]),
            period: PERIOD,
            node_name: "node".into(),
            last_good: "/state".into(),
            clock: Arc::new(VirtualClock::new()),
            support: Arc::new(NoVolumes),
        };
        let (source, SourceWatch { pods, refusals, copies, .. }) =
            http_source(settings, Arc::clone(&web) as _, Arc::clone(&files) as _);
        let copies = copies.expect("the source stores copies");
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(source.run(stop.clone()));
        Self { web, files, pods, refusals, copies, stop, tasks }
    }

    /// Stops the source and starts another one with the same server and disk.
    async fn restart(mut self) -> Self {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        Self::starting(self.web, self.files)
    }

    /// The pod names of the next published set.
    async fn next_set(&mut self) -> Vec<String> {
        timeout(PERIOD * 2, self.pods.changed()).await.expect("no set is published").unwrap();
        let pods = self.pods.borrow_and_update().clone().expect("a published set");
        pods.iter().map(|pod| podspec::view::pod_name(pod).to_string()).collect()
    }

    async fn expect_no_set(&mut self) {
        let changed = timeout(PERIOD * 3 + PERIOD / 4, self.pods.changed()).await;
        assert!(changed.is_err(), "{:?}", self.pods.borrow().as_ref().map(|pods| pods.len()));
    }
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: main, image: \"x:1\"}}]}}\n"
    )
}

fn pods(names: &[&str]) -> String {
    let item = |name: &&str| {
        format!("- metadata: {{name: {name}}}\n  spec: {{containers: [{{name: c, image: x}}]}}\n")
    };
    let items: String = names.iter().map(item).collect();
    format!("apiVersion: v1\nkind: PodList\nitems:\n{items}")
}

// behaviour: SRC-50
#[tokio::test(start_paused = true)]
async fn pod_or_list_is_polled_periodically() {
    let mut bench = Bench::new();
    bench.web.put(URL, Page::ok(pod("a")));
    assert_eq!(bench.next_set().await, ["default/a-node"]);
    bench.expect_no_set().await;
    let start = Instant::now();
    bench.web.put(URL, Page::ok(pods(&["b", "c"])));
    assert_eq!(bench.next_set().await, ["default/b-node", "default/c-node"]);
    assert!(start.elapsed() <= PERIOD, "{:?}", start.elapsed());
    bench.web.put(URL, Page::ok(r#"{"apiVersion":"v1","kind":"PodList","items":[]}"#));
    assert!(bench.next_set().await.is_empty());
    let pods = bench.pods.borrow().clone().unwrap();
    assert!(pods.is_empty());
}

// behaviour: SRC-50
#[tokio::test(start_paused = true)]
async fn headers_are_sent_with_each_request() {
    let mut bench = Bench::new();
    bench.web.put(URL, Page::ok(pod("a")));
    bench.next_set().await;
    bench.expect_no_set().await;
    let requested = bench.web.request_headers(URL);
    assert_eq!(requested.len(), 4);
    assert!(requested.iter().all(|Headers(all)| all[0].1 == ["Bearer hidden"]), "{requested:?}");
}

// behaviour: SRC-64
#[tokio::test(start_paused = true)]
async fn first_seen_annotation_is_set_and_is_not_a_change() {
    let mut bench = Bench::new();
    let seen = |bench: &Bench, index: usize| {
        let pods = bench.pods.borrow().clone().unwrap();
        pods[index].metadata.annotations.clone().unwrap()[podspec::annotations::CONFIG_SEEN].clone()
    };
    bench.web.put(URL, Page::ok(pods(&["a"])));
    bench.next_set().await;
    let first = seen(&bench, 0);
    bench.web.put(URL, Page::ok(pods(&["a"]) + "# another text\n"));
    bench.expect_no_set().await;
    bench.web.put(URL, Page::ok(pods(&["a", "b"])));
    bench.next_set().await;
    assert_eq!(seen(&bench, 0), first);
    assert_ne!(seen(&bench, 1), first);
}

// behaviour: SRC-51
#[tokio::test(start_paused = true)]
async fn empty_body_is_an_empty_set() {
    let mut bench = Bench::new();
    bench.web.put(URL, Page::ok(""));
    assert!(bench.next_set().await.is_empty());
    bench.web.put(URL, Page::ok(pod("a")));
    assert_eq!(bench.next_set().await, ["default/a-node"]);
    bench.web.put(URL, Page::ok(""));
    assert!(bench.next_set().await.is_empty());
    // After a restart, too, while the server is unreachable.
    bench.web.remove(URL);
    let mut bench = bench.restart().await;
    assert!(bench.next_set().await.is_empty());
}

fn bad_pages() -> Vec<Page> {
    vec![
        Page::Silence,
        Page::Answer(404, pod("other").into()),
        Page::Answer(500, Vec::new()),
        Page::Redirect(URL.to_owned()),
        Page::ok("kind: Pod\nspec: ["),
        Page::ok(pods(&["a", "B_"])),
        Page::ok(" \n"),
        Page::ok([0xff, 0xfe]),
        Page::ok(vec![b'#'; podspec::MAX_MANIFEST_BYTES + 1]),
    ]
}

// behaviour: SRC-52
#[tokio::test(start_paused = true)]
async fn bad_response_keeps_the_last_good_set_and_is_logged_once() {
    for page in bad_pages() {
        let mut bench = Bench::new();
        bench.web.put(URL, Page::ok(pod("a")));
        assert_eq!(bench.next_set().await, ["default/a-node"]);
        let logged = Logged::new();
        bench.web.put(URL, page.clone());
        bench.expect_no_set().await;
        assert_eq!(logged.warnings().len(), 1, "{page:?}");
        let refusals = bench.refusals.borrow().clone();
        assert!(refusals.len() == 1 && refusals[0].last_good_stays, "{page:?}: {refusals:?}");
        assert!(
            refusals.iter().all(|refusal| !refusal.manifest.contains("hidden")),
            "{refusals:?}"
        );
        bench.web.put(URL, Page::ok(pod("a")));
        bench.expect_no_set().await;
        assert!(bench.refusals.borrow().is_empty(), "{page:?}");
        bench.web.put(URL, Page::ok(pod("b")));
        assert_eq!(bench.next_set().await, ["default/b-node"]);
    }
}

// behaviour: SRC-52
#[tokio::test(start_paused = true)]
async fn last_good_set_survives_a_restart() {
    for page in bad_pages() {
        let mut bench = Bench::new();
        bench.web.put(URL, Page::ok(pod("old")));
        bench.next_set().await;
        bench.web.put(URL, Page::ok(pods(&["a", "b"])));
        assert_eq!(bench.next_set().await.len(), 2);
        let uids = |bench: &Bench| {
            let pods = bench.pods.borrow().clone().unwrap();
            pods.iter().map(|pod| podspec::view::uid(pod)).collect::<Vec<_>>()
        };
        let before = uids(&bench);
        bench.web.put(URL, page);
        let mut bench = bench.restart().await;
        assert_eq!(bench.next_set().await, ["default/a-node", "default/b-node"]);
        assert_eq!(uids(&bench), before);
        bench.web.put(URL, Page::ok(pod("c")));
        assert_eq!(bench.next_set().await, ["default/c-node"]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_before_the_first_response() {
    let mut bench = Bench::new();
    bench.expect_no_set().await;
    assert!(bench.pods.borrow().is_none());
    bench.web.put(URL, Page::ok(pod("a")));
    assert_eq!(bench.next_set().await, ["default/a-node"]);
}

#[tokio::test(start_paused = true)]
async fn request_times_out_after_ten_seconds_and_is_retried() {
    let mut bench = Bench::new();
    bench.web.put(URL, Page::Silence);
    let start = Instant::now();
    sleep(Duration::from_secs(5)).await;
    bench.web.put(URL, Page::ok(pod("a")));
    assert_eq!(bench.next_set().await, ["default/a-node"]);
    assert_eq!(start.elapsed().as_secs(), (TIMEOUT + PERIOD).as_secs());
}

// behaviour: SRC-66
#[tokio::test(start_paused = true)]
async fn unstored_set_is_not_replaced_by_an_older_one_after_restart() {
    let mut bench = Bench::new();
    bench.web.put(URL, Page::ok(pod("a")));
    bench.next_set().await;
    let names = bench.files.list("/state".as_ref()).await.unwrap();
    let draft = format!("/state/{}", draft_of(&names[0]));
    bench.files.fail(&draft, ErrorKind::StorageFull);
    bench.web.put(URL, Page::ok(pod("b")));
    assert_eq!(bench.next_set().await, ["default/b-node"]);
    bench.web.remove(URL);
    let mut bench = bench.restart().await;
    bench.expect_no_set().await;
    // Once there is space, it is stored again.
    bench.web.put(URL, Page::ok(pod("b")));
    assert_eq!(bench.next_set().await, ["default/b-node"]);
    bench.files.repair(&draft);
    bench.expect_no_set().await;
    bench.web.remove(URL);
    let mut bench = bench.restart().await;
    assert_eq!(bench.next_set().await, ["default/b-node"]);
}

impl Bench {
    async fn published(&mut self) -> Vec<String> {
        self.next_set().await
    }

    async fn unchanged(&mut self) {
        self.expect_no_set().await;
    }
}

/// Two pods, of which the node cannot run the second.
fn half_supported() -> String {
    pods(&["a", "b"]).replace("{name: b}\n  spec: {", "{name: b}\n  spec: {volumes: [{name: v}], ")
}

// behaviour: SRC-67
#[tokio::test(start_paused = true)]
async fn unsupported_version_of_a_pod_keeps_the_last_good_set_across_restarts() {
    let mut bench = Bench::new();
    bench.web.put(URL, Page::ok(pods(&["a", "b"])));
    assert_eq!(bench.published().await.len(), 2);
    let before = bench.pods.borrow().clone();
    bench.web.put(URL, Page::ok(half_supported()));
    bench.unchanged().await;
    let refused = bench.refusals.borrow().to_vec();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].message, "default/b-node: not supported: spec.volumes");
    assert!(refused[0].last_good_stays);
    let mut bench = bench.restart().await;
    assert_eq!(bench.published().await.len(), 2);
    let uids = |pods: &Option<PodList>| -> Vec<_> {
        pods.iter().flat_map(|pods| pods.iter()).map(|pod| podspec::view::uid(pod)).collect()
    };
    let after = bench.pods.borrow().clone();
    assert_eq!(uids(&after), uids(&before));
    assert_eq!(bench.copies.borrow().len(), 2);
    bench.web.put(URL, Page::ok(pods(&["a"])));
    assert_eq!(bench.published().await, ["default/a-node"]);
    assert!(bench.copies.borrow().is_empty());
    // A pod that replaces nothing is rejected by itself.
    bench.web.put(URL, Page::ok(half_supported()));
    assert_eq!(bench.published().await.len(), 2);
}

// behaviour: SRC-53
#[tokio::test(start_paused = true)]
async fn secrets_are_never_logged() {
    let logged = Logged::new();
    for page in [Page::ok(pod("a")), Page::ok("")].into_iter().chain(bad_pages()) {
        let mut bench = Bench::new();
        bench.web.put(URL, page);
        timeout(PERIOD * 2, bench.pods.changed()).await.ok();
        bench.web.remove(URL);
        bench.files.fail("/state", ErrorKind::PermissionDenied);
        timeout(PERIOD * 2, bench.pods.changed()).await.ok();
    }
    let text = logged.text();
    assert!(text.contains("http://pods.example/list"), "{text}");
    for secret in ["hidden", "Bearer", "password", "secret", "token"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[test]
fn url_is_shown_without_secrets() {
    let rows = [
        ("http://a/b", "http://a/b"),
        ("https://u:p@a:1/b?c#d", "https://a:1/b"),
        ("http://u:p@@a", "http://a"),
        ("http://a?token=x", "http://a"),
        ("http://a/b@c", "http://a/b@c"),
        ("secret", "(not a URL)"),
    ];
    for (url, shown) in rows {
        assert_eq!(without_secrets(url), shown, "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn source_stops_and_closes_its_channel_when_cancelled() {
    let mut bench = Bench::new();
    bench.web.put(URL, Page::Silence);
    bench.stop.cancel();
    timeout(Duration::from_secs(1), bench.tasks.join_next()).await.unwrap().unwrap().unwrap();
    bench.pods.changed().await.unwrap_err();
}
