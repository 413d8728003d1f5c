//! Calls that go wrong on purpose.

use std::time::Duration;

use model::ports::cluster::ApiError;

/// What goes wrong with a call.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// It is refused with this status.
    Refused(u16),
    /// The server has no time.
    Throttled(Option<Duration>),
    /// The server is not reached.
    Unreachable,
    /// It is done, and the answer is lost.
    AnswerLost,
    /// It takes this long.
    Late(Duration),
}

impl Trouble {
    fn error(&self) -> ApiError {
        match self {
            Self::Refused(409) => ApiError::Conflict("refused on purpose".to_owned()),
            Self::Refused(404) => ApiError::NotFound,
            Self::Refused(code) => {
                ApiError::Refused { code: *code, message: "refused on purpose".to_owned() }
            }
            Self::Throttled(retry_after) => ApiError::Throttled { retry_after: *retry_after },
            Self::Unreachable | Self::AnswerLost | Self::Late(_) => {
                ApiError::Unreachable("not reached on purpose".into())
            }
        }
    }
}

/// Calls of a kind that go wrong, so many times.
#[derive(Debug)]
struct Spell<A> {
    /// Whose; everybody's if there is none.
    of: Option<String>,
    ask: A,
    trouble: Trouble,
    left: u32,
}

/// What is to go wrong, by what is asked.
#[derive(Debug)]
pub(super) struct Troubles<A>(Vec<Spell<A>>);

impl<A> Default for Troubles<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A: Copy + PartialEq> Troubles<A> {
    /// From now on calls go wrong, so many times; those of one of those who ask, or everybody's.
    pub(super) fn add(&mut self, of: Option<String>, ask: A, trouble: Trouble, times: u32) {
        self.0.push(Spell { of, ask, trouble, left: times });
    }

    /// Nothing goes wrong any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What goes wrong with a call, if anything.
    pub(super) fn next(&mut self, who: &str, ask: A) -> Option<Trouble> {
        let spell = self.0.iter_mut().find(|spell| {
            spell.ask == ask && spell.left > 0 && spell.of.as_ref().is_none_or(|of| of == who)
        })?;
        spell.left -= 1;
        Some(spell.trouble.clone())
    }
}

/// Does a call, unless this goes wrong with it.
pub(super) async fn troubled<T>(
    trouble: Option<Trouble>,
    call: impl FnOnce() -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    match trouble {
        None => call(),
        Some(Trouble::Late(duration)) => {
            tokio::time::sleep(duration).await;
            call()
        }
        Some(Trouble::AnswerLost) => {
            call()?;
            Err(Trouble::AnswerLost.error())
        }
        Some(trouble) => Err(trouble.error()),
    }
}
