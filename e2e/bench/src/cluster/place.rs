//! The instance of the testbed with containerd and a control plane, in which agents are nodes.

use std::path::PathBuf;

use anyhow::{Context, Result};
use testbed::{ControlPlaneOptions, User};

use super::requests::AuditLog;
use crate::agent::{Directories, NODE_NAME, Programs};
use crate::api::Api;
use crate::place::Place;
use crate::plan::On;
use crate::runtime::Direct;

/// The namespace of the pods.
pub(super) const NAMESPACE: &str = "bench";
/// The path of the nodes' leases.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The instance, for all rounds.
#[derive(Debug)]
pub(super) struct ClusterPlace {
    pub(super) place: Place,
    pub(super) api: Api,
    pub(super) audit: AuditLog,
    pub(super) runtime: Direct,
    kubeconfig: PathBuf,
}

impl ClusterPlace {
    /// Starts it.
    pub(super) fn start(programs: &Programs) -> Result<Self> {
        let place = Place::start(programs.clone(), On::Containerd)?;
        let user = User::node(NODE_NAME);
        let audit = AuditLog::of(&user, place.instance().dir())?;
        let options =
            ControlPlaneOptions { api_server: audit.flags(), ..ControlPlaneOptions::default() };
        let control_plane = place.instance().start_control_plane(&options);
        let control_plane = control_plane.context("start a control plane")?;
        let kubeconfig = control_plane.kubeconfig(&user)?;
        let api = Api::new(control_plane.admin_kubeconfig())?;
        api.make_namespace(NAMESPACE)?;
        let runtime = place.containerd();
        Ok(Self { place, api, audit, runtime, kubeconfig })
    }

    /// The directories and files of an agent, with a kubeconfig.
    pub(super) fn directories(&self) -> Directories {
        Directories { kubeconfig: Some(self.kubeconfig.clone()), ..self.place.directories() }
    }

    /// Removes leftovers of pods and of a node: the next agent finds none.
    pub(super) fn clear(&self) -> Result<()> {
        self.runtime.empty()?;
        self.place.sweep()?;
        for path in [
            format!("/api/v1/nodes/{NODE_NAME}"),
            format!("{LEASES}/{NODE_NAME}"),
            format!("/apis/storage.k8s.io/v1/csinodes/{NODE_NAME}"),
            format!("/api/v1/namespaces/{NAMESPACE}/events"),
            "/api/v1/namespaces/default/events".to_owned(),
        ] {
            self.api.delete(&path)?;
        }
        Ok(())
    }

    /// Stops everything. Fails if anything is left behind.
    pub(super) fn stop(self) -> Result<()> {
        self.place.stop().context("stop an instance")
    }
}
