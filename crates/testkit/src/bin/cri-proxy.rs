//! The program `cri-proxy`: injects faults into calls between a node agent and its runtime. See
//! `testkit::proxy`.

use std::future::pending;
use std::process::ExitCode;

use anyhow::Result;
use testkit::proxy::{Options, Proxy, USAGE, serve, serve_control};
use testkit::socket::{Ending, Sockets};

fn main() -> ExitCode {
    match Options::parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => match run(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("cri-proxy: {error:#}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cri-proxy: {error:#}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(options: Options) -> Result<()> {
    let mut ending = Ending::listen()?;
    let proxy = Proxy::new(options.runtime.clone());
    options.faults.into_iter().for_each(|fault| proxy.script().add(fault));
    let mut sockets = Sockets::default();
    let calls = sockets.listen(&options.socket)?;
    let questions = options.control.as_deref().map(|path| sockets.listen(path)).transpose()?;
    let answering = async {
        match questions {
            Some(listener) => serve_control(proxy.clone(), listener).await,
            None => pending().await,
        }
    };
    let (socket, runtime) = (options.socket.display(), options.runtime.display());
    println!("cri-proxy: ready on unix://{socket} before unix://{runtime}");
    tokio::select! {
        // A signal to end comes first; the other futures never end by themselves.
        biased;
        () = ending.received() => Ok(()),
        result = serve(proxy.clone(), calls) => result,
        result = answering => result,
    }
}
