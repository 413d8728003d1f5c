//! A relay between client and server: a `CONNECT` proxy, or a network that drops all data.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Forwards connections until a test drops them.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// The heads of requests to the proxy.
    pub(crate) heads: watch::Receiver<Vec<String>>,
    /// How many connections the client has ended.
    pub(crate) ended: watch::Receiver<usize>,
    /// All data on the current connections is dropped from now on, while they stay open.
    losing: watch::Sender<usize>,
    made: watch::Receiver<usize>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// A relay to this server.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        Self::start(server, false).await
    }

    /// A proxy that always connects to this server.
    pub(crate) async fn proxy(server: SocketAddr) -> Self {
        Self::start(server, true).await
    }

    async fn start(server: SocketAddr, is_proxy: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, heads) = watch::channel(Vec::new());
        let (ending, ended) = watch::channel(0);
        let (making, made) = watch::channel(0);
        let (losing, lost) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                making.send_modify(|count| *count += 1);
                let number = *making.borrow();
                let (sender, ending, mut lost) = (sender.clone(), ending.clone(), lost.clone());
                connections.spawn(async move {
                    if is_proxy {
                        let head = head(&mut client).await;
                        sender.send_modify(|all| all.push(head));
                        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    }
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let (mut from, mut to) = server.split();
                    let (mut in_, mut out) = client.split();
                    let is_lost = async { drop(lost.wait_for(|lost| *lost >= number).await) };
                    let passing = async {
                        tokio::select! {
                            _ = copy(&mut in_, &mut to) => {}
                            _ = copy(&mut from, &mut out) => {}
                        }
                    };
                    let was_lost = tokio::select! {
                        () = is_lost => true,
                        () = passing => false,
                    };
                    if was_lost {
                        let mut sink = [0; 1024];
                        while client.read(&mut sink).await.is_ok_and(|count| count > 0) {}
                        ending.send_modify(|count| *count += 1);
                    }
                });
            }
        });
        Self { address, heads, ended, losing, made, _tasks: tasks }
    }

    /// Drops all data on the current connections.
    pub(crate) fn lose_all(&self) {
        self.losing.send_replace(*self.made.borrow());
    }
}

async fn head(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
        head.push(client.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
