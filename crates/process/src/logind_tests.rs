//! The adapter with a fake logind on a private bus.

use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use testkit::contract::login::login_contract;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, connection, interface};

use super::*;

/// A message bus, which ends with the test.
struct Bus {
    daemon: Child,
    address: String,
}

impl Bus {
    fn start() -> Self {
        let mut command = Command::new("dbus-daemon");
        command.args(["--session", "--nofork", "--nopidfile", "--print-address=1"]);
        let mut daemon = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { daemon, address: address.trim().to_owned() }
    }

    fn bus(&self) -> SystemBus {
        SystemBus::at(&self.address)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.daemon.kill().ok();
        self.daemon.wait().ok();
    }
}

/// What the fake logind was asked for.
#[derive(Debug, Default)]
struct Asked {
    locks: Vec<String>,
    signals: Vec<String>,
}

struct FakeLogind {
    preparing: bool,
    asked: Arc<Mutex<Asked>>,
    /// The other ends of the locks: they report the end of a lock.
    readers: Arc<Mutex<Vec<std::io::PipeReader>>>,
}

#[interface(name = "org.freedesktop.login1.Manager")]
impl FakeLogind {
    fn inhibit(
        &mut self,
        what: &str,
        who: &str,
        why: &str,
        mode: &str,
    ) -> zbus::fdo::Result<zbus::OwnedFd> {
        if self.preparing {
            let message = "The operation inhibition has been requested for is already running";
            return Err(zbus::fdo::Error::Failed(message.to_owned()));
        }
        self.asked.lock().unwrap().locks.push(format!("{what}|{who}|{why}|{mode}"));
        let (reader, writer) = std::io::pipe().unwrap();
        self.readers.lock().unwrap().push(reader);
        Ok(OwnedFd::from(writer).into())
    }

    #[expect(clippy::unused_self, reason = "a property of an object")]
    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn longest(&self) -> u64 {
        5_000_000
    }

    #[zbus(property)]
    fn preparing_for_shutdown(&self) -> bool {
        self.preparing
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(emitter: &SignalEmitter<'_>, start: bool) -> zbus::Result<()>;
}

struct FakeSystemd(Arc<Mutex<Asked>>);

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl FakeSystemd {
    fn kill_unit(&self, name: &str, who: &str, signal: i32) {
        self.0.lock().unwrap().signals.push(format!("{name}|{who}|{signal}"));
    }
}

struct Fake {
    bus: Bus,
    server: Connection,
    asked: Arc<Mutex<Asked>>,
    readers: Arc<Mutex<Vec<std::io::PipeReader>>>,
}

impl Fake {
    async fn start() -> Self {
        let bus = Bus::start();
        let (asked, readers) = (Arc::<Mutex<Asked>>::default(), Arc::default());
        let logind = FakeLogind {
            preparing: false,
            asked: Arc::clone(&asked),
            readers: Arc::clone(&readers),
        };
        let server = connection::Builder::address(bus.address.as_str())
            .name(LOGIND.service)
            .name(SYSTEMD.service)
            .serve_at(LOGIND.path, logind)
            .serve_at(SYSTEMD.path, FakeSystemd(Arc::clone(&asked)))
            .build()
            .await
            .unwrap();
        Self { bus, server, asked, readers }
    }

    /// Begins or cancels a shutdown.
    async fn prepare(&self, begins: bool) {
        let logind = self.server.object_server().interface::<_, FakeLogind>(LOGIND.path);
        let logind = logind.await.unwrap();
        logind.get_mut().await.preparing = begins;
        FakeLogind::prepare_for_shutdown(logind.signal_emitter(), begins).await.unwrap();
    }
}

// behaviour: SHD-1, SHD-4
#[tokio::test]
async fn logind_passes_the_contract() {
    let fake = Fake::start().await;
    let login = Logind::new(fake.bus.bus(), None);
    login_contract(&login, async |begins| fake.prepare(begins).await).await.unwrap();
    let asked = fake.asked.lock().unwrap();
    let lock = "shutdown|kubelet|Kubelet needs time to handle node shutdown|delay";
    assert_eq!(asked.locks, [lock, lock]);
    assert_eq!(asked.signals, ["systemd-logind.service|all|1"]);
}

/// Waits until a lock has no descriptor any more.
async fn ended(mut reader: std::io::PipeReader) {
    let read = move || std::io::copy(&mut reader, &mut std::io::sink());
    let end = tokio::task::spawn_blocking(read);
    tokio::time::timeout(Duration::from_secs(20), end).await.unwrap().unwrap().unwrap();
}

// behaviour: SHD-8
#[tokio::test]
async fn released_lock_is_closed() {
    let fake = Fake::start().await;
    let login = Logind::new(fake.bus.bus(), None);
    let lock = login.delay_shutdown().await.unwrap();
    let reader = fake.readers.lock().unwrap().remove(0);
    lock.release();
    ended(reader).await;
}

// behaviour: SHD-10
#[tokio::test]
async fn lock_of_an_earlier_agent_is_used_again() {
    let fake = Fake::start().await;
    let (reader, writer) = std::io::pipe().unwrap();
    let number = writer.as_raw_fd();
    let login = Logind::new(fake.bus.bus(), Some(writer.into()));
    fake.prepare(true).await;
    assert!(login.is_shutting_down().await.unwrap());
    let lock = login.delay_shutdown().await.unwrap();
    assert_eq!(fake.asked.lock().unwrap().locks, [""; 0], "descriptor {number} is the lock");
    lock.release();
    ended(reader).await;
    assert!(login.delay_shutdown().await.is_err(), "it is used once");
}

// behaviour: SHD-3
#[tokio::test]
async fn lost_bus_ends_the_watch_and_is_connected_again() {
    let mut fake = Fake::start().await;
    let login = Logind::new(fake.bus.bus(), None);
    let mut watch = login.watch().await.unwrap();
    fake.bus.daemon.kill().unwrap();
    fake.bus.daemon.wait().unwrap();
    let end = tokio::time::timeout(Duration::from_secs(20), watch.next()).await.unwrap();
    assert_eq!(end, None);
    let error = login.is_shutting_down().await.unwrap_err();
    assert!(
        error.to_string().starts_with("ask the login manager to report shutdowns: "),
        "{error}"
    );
}
