//! The targets of a part and their table.

use crate::judge::{Judgement, Measured, every, judge, worst};
use crate::report::{TARGETS_HEAD, line, short};

/// A target with the value of each round.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The name of the number, with its unit or divisor.
    pub name: &'static str,
    /// The limit.
    pub limit: f64,
    /// The value of each round.
    pub measured: Vec<Measured>,
}

impl Verdict {
    /// Whether the target is met.
    pub fn judgement(&self) -> Judgement {
        judge(self.limit, &self.measured)
    }

    /// The target in a line of text.
    pub fn described(&self) -> String {
        format!("{}: {}, at most {}", self.name, every(&self.measured), short(self.limit))
    }
}

/// The targets as a table of Markdown.
pub(crate) fn table(verdicts: &[Verdict]) -> String {
    let mut text = format!("\n{TARGETS_HEAD}");
    for verdict in verdicts {
        let worst = worst(&verdict.measured).map_or("–".to_owned(), short);
        let (limit, all) = (short(verdict.limit), every(&verdict.measured));
        let judgement = verdict.judgement().written();
        line(&mut text, &[verdict.name, &limit, &worst, &all, &judgement]);
    }
    text
}
