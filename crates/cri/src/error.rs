//! Errors of calls.

use std::error::Error;

use model::ports::runtime::{Code, RuntimeError};
use model::verdict::Verdict;
use tonic::{ConnectError, Status};

use crate::deadline::Class;
use crate::endpoint::Endpoint;

/// The method, object and deadline class of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'static str,
    object: &'a str,
    pub(crate) class: Class,
}

/// A call on an object, with the request deadline.
pub(crate) fn on<'a>(method: &'static str, object: &'a str) -> Call<'a> {
    Call { method, object, class: Class::Request }
}

/// A verdict about another kind of object than the method removes is a bug of the caller; the runtime is not
/// called.
pub(crate) fn wrong_subject(method: &'static str, verdict: &Verdict) -> RuntimeError {
    let object = verdict.subject.to_string();
    on(method, &object)
        .error(Code::InvalidArgument, "the verdict is about something else".to_owned())
}

impl Call<'_> {
    pub(crate) fn within(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// The runtime returned an error, or could not be reached. Only an unreachable runtime has a source; its
    /// code would depend on the transport's features.
    pub(crate) fn failed(self, status: &Status, endpoint: &Endpoint) -> RuntimeError {
        if status.source().is_none() {
            return self.error(code(status.code()), status.message().to_owned());
        }
        let socket = endpoint.path().display();
        let step = if causes(status).any(<dyn Error>::is::<ConnectError>) {
            format!("connect to {socket}")
        } else {
            format!("the call on {socket} broke off")
        };
        self.error(Code::Unavailable, format!("{step}: {}", chain(status)))
    }

    /// Go's text, which users search for.
    pub(crate) fn too_slow(self) -> RuntimeError {
        self.error(Code::DeadlineExceeded, "context deadline exceeded".to_owned())
    }

    /// The response violates the protocol.
    pub(crate) fn malformed(self, what: &str) -> RuntimeError {
        self.error(Code::DataLoss, format!("the runtime's answer has {what}"))
    }

    /// The call cannot be made; the runtime is not called.
    pub(crate) fn invalid(self, problem: &str) -> RuntimeError {
        self.error(Code::InvalidArgument, problem.to_owned())
    }

    fn error(self, code: Code, message: String) -> RuntimeError {
        RuntimeError { method: self.method, object: self.object.to_owned(), code, message }
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |cause| (*cause).source())
}

/// The chain of causes, from the outside in. The transport's own layers add no information.
fn chain(status: &Status) -> String {
    let mut texts: Vec<String> = causes(status)
        .filter(|cause| !cause.is::<tonic::transport::Error>())
        .map(ToString::to_string)
        .collect();
    texts.dedup();
    texts.join(": ")
}

fn code(code: tonic::Code) -> Code {
    match code {
        // The status of a failed call is never `Ok`; a runtime that reports so is wrong.
        tonic::Code::Ok | tonic::Code::Unknown => Code::Unknown,
        tonic::Code::Cancelled => Code::Cancelled,
        tonic::Code::InvalidArgument => Code::InvalidArgument,
        tonic::Code::DeadlineExceeded => Code::DeadlineExceeded,
        tonic::Code::NotFound => Code::NotFound,
        tonic::Code::AlreadyExists => Code::AlreadyExists,
        tonic::Code::PermissionDenied => Code::PermissionDenied,
        tonic::Code::ResourceExhausted => Code::ResourceExhausted,
        tonic::Code::FailedPrecondition => Code::FailedPrecondition,
        tonic::Code::Aborted => Code::Aborted,
        tonic::Code::OutOfRange => Code::OutOfRange,
        tonic::Code::Unimplemented => Code::Unimplemented,
        tonic::Code::Internal => Code::Internal,
        tonic::Code::Unavailable => Code::Unavailable,
        tonic::Code::DataLoss => Code::DataLoss,
        tonic::Code::Unauthenticated => Code::Unauthenticated,
    }
}
