//! Health checks: of the agent itself, and of the node for the agent's own socket.

use server::{Check, HealthChecks};
use tokio::time::Instant;

use crate::pulse::Pulse;
use crate::stuck_calls::{self, StuckCalls};

/// The checks of the agent itself. The systemd watchdog uses them, because a restart of the agent repairs what fails
/// here. As upstream, problems of the runtime or the PLEG are not among them.
#[derive(Debug, Clone)]
pub(crate) struct AgentHealth {
    pub(crate) sync_loop: Pulse,
}

impl HealthChecks for AgentHealth {
    fn checks(&self) -> Vec<Check> {
        vec![
            Check { name: "ping", result: Ok(()) },
            Check { name: "syncloop", result: self.sync_loop.check(Instant::now()) },
        ]
    }
}

/// The checks that the agent's own socket shows: also whether the PLEG still relists, which a node outside a cluster
/// has no Ready condition for.
#[derive(Debug)]
pub(crate) struct NodeHealth {
    pub(crate) agent: AgentHealth,
    pub(crate) pleg: pleg::Health,
    pub(crate) stuck: StuckCalls,
}

impl HealthChecks for NodeHealth {
    fn checks(&self) -> Vec<Check> {
        let mut checks = self.agent.checks();
        let now = Instant::now();
        let result = self.pleg.check(now).map_err(|unhealthy| unhealthy.to_string());
        checks.push(Check { name: "PLEG", result });
        checks.push(Check { name: stuck_calls::CHECK, result: self.stuck.check(now) });
        checks
    }
}
