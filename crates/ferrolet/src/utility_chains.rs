//! Maintains the packet filter chains that other programs expect (`makeIPTablesUtilChains`).

use std::sync::Arc;
use std::time::Duration;

use model::ports::packet_filter::{Family, FilterError, PacketFilter};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::utility_chains::{ALWAYS_THERE, CANARIES, FoundChains, wanted_chains};

/// How often the chains are checked.
const PERIOD: Duration = Duration::from_mins(1);

/// How long a flush of all tables may take, and the interval of the checks for its end.
const FLUSH: Duration = Duration::from_secs(5);
const FLUSH_STEP: Duration = Duration::from_millis(500);

/// Creates the chains, and creates them again after a flush of the tables.
pub(crate) async fn keep_chains(filter: Arc<dyn PacketFilter>, stop: CancellationToken) {
    stop.run_until_cancelled(keep(&*filter)).await;
}

async fn keep(filter: &dyn PacketFilter) {
    let mut kept = Vec::new();
    for family in [Family::V4, Family::V6] {
        match filter.has_chain(family, ALWAYS_THERE).await {
            Ok(true) => kept.push(FamilyChains { family, is_made: false, was_logged: false }),
            Ok(false) => debug!(%family, "No iptables tables"),
            Err(error) => debug!(%family, %error, "Cannot use iptables tables"),
        }
    }
    if kept.is_empty() {
        // The agent itself does not use the chains, and other programs cannot use them without iptables either.
        warn!("iptables does not work here, KUBE-IPTABLES-HINT chain is not created");
        std::future::pending::<()>().await;
    }
    loop {
        for one in &mut kept {
            one.look(filter).await;
        }
        sleep(PERIOD).await;
    }
}

/// The chains of one IP family.
#[derive(Debug)]
struct FamilyChains {
    family: Family,
    /// Whether all chains existed at the last check.
    is_made: bool,
    /// Whether a warning was logged that they cannot be created.
    was_logged: bool,
}

impl FamilyChains {
    /// Checks the chains; creates those that are missing.
    async fn look(&mut self, filter: &dyn PacketFilter) {
        let family = self.family;
        if self.is_made {
            match filter.has_chain(family, CANARIES[0]).await {
                Ok(true) => return,
                Ok(false) => {
                    info!(%family, "iptables tables were flushed, creating the chains again");
                }
                Err(error) => {
                    debug!(%family, %error, "Cannot check iptables chains");
                    return;
                }
            }
            wait_for_flush(filter, family).await;
        }
        let made = match make(filter, family).await {
            // Another program may have created one meanwhile.
            Err(_) => make(filter, family).await,
            made => made,
        };
        self.is_made = made.is_ok();
        match made {
            Ok(()) => {
                info!(%family, "iptables chains are set up");
                self.was_logged = false;
            }
            Err(error) if !self.was_logged => {
                warn!(%family, %error, "Cannot set up iptables chains, retrying every minute");
                self.was_logged = true;
            }
            Err(error) => debug!(%family, %error, "Cannot set up iptables chains"),
        }
    }
}

/// Waits until all tables are empty: chains created earlier would be removed by the rest of the flush. A flush of a
/// single table is not waited for.
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
    debug!(%family, "Only some iptables tables were flushed");
}

/// Creates what is missing.
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
