//! systemd over D-Bus.

use async_trait::async_trait;
use dbus::{Object, PATIENCE, SystemBus};
use futures_util::StreamExt as _;
use model::ports::cgroups::CgroupError;
#[cfg(test)]
use zbus::Connection;
use zbus::proxy::SignalStream;
use zbus::{OwnedObjectPath, Proxy, Variant};

use super::Units;
use super::properties::{Property, Setting};

const MANAGER: Object = Object {
    service: "org.freedesktop.systemd1",
    path: "/org/freedesktop/systemd1",
    interface: "org.freedesktop.systemd1.Manager",
};

/// systemd's errors when there is nothing to do.
const SETTLED: [&str; 2] =
    ["org.freedesktop.systemd1.UnitExists", "org.freedesktop.systemd1.NoSuchUnit"];

/// systemd's error for a second subscription to job signals.
const SUBSCRIBED: &str = "org.freedesktop.systemd1.AlreadySubscribed";

/// The signal of a job's end: its number, path, unit and result.
type JobRemoved = (u32, OwnedObjectPath, String, String);

/// Name and value.
type DbusProperties<'a> = Vec<(&'a str, Variant<'a>)>;

/// Properties of auxiliary units, which are never used.
type Others<'a> = Vec<(&'a str, DbusProperties<'a>)>;

/// The service manager of this machine. Connects on first use, and again after a lost connection.
#[derive(Debug, Default)]
pub struct Manager {
    bus: SystemBus,
}

impl Manager {
    /// The manager on the system's bus.
    pub fn system() -> Self {
        Self::default()
    }

    /// The manager at the other end of a connection.
    #[cfg(test)]
    pub(crate) fn connected(connection: Connection) -> Self {
        Self { bus: SystemBus::connected(connection) }
    }

    /// Sends a request, on a new connection if the old one is lost. Returns the result of its job, if there is
    /// one.
    async fn ask(&self, unit: &str, request: Request) -> Result<Option<String>, CgroupError> {
        let failed = |message: String| CgroupError::Systemd {
            operation: request.operation(),
            unit: unit.to_owned(),
            message,
        };
        let mut is_first = true;
        loop {
            let answer = tokio::time::timeout(PATIENCE, self.send(unit, &request)).await;
            match answer.map_err(|_| failed("no answer".to_owned()))? {
                Err(zbus::Error::InputOutput(_)) if is_first => {
                    self.bus.disconnect().await;
                    is_first = false;
                }
                answer => return answer.map_err(|error| failed(error.to_string())),
            }
        }
    }

    async fn send(&self, unit: &str, request: &Request) -> zbus::Result<Option<String>> {
        let proxy = self.bus.proxy(MANAGER).await?;
        match request {
            Request::Start(properties) => {
                let mut ends = ends(&proxy).await?;
                let body = (unit, "replace", dbus_properties(properties), Others::new());
                let job = proxy.call("StartTransientUnit", &body).await;
                ended(&mut ends, job).await
            }
            Request::Stop => {
                let mut ends = ends(&proxy).await?;
                let job = proxy.call("StopUnit", &(unit, "replace")).await;
                ended(&mut ends, job).await
            }
            Request::Set(properties) => {
                // Until the next boot.
                let runtime = true;
                let body = (unit, runtime, dbus_properties(properties));
                let () = proxy.call("SetUnitProperties", &body).await?;
                Ok(None)
            }
            Request::Reset => {
                let () = proxy.call("ResetFailedUnit", &(unit,)).await?;
                Ok(None)
            }
        }
    }

    /// Resets a failed unit.
    async fn reset(&self, unit: &str) {
        // A unit that did not fail cannot be reset.
        if let Err(error) = self.ask(unit, Request::Reset).await {
            tracing::debug!(%error, "Cannot reset unit");
        }
    }
}

/// A request to systemd.
#[derive(Debug)]
enum Request {
    Start(Vec<Property>),
    Set(Vec<Property>),
    Stop,
    Reset,
}

impl Request {
    fn operation(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Set(_) => "limit",
            Self::Stop => "stop",
            Self::Reset => "reset",
        }
    }
}

/// Receives the ends of jobs. Called before a job is requested, as it may end at once. systemd accepts one
/// subscription per connection.
async fn ends(proxy: &Proxy<'static>) -> zbus::Result<SignalStream<'static>> {
    let ends = proxy.receive_signal("JobRemoved").await?;
    match proxy.call("Subscribe", &()).await {
        Err(zbus::Error::MethodError(name, ..)) if name.as_str() == SUBSCRIBED => Ok(ends),
        subscribed => subscribed.map(|()| ends),
    }
}

/// Waits for the end of a job. There is none if nothing had to be done.
async fn ended(
    ends: &mut SignalStream<'static>,
    job: zbus::Result<OwnedObjectPath>,
) -> zbus::Result<Option<String>> {
    let job = match job {
        Err(zbus::Error::MethodError(name, ..)) if SETTLED.contains(&name.as_str()) => {
            return Ok(None);
        }
        job => job?,
    };
    while let Some(end) = ends.next().await {
        let (_, path, _, result): JobRemoved = end.body().deserialize()?;
        if path == job {
            return Ok(Some(result));
        }
    }
    Err(zbus::Error::Failure("the bus connection closed before the job ended".to_owned()))
}

fn dbus_properties(properties: &[Property]) -> DbusProperties<'_> {
    let value = |setting: &Setting| match setting.clone() {
        Setting::Flag(flag) => Variant::from(flag),
        Setting::Number(number) => Variant::from(number),
        Setting::Text(text) => Variant::from(text),
        Setting::Texts(texts) => Variant::from(texts),
        Setting::Bytes(bytes) => Variant::from(bytes),
    };
    properties.iter().map(|Property(name, setting)| (*name, value(setting))).collect()
}

#[async_trait]
impl Units for Manager {
    async fn start(&self, unit: &str, properties: Vec<Property>) -> Result<(), CgroupError> {
        let request = Request::Start(properties);
        match self.ask(unit, request).await?.as_deref() {
            None | Some("done") => Ok(()),
            Some(result) => {
                self.reset(unit).await;
                let message = format!("the job ended as {result}");
                Err(CgroupError::Systemd { operation: "start", unit: unit.to_owned(), message })
            }
        }
    }

    async fn set(&self, unit: &str, properties: Vec<Property>) -> Result<(), CgroupError> {
        self.ask(unit, Request::Set(properties)).await.map(drop)
    }

    async fn stop(&self, unit: &str) -> Result<(), CgroupError> {
        let ended = self.ask(unit, Request::Stop).await?;
        if let Some(result) = ended.filter(|result| result != "done") {
            tracing::warn!(unit, result, "Unit did not stop cleanly, continuing");
        }
        self.reset(unit).await;
        Ok(())
    }
}
