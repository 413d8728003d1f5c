//! The program `hollow`: a container runtime without containers. See `testkit::hollow`.
#![allow(clippy::disallowed_methods, reason = "a test tool removes its sockets")]

use std::future::pending;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use testkit::hollow::{Hollow, Options, USAGE, answer_questions, bind, serve};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    match Options::parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => match run(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("hollow: {error:#}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hollow: {error:#}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Sockets that go with the program, however it ends.
struct Sockets(Vec<PathBuf>);

impl Drop for Sockets {
    fn drop(&mut self) {
        for socket in &self.0 {
            if let Err(error) = std::fs::remove_file(socket) {
                eprintln!("hollow: remove {}: {error}", socket.display());
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(options: Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    let hollow = Hollow::new(options.settings);
    hollow.populate(&options.population).await?;
    options.delays.iter().for_each(|delay| hollow.gate().delay(delay));
    options.failures.into_iter().for_each(|failure| hollow.gate().fail(failure));

    let mut sockets = Sockets(Vec::new());
    let mut listen = |path: &Path| {
        let listener = bind(path)?;
        sockets.0.push(path.to_owned());
        anyhow::Ok(listener)
    };
    let calls = listen(&options.socket)?;
    let questions = options.counters.as_deref().map(&mut listen).transpose()?;
    let serving = serve(hollow.clone(), calls);
    let answering = async {
        match questions {
            Some(listener) => answer_questions(hollow, listener).await,
            None => pending().await,
        }
    };
    println!(
        "hollow: ready on unix://{} with {} pods of {} containers",
        options.socket.display(),
        options.population.pods.len(),
        options.population.containers(),
    );
    tokio::select! {
        // Being told to end comes first; the others never do by themselves.
        biased;
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        result = serving => result,
        result = answering => result,
    }
}
