//! Observes state without notifications: the machine's addresses, the images, the runtime's version.

use std::sync::Arc;
use std::time::Duration;

use model::ports::addresses::Addresses;
use model::ports::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::decide::addresses::{addresses, needs_lookup};
use crate::decide::facts::Facts;
use crate::decide::images::images;
use crate::decide::settings::Settings;
use crate::ports::NodePorts;
use crate::runtime_check::update_version;

/// The period of observations.
const PERIOD: Duration = Duration::from_secs(30);
/// How long further image changes are gathered: images change in bursts.
const BURST: Duration = Duration::from_secs(1);
/// The timeout of an observation.
const LONGEST: Duration = Duration::from_secs(20);

/// Observes periodically, and on request.
#[derive(Debug)]
pub struct Observer {
    settings: Arc<Settings>,
    addresses: Arc<dyn Addresses>,
    runtime: Runtime,
    facts: watch::Sender<Facts>,
    again: Arc<Notify>,
}

impl Observer {
    pub(crate) fn new(
        settings: Arc<Settings>,
        ports: &NodePorts,
        facts: watch::Sender<Facts>,
        again: Arc<Notify>,
    ) -> Self {
        let (addresses, runtime) = (Arc::clone(&ports.addresses), ports.runtime.clone());
        Self { settings, addresses, runtime, facts, again }
    }

    /// Observes until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.observe_periodically() => {}
        }
    }

    async fn observe_periodically(&self) {
        loop {
            self.find_addresses().await;
            self.list_images().await;
            self.facts.send_if_modified(|facts| !std::mem::replace(&mut facts.was_looked_at, true));
            // Image changes must not delay the other observations.
            let next = Instant::now() + PERIOD;
            while timeout_at(next, self.again.notified()).await.is_ok() {
                sleep(BURST).await;
                self.list_images().await;
            }
            update_version(&*self.runtime.info, &self.facts).await;
        }
    }

    async fn find_addresses(&self) {
        let own = &self.settings.own;
        let name = needs_lookup(&own.ips, &own.hostname).then_some(own.name.as_str());
        let Ok(found) = timeout(LONGEST, self.addresses.find(name)).await else {
            warn!("Timed out determining the addresses of the node");
            return;
        };
        let found = addresses(&own.ips, &own.hostname, &found);
        let mut failed = None;
        self.facts.send_if_modified(|facts| {
            let found = Some(found);
            if facts.addresses == found {
                return false;
            }
            failed = found.as_ref().and_then(|found| found.as_ref().err().cloned());
            facts.addresses = found;
            true
        });
        if let Some(error) = failed {
            warn!(error, "Cannot determine node addresses");
        }
    }

    /// Lists the images. The next status update publishes changes; they are not urgent.
    async fn list_images(&self) {
        let listed = match timeout(LONGEST, self.runtime.images.list_images()).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => return debug!(%error, "Cannot list images for the node status"),
            Err(_) => return debug!("Timed out listing images for the node status"),
        };
        let listed = Arc::new(images(listed, self.settings.most_images));
        self.facts.send_if_modified(|facts| {
            facts.images = Some(listed);
            false
        });
    }
}
