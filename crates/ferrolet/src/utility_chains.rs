//! Keeps the chains that others on the machine expect (`makeIPTablesUtilChains`).

use std::sync::Arc;
use std::time::Duration;

use model::ports::packet_filter::{Family, FilterError, PacketFilter};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::utility_chains::{ALWAYS_THERE, CANARIES, FoundChains, wanted_chains};

/// How often it is looked whether they are still there.
const PERIOD: Duration = Duration::from_mins(1);

/// How long somebody who empties all tables may take, and how often it is looked whether they are done.
const FLUSH: Duration = Duration::from_secs(5);
const FLUSH_STEP: Duration = Duration::from_millis(500);

/// Makes the chains, and makes them again when somebody has emptied the tables.
pub(crate) async fn keep_chains(filter: Arc<dyn PacketFilter>, stop: CancellationToken) {
    stop.run_until_cancelled(keep(&*filter)).await;
}

async fn keep(filter: &dyn PacketFilter) {
    let mut kept = Vec::new();
    for family in [Family::V4, Family::V6] {
        match filter.has_chain(family, ALWAYS_THERE).await {
            Ok(true) => kept.push(Kept { family, is_made: false, was_said: false }),
            Ok(false) => debug!(%family, "there are no tables"),
            Err(error) => debug!(%family, %error, "the tables cannot be used"),
        }
    }
    if kept.is_empty() {
        // The agent itself needs none of this, and who does not find it cannot use it, either.
        warn!("iptables does not work here: the chain KUBE-IPTABLES-HINT is not made");
        std::future::pending::<()>().await;
    }
    loop {
        for one in &mut kept {
            one.look(filter).await;
        }
        sleep(PERIOD).await;
    }
}

/// The chains of one version of IP.
#[derive(Debug)]
struct Kept {
    family: Family,
    /// Whether they were all there.
    is_made: bool,
    /// Whether it was said that they cannot be made.
    was_said: bool,
}

impl Kept {
    /// Looks whether they are there; makes them if they are not.
    async fn look(&mut self, filter: &dyn PacketFilter) {
        let family = self.family;
        if self.is_made {
            match filter.has_chain(family, CANARIES[0]).await {
                Ok(true) => return,
                Ok(false) => info!(%family, "somebody emptied the tables; chains are made again"),
                Err(error) => {
                    debug!(%family, %error, "cannot look whether chains are there");
                    return;
                }
            }
            wait_for_flush(filter, family).await;
        }
        let made = match make(filter, family).await {
            // Somebody else may have made one meanwhile.
            Err(_) => make(filter, family).await,
            made => made,
        };
        self.is_made = made.is_ok();
        match made {
            Ok(()) => {
                info!(%family, "the chains of a node are there");
                self.was_said = false;
            }
            Err(error) if !self.was_said => {
                warn!(%family, %error, "the chains of a node cannot be made; trying again every minute");
                self.was_said = true;
            }
            Err(error) => debug!(%family, %error, "the chains of a node cannot be made"),
        }
    }
}

/// Waits until all tables are empty: what is made earlier would go with the rest. Whoever takes one table alone is not
/// waited for.
async fn wait_for_flush(filter: &dyn PacketFilter, family: Family) {
    let begin = Instant::now();
    while begin.elapsed() < FLUSH {
        let mut is_over = true;
        for canary in &CANARIES[1..] {
            is_over &= matches!(filter.has_chain(family, *canary).await, Ok(false));
        }
        if is_over {
            return;
        }
        sleep(FLUSH_STEP).await;
    }
    debug!(%family, "only some of the tables were emptied");
}

/// Makes what is not there.
async fn make(filter: &dyn PacketFilter, family: Family) -> Result<(), FilterError> {
    let mut found = FoundChains::default();
    for chain in wanted_chains(family) {
        if filter.has_chain(family, chain).await? {
            found.chains.insert(chain);
        }
    }
    for rule in found.rules_to_look_for(family) {
        if filter.has_rule(family, &rule).await? {
            found.rules.insert(rule);
        }
    }
    match found.missing(family).as_slice() {
        [] => Ok(()),
        additions => filter.add(family, additions).await,
    }
}

#[cfg(test)]
#[path = "utility_chains_tests.rs"]
mod tests;
