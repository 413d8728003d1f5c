//! A cluster: an instance of the testbed with a control plane in it, and no node but the objects that a
//! test makes.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testbed::{ControlPlane, ControlPlaneOptions, Instance, Options, Runtime, User};

use crate::api::{Api, status_code};

/// A control plane and a client that may do everything.
#[derive(Debug)]
pub struct Cluster {
    instance: Instance,
    control_plane: ControlPlane,
    api: Api,
}

impl Cluster {
    pub fn start(options: &ControlPlaneOptions) -> Result<Self> {
        let bare = Options { runtime: Runtime::None, ..Options::default() };
        let instance = Instance::start(&bare).context("start an instance of the testbed")?;
        let control_plane =
            instance.start_control_plane(options).context("start a control plane")?;
        let api = Api::new(control_plane.admin_kubeconfig())?;
        Ok(Self { instance, control_plane, api })
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// For stopping and starting its parts.
    pub fn control_plane_mut(&mut self) -> &mut ControlPlane {
        &mut self.control_plane
    }

    /// The client of somebody who may do everything.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The kubeconfig of a user, for a program inside or outside.
    pub fn kubeconfig(&self, user: &User) -> Result<PathBuf> {
        Ok(self.control_plane.kubeconfig(user)?)
    }

    /// Makes a namespace: see [`make_namespace`].
    pub fn make_namespace(&self, name: &str) -> Result<()> {
        make_namespace(&self.api, name)
    }

    /// Runs kubectl as somebody who may do everything, and answers what it printed.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = self.control_plane.kubectl(args)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {args:?}: {}: {stderr}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Takes the cluster down and fails if that left anything behind.
    pub fn stop(self) -> Result<()> {
        Ok(self.instance.stop()?)
    }
}

/// Makes a namespace in which pods can be made: with the service account that they have unless they say
/// otherwise, which a controller makes where one runs.
pub fn make_namespace(api: &Api, name: &str) -> Result<()> {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    api.create("/api/v1/namespaces", &namespace)?;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" },
    });
    match api.create(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account) {
        // The controller was faster.
        Err(error) if status_code(&error) == Some(409) => Ok(()),
        other => other.map(drop),
    }
}
