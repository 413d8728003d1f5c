//! Lines of JSON over a unix socket, with file descriptors as ancillary data.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Standard input, output and error: the most descriptors of a message.
pub(crate) const STDIO: usize = 3;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: UnixStream,
    /// Bytes received and not yet taken as a line.
    pending: Vec<u8>,
    /// Descriptors received and not yet taken.
    fds: VecDeque<OwnedFd>,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, pending: Vec::new(), fds: VecDeque::new() }
    }

    /// Sends one message, with the descriptors at its first byte.
    pub(crate) fn send(
        &mut self,
        message: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut sent = 0;
        if !fds.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STDIO))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let slices = [IoSlice::new(&line)];
            sent = retry_on_intr(|| {
                sendmsg(&self.stream, &slices, &mut control, SendFlags::NOSIGNAL)
            })?;
        }
        self.stream.write_all(&line[sent..])
    }

    /// The next message; `None` after the last one.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STDIO))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        // A socket with a time limit is interrupted by any signal that we handle.
        let received = retry_on_intr(|| {
            recvmsg(&self.stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        self.pending.extend_from_slice(&buffer[..received.bytes]);
        Ok(received.bytes)
    }

    /// The descriptors that came with the last message.
    pub(crate) fn take_stdio(&mut self) -> Option<[OwnedFd; STDIO]> {
        let fds: Vec<OwnedFd> = self.fds.drain(..).collect();
        fds.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::os::fd::AsFd;

    #[test]
    fn messages_longer_than_the_buffer_arrive_with_their_descriptors() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut left, mut right) = (Wire::new(left), Wire::new(right));
        let (mut reader, writer) = pipe().unwrap();
        let long = "x".repeat(10_000);
        let fd = writer.as_fd();
        left.send(&long, &[fd, fd, fd]).unwrap();
        left.send(&"short", &[]).unwrap();
        drop((writer, left));

        assert_eq!(right.receive::<String>().unwrap(), Some(long));
        let [stdin, stdout, stderr] = right.take_stdio().unwrap();
        drop((stdin, stderr));
        std::fs::File::from(stdout).write_all(b"through").unwrap();
        assert_eq!(right.receive::<String>().unwrap().as_deref(), Some("short"));
        assert!(right.take_stdio().is_none());
        assert_eq!(right.receive::<String>().unwrap(), None);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
