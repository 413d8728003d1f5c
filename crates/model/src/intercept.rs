//! Interceptors: code around every call of a port.
//!
//! An [`Interceptor`] wraps calls; [`Intercepted`] is a port whose calls pass through one. The port traits are
//! written by hand. Below, `intercept!` lists the methods of each port once and generates the type of its calls and
//! the forwarding implementation, so a new method changes no interceptor.

mod services;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::ports::runtime::{ContainerService, ImageService, Runtime, RuntimeInfo, SandboxService};
use crate::verdict::Verdict;

pub use services::{
    CgroupCall, ContainerCall, FileCall, HttpCall, ImageCall, InfoCall, PodCall, SandboxCall,
};

/// Whether a call changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Read,
    /// It changes something.
    Effect,
    /// It removes something, as a verdict decided.
    Removal,
}

/// A call of a port.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The name of the variant in `args`; where the CRI has such a method, its name.
    pub method: &'static str,
    /// Whether it changes something.
    pub kind: Kind,
    /// The method with its arguments.
    pub args: Args<'a>,
}

/// A method of some port, with its arguments.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each variant is a port")]
pub enum Args<'a> {
    Sandbox(SandboxCall<'a>),
    Container(ContainerCall<'a>),
    Image(ImageCall<'a>),
    Info(InfoCall<'a>),
    File(FileCall<'a>),
    Cgroup(CgroupCall<'a>),
    Pod(PodCall<'a>),
    Http(HttpCall<'a>),
}

/// A port with calls that can be intercepted; implemented for the trait objects of port traits.
pub trait Port: Send + Sync + 'static {
    /// The error of its calls.
    type Error: Send + 'static;
    /// The result of a successful removal.
    type Removed: Any + Send;
}

/// Code around the calls of a port. An implementation runs a call by awaiting `run`; it may do so late, not at
/// all, or drop it half-way. A caller may drop the returned future as well.
pub trait Interceptor<P: Port + ?Sized>: Debug + Send + Sync + 'static {
    /// Around a call.
    fn around<T: Any + Send>(
        &self,
        call: &Call<'_>,
        run: impl Future<Output = Result<T, P::Error>> + Send,
    ) -> impl Future<Output = Result<T, P::Error>> + Send {
        let _ = call;
        run
    }

    /// Around a removal; by default as around any call.
    fn around_removal(
        &self,
        call: &Call<'_>,
        verdict: &Verdict,
        run: impl Future<Output = Result<P::Removed, P::Error>> + Send,
    ) -> impl Future<Output = Result<P::Removed, P::Error>> + Send {
        let _ = verdict;
        self.around(call, run)
    }
}

/// A port with an interceptor around its calls.
#[derive(Debug)]
pub struct Intercepted<P: ?Sized, I> {
    inner: Arc<P>,
    interceptor: Arc<I>,
}

impl<P: ?Sized, I> Intercepted<P, I> {
    /// This port with this interceptor.
    pub fn new(inner: Arc<P>, interceptor: &Arc<I>) -> Self {
        Self { inner, interceptor: Arc::clone(interceptor) }
    }
}

impl Runtime {
    /// The same services with an interceptor around their calls.
    #[must_use]
    pub fn intercepted<I>(&self, interceptor: &Arc<I>) -> Self
    where
        I: Interceptor<dyn SandboxService>
            + Interceptor<dyn ContainerService>
            + Interceptor<dyn ImageService>
            + Interceptor<dyn RuntimeInfo>,
    {
        Self {
            sandboxes: Arc::new(Intercepted::new(Arc::clone(&self.sandboxes), interceptor)),
            containers: Arc::new(Intercepted::new(Arc::clone(&self.containers), interceptor)),
            images: Arc::new(Intercepted::new(Arc::clone(&self.images), interceptor)),
            info: Arc::new(Intercepted::new(Arc::clone(&self.info), interceptor)),
        }
    }
}
