//! A control plane in an instance of the testbed, with an administrator's client.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testbed::{Component, ControlPlane, ControlPlaneOptions, Instance, User};

use crate::api::{Api, status_code};

/// A control plane with these controllers, and no scheduler.
pub fn with_controllers(names: &[&str]) -> ControlPlaneOptions {
    ControlPlaneOptions {
        controller_manager: Some(vec![format!("--controllers={}", names.join(","))]),
        ..ControlPlaneOptions::default()
    }
}

/// A control plane and an administrator's client. It ends with its instance.
#[derive(Debug)]
pub struct Plane {
    parts: ControlPlane,
    /// The flags of its API server.
    flags: Vec<String>,
    api: Api,
}

impl Plane {
    /// Starts it in an instance.
    pub fn start(instance: &Instance, options: &ControlPlaneOptions) -> Result<Self> {
        let parts = instance.start_control_plane(options).context("start a control plane")?;
        let api = Api::new(parts.admin_kubeconfig())?;
        Ok(Self { parts, flags: options.api_server.clone(), api })
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.parts
    }

    /// To stop and start its parts.
    pub fn control_plane_mut(&mut self) -> &mut ControlPlane {
        &mut self.parts
    }

    /// The administrator's client.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The kubeconfig of a user, for programs inside or outside of the instance.
    pub fn kubeconfig(&self, user: &User) -> Result<PathBuf> {
        Ok(self.parts.kubeconfig(user)?)
    }

    /// Creates a namespace with its default service account, which pods need; a controller creates it if one runs.
    pub fn make_namespace(&self, name: &str) -> Result<()> {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.api.create("/api/v1/namespaces", &namespace)?;
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" },
        });
        match self.api.create(&format!("/api/v1/namespaces/{name}/serviceaccounts"), &account) {
            // The controller was faster.
            Err(error) if status_code(&error) == Some(409) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Runs kubectl as an administrator, and returns its output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = self.parts.kubectl(args)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {args:?}: {}: {stderr}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Kills the API server.
    pub fn kill_api_server(&mut self) -> Result<()> {
        Ok(self.parts.kill_component(Component::ApiServer)?)
    }

    /// Starts it again with the same options.
    pub fn start_api_server(&mut self) -> Result<()> {
        Ok(self.parts.start_component(Component::ApiServer, &self.flags)?)
    }

    /// All its objects are lost: it starts with an empty store, without controllers and scheduler.
    pub fn lose_everything(&mut self) -> Result<()> {
        for component in Component::ALL.into_iter().rev() {
            self.parts.kill_component(component)?;
        }
        self.parts.wipe_etcd()?;
        self.parts.start_component(Component::Etcd, &[])?;
        self.start_api_server()
    }
}
