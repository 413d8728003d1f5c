//! The interceptor of runtime calls: it injects faults and delays, records calls, and kills the agent during
//! calls.

mod hints;
mod records;
mod request;

use std::any::Any;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::intercept::{Args, Call, Interceptor, Kind, Port};
use model::ports::runtime::{Code, Runtime, RuntimeError};
use testkit::runtime::delayed;
use tokio::time::{sleep, timeout};

use self::request::{COMMAND_DEADLINE, ReadFault, Request};
use crate::history::Event;
use crate::life::Life;
use crate::outside::{FaultPoint, Outside};
use crate::plan::Fault;

/// Longer than any history.
const NEVER: Duration = Duration::from_hours(250_000);

/// The runtime calls of one agent.
#[derive(Debug)]
pub(crate) struct FaultyRuntime {
    outside: Arc<Outside>,
    life: Arc<Life>,
}

impl<P: Port<Error = RuntimeError> + ?Sized> Interceptor<P> for FaultyRuntime {
    async fn around<T: Any + Send>(
        &self,
        call: &Call<'_>,
        run: impl Future<Output = Result<T, RuntimeError>> + Send,
    ) -> Result<T, RuntimeError> {
        let _guards = self.before(&call.args);
        let request = Request::new(call, &self.outside);
        let what = format!("{} {}", request.method, request.object);
        let faulty = FaultyCall { call, request: &request, what: &what };
        let mut answer = self.life.call(&what, self.answer(faulty, run)).await;
        self.after(&call.args, &mut answer);
        answer
    }
}

/// A call with its text in the trace.
#[derive(Clone, Copy)]
struct FaultyCall<'a> {
    call: &'a Call<'a>,
    request: &'a Request,
    what: &'a str,
}

impl FaultyCall<'_> {
    fn is_effect(&self) -> bool {
        self.call.kind != Kind::Read
    }
}

impl FaultyRuntime {
    /// The runtime port of this agent.
    pub(crate) fn runtime(outside: &Arc<Outside>, life: &Arc<Life>) -> Runtime {
        let faults = Self { outside: Arc::clone(outside), life: Arc::clone(life) };
        Runtime::new(Arc::clone(&outside.runtime)).intercepted(&Arc::new(faults))
    }

    async fn answer<T>(
        &self,
        faulty: FaultyCall<'_>,
        run: impl Future<Output = Result<T, RuntimeError>>,
    ) -> Result<T, RuntimeError> {
        let FaultyCall { request, what, .. } = faulty;
        let (outside, number, is_effect) = (&self.outside, self.life.number, faulty.is_effect());
        if is_effect {
            outside.say(format!("agent {number}  {what}"));
        }
        let is_away = outside.away.is_up();
        let fault = if is_away { None } else { outside.fault(FaultPoint::Call(request.method)) };
        let _trouble = fault.map(|fault| {
            outside.say(format!("FAULT    {fault} on {what}"));
            outside.fault_guard()
        });
        let _read_fault = (fault.is_some() && !is_effect).then(|| ReadFault::new(outside));
        let answer = tokio::select! {
            // When the runtime goes down, its calls end.
            biased;
            () = outside.away.up() => {
                Err(request.error(Code::Unavailable, "the runtime is down"))
            }
            answer = timeout(request.deadline, self.faulted(faulty, fault, run)) => {
                answer.unwrap_or_else(|_| Err(request.error(Code::DeadlineExceeded, "too slow")))
            }
        };
        match &answer {
            Err(error) => {
                let Code::NotFound = error.code else {
                    if !is_effect {
                        outside.record(Event::ReadFailed);
                    }
                    let (code, message) = (error.code, &error.message);
                    outside.say(format!("  answer {what}: {code} {message}"));
                    return answer;
                };
                outside.say(format!("  answer {what}: not found"));
            }
            Ok(_) if is_effect || fault.is_some() => outside.say(format!("  answer {what}: ok")),
            Ok(_) => outside.note(what),
        }
        answer
    }

    async fn faulted<T>(
        &self,
        faulty: FaultyCall<'_>,
        fault: Option<Fault>,
        run: impl Future<Output = Result<T, RuntimeError>>,
    ) -> Result<T, RuntimeError> {
        let request = faulty.request;
        let too_late = || Err(request.error(Code::DeadlineExceeded, "deadline exceeded"));
        // The call begins at once and takes effect later. Changes are observed at once.
        let run = async |delay| {
            let answer = delayed(delay, run).await;
            if faulty.is_effect() {
                self.outside.observe();
            }
            answer
        };
        match fault {
            None => run(Duration::ZERO).await,
            Some(Fault::Error(code)) => Err(request.error(code, "injected failure")),
            Some(Fault::Slow(time)) => run(time).await,
            Some(Fault::LateAnswer(time)) => {
                let answer = run(Duration::ZERO).await;
                sleep(time).await;
                answer
            }
            Some(Fault::LateSuccess) => {
                drop(run(Duration::ZERO).await);
                too_late()
            }
            Some(Fault::LateEffect(time)) => {
                self.later(time, faulty);
                too_late()
            }
            Some(Fault::Vanished) => {
                drop(run(Duration::ZERO).await);
                Err(request.error(Code::NotFound, "already removed"))
            }
            Some(Fault::LostAnswer) => {
                drop(run(Duration::ZERO).await);
                self.silence(request).await
            }
            Some(
                Fault::Hang
                | Fault::Lost
                | Fault::Doubled
                | Fault::Overtaken(_)
                | Fault::Refused(_),
            ) => tokio::select! {
                biased;
                // It has begun, and takes no effect while the agent waits for it.
                answer = run(NEVER) => answer,
                answer = self.silence(request) => answer,
            },
        }
    }

    /// No response. A command may take years; a hung runtime is restarted before that.
    async fn silence<T>(&self, request: &Request) -> Result<T, RuntimeError> {
        if request.deadline < COMMAND_DEADLINE {
            return std::future::pending().await;
        }
        self.outside.calm.up().await;
        Err(request.error(Code::Unavailable, "the runtime was restarted"))
    }

    /// Executes the call later, even if the agent is dead by then; unless the runtime goes down before, which
    /// ends the calls in progress.
    fn later(&self, time: Duration, faulty: FaultyCall<'_>) {
        let (outside, is_effect) = (Arc::clone(&self.outside), faulty.is_effect());
        let what = format!("late     {}", faulty.what);
        let fault_guard = self.outside.fault_guard();
        let work = self.detached(&faulty.call.args, time);
        let mut late = self.outside.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.spawn(async move {
            tokio::select! {
                biased;
                () = outside.away.up() => {}
                () = work => {
                    if is_effect {
                        outside.observe();
                    }
                    outside.say(what);
                }
            }
            drop(fault_guard);
        });
    }

    /// The call with its own arguments, on a runtime on which it takes effect later.
    fn detached(&self, args: &Args<'_>, time: Duration) -> BoxFuture<'static, ()> {
        let runtime = Arc::new(self.outside.runtime.slower(time));
        match args {
            Args::Sandbox(call) => call.detached(runtime),
            Args::Container(call) => call.detached(runtime),
            Args::Image(call) => call.detached(runtime),
            Args::Info(call) => call.detached(runtime),
            _ => unreachable!("a call of the runtime"),
        }
    }
}
