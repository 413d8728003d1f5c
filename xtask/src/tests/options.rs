//! The command line of `cargo xtask test`.

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Which tests run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Tables, properties and everything else that needs no other program.
    Unit,
    /// The whole agent in memory, in histories with faults.
    Simulator,
    /// The testbed itself: its tests look at the whole machine.
    Testbed,
    /// Whole programs on the real container runtime and API server.
    EndToEnd,
    /// Tests that take too long for `make test`.
    Soak,
}

impl Stage {
    const ALL: [Self; 5] = [Self::Unit, Self::Simulator, Self::Testbed, Self::EndToEnd, Self::Soak];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Simulator => "simulator",
            Self::Testbed => "testbed",
            Self::EndToEnd => "end-to-end",
            Self::Soak => "soak",
        }
    }

    /// How many slots the stage has unless `--slots` sets it. End-to-end tests mostly wait.
    pub(super) fn slots(self) -> usize {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        match self {
            Self::Unit => processors + 1,
            Self::Simulator => processors,
            Self::Testbed => 1,
            // The testbed has room for 64 instances, and some tests start two.
            Self::EndToEnd => (4 * processors).min(24),
            Self::Soak => (2 * processors).min(24),
        }
    }

    /// How long one test, or one batch of unit tests, may take.
    pub(super) fn limit(self) -> Duration {
        if self == Self::Soak { Duration::from_hours(1) } else { Duration::from_mins(15) }
    }

    fn parse(name: &str) -> Result<Self> {
        let names = Self::ALL.map(Self::name).join(", ");
        let mut all = Self::ALL.into_iter();
        all.find(|stage| stage.name() == name)
            .with_context(|| format!("no stage {name:?}; there are: {names}"))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Without one, tests are only built.
    pub(super) stage: Option<Stage>,
    /// A test runs if its full name (`program::module::test`) contains one of them, or there are none.
    pub(super) filters: Vec<String>,
    /// How often each test runs.
    pub(super) repeat: usize,
    pub(super) slots: Option<usize>,
    /// How many busy processes run during the tests.
    pub(super) load: usize,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self> {
        let mut options =
            Self { stage: None, filters: Vec::new(), repeat: 1, slots: None, load: 0 };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<usize> {
                let value =
                    arguments.next().with_context(|| format!("{argument} needs a value"))?;
                value.parse().with_context(|| format!("{argument} {value}"))
            };
            match argument.as_str() {
                "--repeat" => options.repeat = number()?.max(1),
                "--slots" => options.slots = Some(number()?.max(1)),
                "--load" => options.load = number()?,
                flag if flag.starts_with('-') => bail!(
                    "unknown flag {flag}; usage: cargo xtask test [STAGE] [FILTER…] [--repeat N] [--slots N] [--load N]"
                ),
                stage if options.stage.is_none() => options.stage = Some(Stage::parse(stage)?),
                filter => options.filters.push(filter.to_owned()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&arguments)
    }

    #[test]
    fn stage_filters_and_numbers_are_read() {
        let options = parse("end-to-end gc:: --repeat 5 first_pod --load 2 --slots 3").unwrap();
        assert_eq!(options.stage, Some(Stage::EndToEnd));
        assert_eq!(options.filters, ["gc::", "first_pod"]);
        assert_eq!((options.repeat, options.load, options.slots), (5, 2, Some(3)));
        assert_eq!(parse("").unwrap().stage, None);
    }

    #[test]
    fn unknown_stage_flag_and_number_are_refused() {
        for (line, error) in [
            ("e2e", "no stage \"e2e\"; there are: unit, simulator, testbed, end-to-end, soak"),
            ("unit --repeat", "--repeat needs a value"),
            ("unit --repeat x", "--repeat x"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), error);
        }
        assert!(parse("unit --fast").unwrap_err().to_string().starts_with("unknown flag --fast"));
    }
}
