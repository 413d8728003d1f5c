//! The program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrolet::cli::main()
}
