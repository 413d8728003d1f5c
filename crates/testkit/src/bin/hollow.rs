//! The program `hollow`: a container runtime without containers. See `testkit::hollow`.

use std::future::pending;
use std::process::ExitCode;

use anyhow::Result;
use testkit::hollow::{Hollow, Options, USAGE, serve, serve_control};
use testkit::socket::{Ending, Sockets};

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

#[tokio::main(flavor = "current_thread")]
async fn run(options: Options) -> Result<()> {
    let mut ending = Ending::listen()?;
    let hollow = Hollow::new(options.settings);
    hollow.populate(&options.population).await?;
    options.delays.iter().for_each(|delay| hollow.gate().delay(delay));
    options.failures.into_iter().for_each(|failure| hollow.gate().fail(failure));

    let mut sockets = Sockets::default();
    let calls = sockets.listen(&options.socket)?;
    let questions = options.counters.as_deref().map(|path| sockets.listen(path)).transpose()?;
    let serving = serve(hollow.clone(), calls);
    let answering = async {
        match questions {
            Some(listener) => serve_control(hollow, listener).await,
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
        // A signal to end comes first; the other futures never end by themselves.
        biased;
        () = ending.received() => Ok(()),
        result = serving => result,
        result = answering => result,
    }
}
