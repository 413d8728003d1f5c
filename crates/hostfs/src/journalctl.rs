//! `journalctl`, which reads the logs of system services.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The path of system programs. The agent's environment is not passed on.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program.
#[derive(Debug)]
pub struct Journalctl {
    program: OsString,
}

impl Default for Journalctl {
    fn default() -> Self {
        Self { program: "journalctl".into() }
    }
}

impl Journalctl {
    /// Starts it with these arguments, without a shell. Blocks until it runs.
    pub fn start(&self, arguments: &[String]) -> io::Result<(JournalOutput, JournalGuard)> {
        let (output, writer) = io::pipe()?;
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The output ends with the program: no other process may hold the write end.
        drop(command);
        let output = JournalOutput { child, output };
        let process = pidfd_open(Pid::from_child(&output.child), PidfdFlags::empty())?;
        Ok((output, JournalGuard(process)))
    }
}

/// The output of the program, including errors. The program is killed when this is dropped.
#[derive(Debug)]
pub struct JournalOutput {
    child: Child,
    output: PipeReader,
}

impl Read for JournalOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.output.read(buffer)
    }
}

impl Drop for JournalOutput {
    fn drop(&mut self) {
        // It may have exited already; then it is only reaped.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Kills the program when dropped, also while another thread waits for its output.
#[derive(Debug)]
pub struct JournalGuard(OwnedFd);

impl Drop for JournalGuard {
    fn drop(&mut self) {
        // It may have exited already.
        _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::thread;

    use super::*;

    /// A program that replaces `journalctl`.
    fn program(directory: &Path, script: &str) -> Journalctl {
        let path = directory.join("journalctl");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Journalctl { program: path.into() }
    }

    // behaviour: SRV-24
    #[test]
    fn arguments_reach_the_program_unchanged_and_files_and_environment_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let secret = fs::File::create(directory.path().join("secret")).unwrap();
        let script = "for one in \"$@\"; do echo \"<$one>\"; done; \
                      ls -l /proc/$$/fd | grep -c secret; env | grep -c HOME; echo wrong >&2";
        let arguments = ["--grep=$(id)", "--unit=a;b", "two words\n--file=x"].map(str::to_owned);
        let (mut output, _guard) = program(directory.path(), script).start(&arguments).unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        drop(secret);
        let expected = "<--grep=$(id)>\n<--unit=a;b>\n<two words\n--file=x>\n0\n0\nwrong\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn dropped_guard_ends_the_program_while_its_output_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let (mut output, guard) =
            program(directory.path(), "echo begun; exec sleep 600").start(&[]).unwrap();
        let mut begun = [0; 6];
        output.read_exact(&mut begun).unwrap();
        let reading = thread::spawn(move || output.read(&mut [0; 6]).unwrap());
        drop(guard);
        assert_eq!(reading.join().unwrap(), 0);
    }

    #[test]
    fn missing_program_is_an_error() {
        let error = Journalctl { program: "/nowhere/journalctl".into() }.start(&[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
