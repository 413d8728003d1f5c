//! Bytes in both directions, until one side ends.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// The buffer size at first, and after it was too small. Most streams are idle most of the time.
const SMALL: usize = 4 * 1024;
const LARGE: usize = 64 * 1024;

/// How long the other side may take once one side has ended: to send its remaining data, and to close.
const LINGER: Duration = Duration::from_secs(5);

/// Copies until either side ends, then ends both. Data in transit still arrives.
pub(crate) async fn copy_both<C, R>(client: C, runtime: R)
where
    C: AsyncRead + AsyncWrite,
    R: AsyncRead + AsyncWrite,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_runtime, mut to_runtime) = tokio::io::split(runtime);
    let runtime_ended = {
        let mut upward = pin!(forward(&mut from_client, &mut to_runtime));
        let mut downward = pin!(forward(&mut from_runtime, &mut to_client));
        // Biased: if both have ended, nothing is left to copy.
        tokio::select! {
            biased;
            _ = &mut downward => true,
            _ = &mut upward => {
                // The client may have closed only its own direction: it still receives the rest.
                drop(timeout(LINGER, downward).await);
                false
            }
        }
    };
    if runtime_ended {
        // A socket that is closed with unread bytes resets the connection, and the client would lose what it has not
        // read yet.
        drop(timeout(LINGER, discard(&mut from_client)).await);
    }
}

/// Copies one direction to its end and closes it.
async fn forward(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; SMALL];
    let copied = async {
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            to.write_all(&buffer[..length]).await?;
            to.flush().await?;
            if length == buffer.len() && length < LARGE {
                buffer.resize(LARGE, 0);
            }
        }
    };
    let copied: io::Result<()> = copied.await;
    // After an error too: the other end must notice.
    to.shutdown().await.and(copied)
}

/// Reads to the end.
async fn discard(from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut buffer = vec![0; SMALL];
    while from.read(&mut buffer).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    /// The ends of a client and of a runtime, with a copy between them.
    async fn with_copy<F: Future<Output = ()>>(test: impl FnOnce(DuplexStream, DuplexStream) -> F) {
        let (client, near) = duplex(64);
        let (far, runtime) = duplex(64);
        tokio::join!(copy_both(near, far), test(client, runtime));
    }

    async fn rest_of(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        all
    }

    #[tokio::test(start_paused = true)]
    async fn large_transfer_arrives_unchanged_in_both_directions() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        with_copy(|client, runtime| async {
            let (mut from_client, mut to_client) = tokio::io::split(runtime);
            let (mut reader, mut writer) = tokio::io::split(client);
            let mut received = vec![0; bytes.len()];
            let mut echoed = vec![0; bytes.len()];
            let (sent, read, echo, back) = tokio::join!(
                writer.write_all(&bytes),
                from_client.read_exact(&mut received),
                to_client.write_all(&bytes),
                reader.read_exact(&mut echoed),
            );
            sent.and(echo).unwrap();
            read.and(back).unwrap();
            assert!(received == bytes && echoed == bytes);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn half_closed_client_receives_remaining_output() {
        with_copy(|mut client, mut runtime| async move {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut question = Vec::new();
            runtime.read_to_end(&mut question).await.unwrap();
            assert_eq!(question, b"question");
            tokio::time::sleep(LINGER / 2).await;
            runtime.write_all(b"answer").await.unwrap();
            drop(runtime);
            assert_eq!(rest_of(client).await, b"answer");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn runtime_that_keeps_its_direction_open_is_closed_after_the_client() {
        let (client, near) = duplex(64);
        let (far, mut runtime) = duplex(64);
        drop(client);
        let start = Instant::now();
        copy_both(near, far).await;
        assert_eq!(start.elapsed(), LINGER);
        assert!(runtime.write_all(b"late").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_ends_when_the_runtime_ends() {
        let (mut client, near) = duplex(64);
        let (far, mut runtime) = duplex(64);
        let copy = copy_both(near, far);
        let test = async move {
            runtime.write_all(b"bye").await.unwrap();
            drop(runtime);
            // Unread bytes do not keep the end from the client.
            client.write_all(b"more").await.unwrap();
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.unwrap();
            assert_eq!(all, b"bye");
            client
        };
        let ((), client) = tokio::join!(copy, test);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_ends_when_the_client_ends() {
        let (client, near) = duplex(64);
        let (far, runtime) = duplex(64);
        drop(client);
        let start = Instant::now();
        let closing = async {
            assert_eq!(rest_of(runtime).await, b"");
        };
        tokio::join!(copy_both(near, far), closing);
        assert!(start.elapsed() < LINGER);
    }
}
