//! systemd-logind: delays shutdowns of the machine, and reports them.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dbus::{Object, SystemBus};
use futures_util::StreamExt as _;
use model::ports::login::{DelayLock, LoginError, LoginManager, ShutdownWatch};
use tracing::warn;
use zbus::Proxy;
use zbus::proxy::SignalStream;

use crate::systemd;

const LOGIND: Object = Object {
    service: "org.freedesktop.login1",
    path: "/org/freedesktop/login1",
    interface: "org.freedesktop.login1.Manager",
};

const SYSTEMD: Object = Object {
    service: "org.freedesktop.systemd1",
    path: "/org/freedesktop/systemd1",
    interface: "org.freedesktop.systemd1.Manager",
};

/// The name of the lock in the descriptor store.
const STORED_LOCK: &str = "shutdown-delay";

/// What logind shows of the lock: the kind, who holds it, why, and that it delays and does not forbid.
const LOCK: (&str, &str, &str, &str) =
    ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay");

/// The signal by which the unit of logind reads its configuration again: `SIGHUP`.
const RELOAD: (&str, &str, i32) = ("systemd-logind.service", "all", 1);

/// The login manager of this machine.
#[derive(Debug)]
pub struct Logind {
    bus: SystemBus,
    /// The lock of an earlier agent.
    stored: Mutex<Option<OwnedFd>>,
}

impl Logind {
    /// The login manager on a bus, and the lock of an earlier agent if the service manager has kept it.
    pub fn new(bus: SystemBus, stored: Option<OwnedFd>) -> Self {
        Self { bus, stored: Mutex::new(stored) }
    }

    /// The login manager of this machine.
    pub fn of_machine() -> Self {
        let stored = systemd::stored_descriptors().unwrap_or_else(|error| {
            warn!(%error, "Cannot use the descriptors that systemd stored");
            Vec::new()
        });
        let lock = stored.into_iter().find(|(name, _)| name == STORED_LOCK);
        Self::new(SystemBus::system(), lock.map(|(_, lock)| lock))
    }

    /// Releases the lock of an earlier agent: shutdowns are not delayed any more.
    pub fn release_stored(&self) {
        if let Some(lock) = self.take_stored() {
            Box::new(Lock(lock)).release();
        }
    }

    async fn ask<T, F: Future<Output = zbus::Result<T>> + Send>(
        &self,
        operation: &'static str,
        object: Object,
        request: impl FnOnce(Proxy<'static>) -> F + Send,
    ) -> Result<T, LoginError> {
        let failed = |error: &zbus::Error| LoginError { operation, message: error.to_string() };
        let proxy = self.bus.proxy(object).await.map_err(|error| failed(&error))?;
        let answer = request(proxy).await;
        if let Err(zbus::Error::InputOutput(_)) = &answer {
            self.bus.disconnect().await;
        }
        answer.map_err(|error| failed(&error))
    }

    fn take_stored(&self) -> Option<OwnedFd> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl LoginManager for Logind {
    async fn longest_delay(&self) -> Result<Duration, LoginError> {
        let read =
            |proxy: Proxy<'static>| async move { proxy.get_property("InhibitDelayMaxUSec").await };
        let microseconds = self.ask("report its longest delay", LOGIND, read).await?;
        Ok(Duration::from_micros(microseconds))
    }

    async fn reload(&self) -> Result<(), LoginError> {
        let kill = |proxy: Proxy<'static>| async move { proxy.call("KillUnit", &RELOAD).await };
        self.ask("read its configuration again", SYSTEMD, kill).await
    }

    async fn delay_shutdown(&self) -> Result<Box<dyn DelayLock>, LoginError> {
        if let Some(lock) = self.take_stored() {
            return Ok(Box::new(Lock(lock)));
        }
        let inhibit = |proxy: Proxy<'static>| async move {
            let lock: zbus::OwnedFd = proxy.call("Inhibit", &LOCK).await?;
            Ok(lock.as_fd().try_clone_to_owned()?)
        };
        let lock = self.ask("delay shutdowns", LOGIND, inhibit).await?;
        if let Err(error) = systemd::store_descriptor(STORED_LOCK, &lock) {
            warn!(%error, "Cannot leave the shutdown delay to the next agent");
        }
        Ok(Box::new(Lock(lock)))
    }

    async fn is_shutting_down(&self) -> Result<bool, LoginError> {
        let read =
            |proxy: Proxy<'static>| async move { proxy.get_property("PreparingForShutdown").await };
        self.ask("report shutdowns", LOGIND, read).await
    }

    async fn watch(&self) -> Result<Box<dyn ShutdownWatch>, LoginError> {
        let watch =
            |proxy: Proxy<'static>| async move { proxy.receive_signal("PrepareForShutdown").await };
        Ok(Box::new(Signals(self.ask("report shutdowns", LOGIND, watch).await?)))
    }
}

/// The descriptor that logind waits for: the delay ends when all its copies are closed.
#[derive(Debug)]
struct Lock(OwnedFd);

impl DelayLock for Lock {
    fn release(self: Box<Self>) {
        drop(self.0);
        if let Err(error) = systemd::drop_descriptor(STORED_LOCK) {
            warn!(%error, "Cannot remove the shutdown delay from the descriptor store");
        }
    }
}

#[derive(Debug)]
struct Signals(SignalStream<'static>);

#[async_trait]
impl ShutdownWatch for Signals {
    async fn next(&mut self) -> Option<bool> {
        loop {
            let signal = self.0.next().await?;
            match signal.body().deserialize() {
                Ok(begins) => return Some(begins),
                Err(error) => warn!(%error, "Cannot read shutdown signal of the login manager"),
            }
        }
    }
}

#[cfg(test)]
#[path = "logind_tests.rs"]
mod tests;
