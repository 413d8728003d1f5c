//! A registry inside an instance, from which its containerd pulls over HTTP.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use testbed::wait;
use testbed::{Cache, Command, Instance, Process};

use crate::node::{PATIENCE, program};

/// A registry with the images of the testbed. It ends with its instance.
#[derive(Debug)]
pub struct Registry {
    process: Process,
    address: SocketAddr,
}

impl Registry {
    /// Starts a registry and waits until it is ready.
    pub fn start(instance: &Instance) -> Result<Self> {
        Self::start_with(instance, &images()?, &[])
    }

    /// Like `start`, for clients with a user name and a password: `NAME:PASSWORD`.
    pub fn start_private(instance: &Instance, login: &str) -> Result<Self> {
        Self::start_with(instance, &images()?, &["--login", login])
    }

    /// Like `start`, with the images of another directory, and further arguments.
    pub fn start_with(instance: &Instance, images: &Path, more: &[&str]) -> Result<Self> {
        let command = Command::new(program("test-images")?.display().to_string())
            .args(["serve", "--from"])
            .arg(images.display().to_string())
            .args(more.iter().copied());
        let process = instance.spawn("registry", &command).context("start the registry")?;
        let address = wait::until("address of the registry", PATIENCE, || {
            let log = process.log();
            let Some((line, _)) = log.split_once('\n') else { return Ok(Err(log)) };
            let address = line.parse().with_context(|| format!("the registry says: {log}"))?;
            Ok(Ok(address))
        })?;
        Ok(Self { process, address })
    }

    /// The name of an image of the registry for containerd: `workload:1`, or one with a digest.
    pub fn image(&self, name: &str) -> String {
        format!("{}/ferrolet/{name}", self.address)
    }

    /// The address, as keys of docker configurations have it.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The requests so far, each with the status of its response.
    pub fn requests(&self) -> Vec<String> {
        self.process.log().lines().skip(1).map(ToOwned::to_owned).collect()
    }
}

/// The images of the testbed.
fn images() -> Result<PathBuf> {
    Ok(Cache::from_env()?.parts().images_dir())
}
