//! The packet filter by `iptables` and `ip6tables`, whichever way these talk to the kernel.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use blocking::Pool;
use model::ports::packet_filter::{
    Addition, Family, FilterChain, FilterError, FilterRule, PacketFilter, Place, Table,
};

use crate::program::{self, run};

/// How many seconds a program waits until others are done with the tables.
const TURN: &str = "5";

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(15);

/// How the programs say that something is not there; greater numbers are for mistakes and missing rights.
const NOT_THERE: i32 = 1;

/// The packet filter of this host.
#[derive(Debug)]
pub struct HostPacketFilter {
    /// Where its programs are; where all programs are if this is empty.
    directory: Option<PathBuf>,
    /// The threads that wait for them.
    programs: Pool,
}

impl Default for HostPacketFilter {
    fn default() -> Self {
        Self { directory: None, programs: program::pool() }
    }
}

impl HostPacketFilter {
    /// The threads that wait for its programs.
    pub fn pool(&self) -> &Pool {
        &self.programs
    }

    /// Runs a program. What it says if it fails, and with which number.
    async fn call(
        &self,
        program: &'static str,
        arguments: &[&str],
        input: String,
    ) -> Result<Result<(), (Option<i32>, FilterError)>, FilterError> {
        let path = match &self.directory {
            Some(directory) => directory.join(program).into_os_string(),
            None => OsString::from(program),
        };
        let failed = |why: String| FilterError::Failed { program, why };
        let ended = match run(&self.programs, &path, arguments, input, LIMIT).await {
            Ok(ended) => ended.ok_or(FilterError::TooSlow { program, limit: LIMIT })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FilterError::NoProgram { program });
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        if ended.status.success() {
            return Ok(Ok(()));
        }
        let words = String::from_utf8_lossy(&ended.stderr);
        let why = format!("{} ({})", words.trim().replace('\n', "; "), ended.status);
        Ok(Err((ended.status.code(), failed(why))))
    }

    /// Whether what is looked for is there.
    async fn is_there(
        &self,
        family: Family,
        option: &str,
        chain: FilterChain,
        more: &[&str],
    ) -> Result<bool, FilterError> {
        let look = ["-w", TURN, option, chain.name, "-t", chain.table.name()];
        match self.call(program(family), &[&look, more].concat(), String::new()).await? {
            Ok(()) => Ok(true),
            Err((Some(NOT_THERE), _)) => Ok(false),
            Err((_, error)) => Err(error),
        }
    }
}

fn program(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// What makes additions, in the words of `iptables-restore`. A chain is made by `-N` and not by a line of its own, which
/// would empty one that is there.
fn script(additions: &[Addition]) -> String {
    let mut script = String::new();
    for table in [Table::Filter, Table::Mangle, Table::Nat] {
        let mut of_table = additions.iter().filter(|addition| addition.table() == table).peekable();
        if of_table.peek().is_none() {
            continue;
        }
        let lines: Vec<String> = of_table.map(line).collect();
        writeln!(script, "*{}\n{}\nCOMMIT", table.name(), lines.join("\n"))
            .expect("a text takes all that is written");
    }
    script
}

fn line(addition: &Addition) -> String {
    match addition {
        Addition::Chain(chain) => format!("-N {}", chain.name),
        Addition::Rule(FilterRule { chain, place, words }) => {
            let option = match place {
                Place::First => "-I",
                Place::Last => "-A",
            };
            let words = words.iter().map(|word| {
                if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() }
            });
            format!("{option} {} {}", chain.name, words.collect::<Vec<_>>().join(" "))
        }
    }
}

#[async_trait]
impl PacketFilter for HostPacketFilter {
    async fn has_chain(&self, family: Family, chain: FilterChain) -> Result<bool, FilterError> {
        self.is_there(family, "-S", chain, &[]).await
    }

    async fn has_rule(&self, family: Family, rule: &FilterRule) -> Result<bool, FilterError> {
        self.is_there(family, "-C", rule.chain, rule.words).await
    }

    async fn add(&self, family: Family, additions: &[Addition]) -> Result<(), FilterError> {
        let restore = match family {
            Family::V4 => "iptables-restore",
            Family::V6 => "ip6tables-restore",
        };
        let arguments = ["-w", TURN, "--noflush"];
        let done = self.call(restore, &arguments, script(additions)).await?;
        done.map_err(|(_, error)| error)
    }
}

#[cfg(test)]
#[path = "packet_filter_tests.rs"]
mod tests;
