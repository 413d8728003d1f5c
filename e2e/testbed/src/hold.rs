//! The pipe by which one process holds another: standard input without data.

use std::io::{self, Read};

/// Returns when the holder closed its end, or the kernel did because the holder died.
pub(crate) fn wait_for_release() {
    let mut buffer = [0; 16];
    loop {
        match io::stdin().read(&mut buffer) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A pipe that cannot be read counts as closed: no process holds this instance.
            Ok(0) | Err(_) => return,
        }
    }
}
