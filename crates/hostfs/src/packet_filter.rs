//! The packet filter, by `iptables` and `ip6tables`.

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

/// How many seconds a program waits for the table lock.
const TURN: &str = "5";

/// The timeout of a program.
const LIMIT: Duration = Duration::from_secs(15);

/// The exit code for a missing rule or chain; higher ones mean errors and missing privileges.
const NOT_THERE: i32 = 1;

/// The packet filter of this host.
#[derive(Debug)]
pub struct HostPacketFilter {
    /// The directory of the programs; `None` for the search path.
    directory: Option<PathBuf>,
    /// The threads that wait for programs.
    programs: Pool,
}

impl Default for HostPacketFilter {
    fn default() -> Self {
        Self { directory: None, programs: program::pool() }
    }
}

impl HostPacketFilter {
    /// The threads that wait for programs.
    pub fn pool(&self) -> &Pool {
        &self.programs
    }

    /// Runs a program. Returns its error output and exit code if it fails.
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

    /// Whether a rule or chain exists.
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

/// The input of `iptables-restore` for additions. A chain is created with `-N`, because a chain line would
/// empty an existing one.
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
