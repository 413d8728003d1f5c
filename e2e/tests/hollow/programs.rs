//! Programs that end with the test.

use std::path::Path;

use anyhow::{Context, Result};
use testbed::wait;

pub(crate) use e2e::hollow::{Hollow, LONG, Program};

#[test]
fn program_is_killed_when_its_starter_ends() -> Result<()> {
    // The kernel counts the thread as the starter.
    let starter = std::thread::spawn(|| -> Result<Program> {
        let program = Program::start(Path::new("sleep"), |sleep| sleep.arg("600"))?;
        let name = format!("/proc/{}/comm", program.id());
        wait::until("the program runs", LONG, || {
            let name = std::fs::read_to_string(&name).context("inspect a program")?;
            Ok(if name == "sleep\n" { Ok(()) } else { Err(name) })
        })?;
        Ok(program)
    });
    let mut program = starter.join().expect("starting a program does not panic")?;
    wait::until("the program is killed", LONG, || {
        Ok(if program.was_killed()? { Ok(()) } else { Err("it runs".to_owned()) })
    })
}
