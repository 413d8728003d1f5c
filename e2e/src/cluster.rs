//! A cluster: an instance of the testbed with a control plane, and no nodes but the objects that a test makes.

use std::ops::{Deref, DerefMut};

use anyhow::{Context, Result};
use testbed::{ControlPlaneOptions, Instance, Options, Runtime};

use crate::plane::Plane;

/// A control plane in its own instance.
#[derive(Debug)]
pub struct Cluster {
    instance: Instance,
    plane: Plane,
}

impl Cluster {
    pub fn start(options: &ControlPlaneOptions) -> Result<Self> {
        let bare = Options { runtime: Runtime::None, ..Options::default() };
        let instance = Instance::start(&bare).context("start an instance of the testbed")?;
        let plane = Plane::start(&instance, options)?;
        Ok(Self { instance, plane })
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Stops the cluster. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        Ok(self.instance.stop()?)
    }
}

impl Deref for Cluster {
    type Target = Plane;

    fn deref(&self) -> &Plane {
        &self.plane
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Plane {
        &mut self.plane
    }
}
