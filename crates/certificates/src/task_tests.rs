//! Histories in virtual time.
#![expect(
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests start tasks, and counters are small numbers"
)]

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::ports::clock::WallClock;
use model::ports::cluster::ApiError;
use model::ports::files::HostFiles as _;
use model::signing::SigningState;
use prometheus::Registry;
use testkit::clock::VirtualClock;
use testkit::events::KeptNodeEvents;
use testkit::files::MemoryFiles;
use testkit::signing::MemorySigningRequests;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::decide::{AddressKind, CertificateFacts, CertificatePair, NodeAddress, Role, Template};
use crate::test_signer::{Authority, pair};
use crate::{
    CertificateMetrics, CertificateStore, CertificateTask, CertificateTaskParts, ClientServers,
    IdentityLost, NodeCertificate,
};

const CURRENT: &str = "/pki/kubelet-client-current.pem";
const KEY: &str = "/pki/kubelet-client.key.tmp";
const HOUR: Duration = Duration::from_hours(1);

/// A node with its files, and an API server with an authority.
struct Node {
    role: Role,
    files: Arc<MemoryFiles>,
    clock: Arc<dyn WallClock>,
    own: MemorySigningRequests,
    bootstrap: MemorySigningRequests,
    events: Arc<KeptNodeEvents>,
    authority: Authority,
    templates: watch::Sender<Option<Template>>,
    certificate: NodeCertificate,
    registry: Registry,
}

impl Node {
    fn new(role: Role) -> Self {
        Self {
            role,
            files: Arc::new(MemoryFiles::new()),
            clock: Arc::new(VirtualClock::new()),
            own: MemorySigningRequests::default(),
            bootstrap: MemorySigningRequests::default(),
            events: Arc::default(),
            authority: Authority::new("ca"),
            templates: watch::Sender::new(Some(Template::client("n1"))),
            certificate: NodeCertificate::default(),
            registry: Registry::new(),
        }
    }

    fn store(&self) -> CertificateStore {
        CertificateStore::new(Arc::clone(&self.files) as _, "/pki".into(), self.role)
    }

    fn task(&self, has_bootstrap: bool) -> CertificateTask {
        let clock = Arc::clone(&self.clock);
        let metrics =
            CertificateMetrics::new(&self.registry, self.role, &self.certificate, clock).ok();
        CertificateTask::new(CertificateTaskParts {
            role: self.role,
            servers: ClientServers {
                node: Arc::new(self.own.clone()),
                bootstrap: has_bootstrap.then(|| Arc::new(self.bootstrap.clone()) as _),
            },
            store: self.store(),
            templates: self.templates.subscribe(),
            is_forced: false,
            clock: Arc::clone(&self.clock),
            events: Arc::clone(&self.events) as _,
            reload: Some(Arc::new(self.own.clone())),
            metrics,
            certificate: self.certificate.clone(),
        })
    }

    fn start(&self, has_bootstrap: bool) -> (Running, CancellationToken) {
        let stop = CancellationToken::new();
        (tokio::spawn(self.task(has_bootstrap).run(stop.clone())), stop)
    }

    /// Approves the undecided request of a server, and signs it.
    async fn approve(&self, server: &MemorySigningRequests, life: Duration) {
        let request = server.wait_pending().await;
        let issued = self.authority.answer(&request, self.clock.now(), life);
        server.decide(&request.id.name, issued);
    }

    /// Waits until the certificate in use is another one.
    async fn renewed(&self) -> CertificatePair {
        let mut facts = self.certificate.facts();
        let old = self.store().current().await.unwrap().map(|pair| pair.facts);
        let is_new = |facts: &Option<Arc<CertificateFacts>>| {
            facts.is_some() && facts.as_deref() != old.as_ref()
        };
        facts.wait_for(is_new).await.expect("the sender is here");
        self.store().current().await.unwrap().unwrap()
    }

    fn put(&self, pair: &CertificatePair) {
        self.files.write("/pki/kubelet-client-old.pem", pair.pem.clone());
        self.files.put_link(CURRENT, "/pki/kubelet-client-old.pem");
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metric = &family.unwrap_or_else(|| panic!("no {name}")).get_metric()[0];
        metric.get_gauge().get_value() + metric.get_counter().get_value()
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.events.all().iter().map(|event| event.reason).collect()
    }
}

type Running = JoinHandle<Result<(), IdentityLost>>;

const TTL: &str = "kubelet_certificate_manager_client_ttl_seconds";
const ERRORS: &str = "kubelet_certificate_manager_client_expiration_renew_errors";

// behaviour: CERT-1, CERT-4, CERT-18
#[tokio::test(start_paused = true)]
async fn node_without_certificate_bootstraps_and_then_rotates_its_certificate() {
    let node = Node::new(Role::Client);
    let (_task, _stop) = node.start(true);
    let first = node.bootstrap.wait_pending().await;
    assert!(first.id.name.starts_with("node-csr-"), "{}", first.id.name);
    assert!(node.metric(TTL).is_infinite());
    tokio::join!(node.approve(&node.bootstrap, 24 * HOUR), node.renewed());
    assert_eq!(node.files.names("/pki").len(), 2, "{:?}", node.files.names("/pki"));
    let names = node.files.names("/pki");
    let file = names.iter().find(|name| name.contains("2026-")).unwrap();
    assert_eq!(node.files.mode(format!("/pki/{file}")).map(|mode| mode & 0o777), Some(0o600));
    assert_eq!((node.own.reloads(), node.files.content(KEY)), (1, None));
    assert!((node.metric(TTL) - 86_400.0).abs() < 60.0);

    let begun = node.clock.now();
    let request = node.own.wait_pending().await;
    let hours = node.clock.now().duration_since(begun).as_secs() / 3600;
    assert!((16..=21).contains(&hours), "{hours}");
    assert!(request.id.name.starts_with("csr-"), "{}", request.id.name);
    let old = node.store().current().await.unwrap();
    tokio::join!(node.approve(&node.own, 24 * HOUR), node.renewed());
    assert_ne!(node.store().current().await.unwrap(), old);
    assert_eq!((node.own.reloads(), node.metric(ERRORS) as u32), (2, 0));
}

// behaviour: CERT-6
#[tokio::test(start_paused = true)]
async fn restart_while_the_first_request_waits_uses_the_same_request_and_key() {
    let node = Node::new(Role::Client);
    let (task, _stop) = node.start(true);
    let first = node.bootstrap.wait_pending().await;
    task.abort();
    let (_task, _stop) = node.start(true);
    tokio::time::sleep(HOUR).await;
    assert_eq!(node.bootstrap.created().len(), 1);
    assert_eq!(node.bootstrap.wait_pending().await.id, first.id);
    tokio::join!(node.approve(&node.bootstrap, HOUR), node.renewed());
}

// behaviour: CERT-7
#[tokio::test(start_paused = true)]
async fn approval_after_twenty_hours_counts() {
    let node = Node::new(Role::Client);
    let (task, _stop) = node.start(true);
    node.bootstrap.wait_pending().await;
    tokio::time::sleep(20 * HOUR).await;
    assert_eq!(node.bootstrap.created().len(), 1);
    assert!(!task.is_finished(), "a first approval may be late");
    tokio::join!(node.approve(&node.bootstrap, HOUR), node.renewed());
}

// behaviour: CERT-10
#[tokio::test(start_paused = true)]
async fn denied_and_deleted_requests_are_made_again_with_a_new_key() {
    let node = Node::new(Role::Client);
    let (_task, _stop) = node.start(true);
    let first = node.bootstrap.wait_pending().await;
    let (reason, message) = ("Policy".to_owned(), "unknown node".to_owned());
    let denied = SigningState::Refused { has_failed: false, reason, message };
    node.bootstrap.decide(&first.id.name, denied);
    let second = node.bootstrap.wait_pending().await;
    assert_ne!(second.id.name, first.id.name);
    node.bootstrap.delete(&second.id.name);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(node.bootstrap.wait_pending().await.id.name, second.id.name, "the key is good");
    assert_eq!(node.metric(ERRORS) as u32, 2);
    let refused = node.events.all().remove(0);
    assert!(refused.message.contains("was denied, reason: Policy"), "{}", refused.message);
    tokio::join!(node.approve(&node.bootstrap, HOUR), node.renewed());
}

// behaviour: CERT-11
#[tokio::test(start_paused = true)]
async fn full_disk_keeps_the_old_certificate_and_stores_the_issued_one_later() {
    let node = Node::new(Role::Client);
    let old = pair(&Template::client("n1"), node.clock.now(), 10 * HOUR);
    node.put(&old);
    let (_task, _stop) = node.start(false);
    node.own.wait_pending().await;
    let next = |seconds: u64| {
        let time = node.clock.now() + Duration::from_secs(seconds);
        let name = time.strftime("/pki/kubelet-client-%Y-%m-%d-%H-%M-%S.pem").to_string();
        node.files.fail(Path::new(&name), ErrorKind::StorageFull);
    };
    (0..=40).for_each(next);
    node.approve(&node.own, 10 * HOUR).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(node.store().current().await.unwrap().unwrap(), old);
    assert!(node.metric(ERRORS) > 0.0);
    let new = node.renewed().await;
    assert!(new.facts.not_after > old.facts.not_after);
    assert_eq!(node.own.created().len(), 1, "no other request");
}

// behaviour: CERT-5, CERT-12
#[tokio::test(start_paused = true)]
async fn expired_certificate_is_replaced_by_bootstrap_or_ends_the_agent() {
    let node = Node::new(Role::Client);
    node.put(&pair(&Template::client("n1"), node.clock.now() - 2 * HOUR, HOUR));
    let (_task, _stop) = node.start(true);
    tokio::join!(node.approve(&node.bootstrap, HOUR), node.renewed());
    assert_eq!(node.own.created().len(), 0);

    let alone = Node::new(Role::Client);
    alone.put(&pair(&Template::client("n1"), alone.clock.now() - 2 * HOUR, HOUR));
    for _ in 0..100 {
        alone.own.fail_next(ApiError::Refused { code: 401, message: "Unauthorized".to_owned() });
    }
    let begun = alone.clock.now();
    let (task, _stop) = alone.start(false);
    let error = task.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("no valid client certificate"), "{error}");
    let minutes = alone.clock.now().duration_since(begun).as_mins();
    assert_eq!(minutes, 5);
    assert_eq!(alone.reasons()[0], "CertificateExpired");
}

// behaviour: CERT-5
#[tokio::test(start_paused = true)]
async fn certificate_that_a_server_with_another_authority_rejects_is_replaced_by_bootstrap() {
    let node = Node::new(Role::Client);
    node.put(&pair(&Template::client("n1"), node.clock.now(), 10 * HOUR));
    node.own.fail_next(ApiError::Refused { code: 401, message: "Unauthorized".to_owned() });
    let (_task, _stop) = node.start(true);
    let ((), new) = tokio::join!(node.approve(&node.bootstrap, 10 * HOUR), node.renewed());
    assert!(new.facts.not_after > node.clock.now() + 9 * HOUR);
}

/// A clock that can be set.
#[derive(Debug)]
struct SetClock(VirtualClock, watch::Sender<Duration>);

impl WallClock for SetClock {
    fn now(&self) -> Timestamp {
        self.0.now() + *self.1.borrow()
    }
}

// behaviour: CERT-13
#[tokio::test(start_paused = true)]
async fn clock_that_jumps_ahead_makes_the_rotation_due_within_a_minute() {
    let mut node = Node::new(Role::Client);
    let ahead = watch::Sender::new(Duration::ZERO);
    node.clock = Arc::new(SetClock(VirtualClock::new(), ahead.clone()));
    node.put(&pair(&Template::client("n1"), node.clock.now(), 100 * HOUR));
    let (_task, _stop) = node.start(false);
    tokio::time::sleep(HOUR).await;
    assert_eq!(node.own.created().len(), 0);
    ahead.send_replace(95 * HOUR);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(node.own.created().len(), 1);
}

// behaviour: CERT-14, CERT-15, CERT-16
#[tokio::test(start_paused = true)]
async fn serving_certificate_follows_the_addresses_and_its_request_is_named_in_an_event() {
    let node = Node::new(Role::Serving);
    let template = |ip: &str| {
        let address = NodeAddress { kind: AddressKind::Ip, address: ip.to_owned() };
        Template::serving("n1", &[address], false)
    };
    node.templates.send_replace(None);
    let (_task, _stop) = node.start(false);
    tokio::time::sleep(HOUR).await;
    assert_eq!(node.own.created().len(), 0, "the node has no address yet");
    node.templates.send_replace(template("10.0.0.1"));
    let first = node.own.wait_pending().await;
    node.templates.send_replace(template("10.0.0.2"));
    node.own.changed().await;
    assert_eq!(node.own.created().len(), 2, "the first one would not do");
    tokio::time::sleep(Duration::from_secs(11)).await;
    let events = node.events.all();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert!(event.message.ends_with("kubectl certificate approve csr-1"), "{}", event.message);
    assert!(!event.message.contains(&first.id.name));
    node.own.delete(&first.id.name);
    let ((), pair) = tokio::join!(node.approve(&node.own, 100 * HOUR), node.renewed());
    assert!(pair.facts.ips.contains(&"10.0.0.2".parse().unwrap()));
    node.templates.send_replace(template("10.0.0.3"));
    node.own.wait_pending().await;
    tokio::join!(node.approve(&node.own, 100 * HOUR), node.renewed());
    let rotated = node.registry.gather();
    let ages = rotated.iter().find(|one| one.name().ends_with("server_rotation_seconds"));
    assert_eq!(ages.unwrap().get_metric()[0].get_histogram().get_sample_count(), 1);
}

// behaviour: CERT-2
#[tokio::test(start_paused = true)]
async fn bootstrap_without_rotation_waits_until_the_certificate_is_stored() {
    let node = Node::new(Role::Client);
    let (issued, ()) =
        tokio::join!(node.task(true).issue_once(HOUR), node.approve(&node.bootstrap, HOUR));
    issued.unwrap();
    assert!(node.store().current().await.unwrap().is_some());

    let other = Node::new(Role::Client);
    let error = other.task(true).issue_once(HOUR).await.unwrap_err();
    assert_eq!(error.to_string(), "no client certificate was issued within 3600s");
}

// behaviour: CERT-4
#[tokio::test]
async fn rotation_of_a_killed_kubelet_is_finished() {
    let node = Node::new(Role::Client);
    let stored = pair(&Template::client("n1"), node.clock.now(), HOUR);
    node.files.write("/pki/kubelet-client-2026-01-01-00-00-00.pem", stored.pem.clone());
    let target = "/pki/kubelet-client-2026-01-01-00-00-00.pem";
    node.files.put_link("/pki/kubelet-client-updated.pem", target);
    assert_eq!(node.store().current().await.unwrap(), Some(stored.clone()));
    let current = node.files.read(Path::new(CURRENT), 1 << 20).await.unwrap();
    assert_eq!(current, stored.pem.into_bytes());

    node.files.write(target, "half a file");
    let error = node.store().current().await.unwrap_err().to_string();
    assert_eq!(error, "use the certificate of /pki/kubelet-client-current.pem");
}
