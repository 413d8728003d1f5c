use std::sync::Mutex;
use std::sync::mpsc;

use flate2::read::GzDecoder;
use tokio::time::advance;

use super::super::test_port::{Behind, Options, Port, Who, body as body_of};
use super::*;

/// A journal with entries of `kubelet`, and of `slow`, which never ends.
#[derive(Debug, Default)]
pub(in super::super) struct Journal {
    ran: Mutex<Vec<Vec<String>>>,
    pub(in super::super) is_missing: bool,
}

/// Output that ends when the guard is dropped.
struct Endless(mpsc::Receiver<()>);

impl Read for Endless {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.recv().unwrap_err();
        Ok(0)
    }
}

impl ServiceJournal for Journal {
    fn start(&self, arguments: &[String]) -> io::Result<JournalRun> {
        if self.is_missing {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.ran.lock().unwrap().push(arguments.to_vec());
        let (sender, receiver) = mpsc::channel();
        let output: Box<dyn Read + Send> = match arguments {
            [field, _] if field == "--field" => Box::new(&b"kubelet.service\nslow.service\n"[..]),
            _ if arguments.contains(&"--unit=slow".to_owned()) => Box::new(Endless(receiver)),
            _ => Box::new(&b"an entry\n"[..]),
        };
        Ok(JournalRun { output, guard: Box::new(sender) })
    }
}

async fn port(journal: Arc<Journal>) -> Port {
    Port::open(Options { journal: Some(journal), ..Options::default() }).await
}

// behaviour: SRV-23
#[tokio::test]
async fn log_query_reads_the_journal_or_a_file() {
    let journal = Arc::new(Journal::default());
    let port = port(Arc::clone(&journal)).await;
    let options = "\noptions present and query resolved to log files for [syslog]\n\
                   try without specifying options\n";
    let long = "line\n".repeat(50_000);
    let rows = [
        ("/logs/?query=kubelet&tailLines=3", 200, "an entry\n"),
        ("/logs/?query=syslog", 200, long.as_str()),
        ("/logs/?query=pods", 200, "\nlog not found for pods\n"),
        ("/logs/?query=syslog&tailLines=3", 200, options),
        ("/logs/?query=/syslog", 200, &long),
        ("/logs/?query=%20", 400, "query: Invalid value: [\" \"]: may not be empty\n"),
        ("/logs/syslog?query=kubelet", 406, "path not allowed in query mode\n"),
        ("/logs/?boot=0", 406, "query: Required value: cannot be empty with options\n"),
        (
            "/logs/?query=/none",
            406,
            "query: Invalid value: [\"/none\"]: no such file or directory\n",
        ),
        ("/logs/?query=/pods", 406, "query: Invalid value: [\"/pods\"]: is a directory\n"),
        (
            "/logs/?query=--file%3Dx",
            406,
            "query: Invalid value: \"--file=x\": input contains unsupported characters\n",
        ),
        ("/logs/syslog", 200, &long),
    ];
    for (path, expected, content) in rows {
        let more = "accept-encoding: gzip, deflate\r\n\r\n";
        let (status, answer) = port.ask_with(Who::Token("admin"), "GET", path, more).await;
        assert_eq!(status, expected, "{path}: {answer}");
        let text = dechunked(&answer);
        assert!(text == content, "{path}: {} {}", text.len(), &text[..text.len().min(300)]);
    }
    let ran = journal.ran.lock().unwrap();
    let reads: Vec<_> = ran.iter().filter(|arguments| arguments[0] != "--field").collect();
    assert_eq!(reads.len(), 1, "{reads:?}");
    assert_eq!(reads[0][3..], ["--pager-end", "--lines=3", "--unit=kubelet"]);
}

/// The body of an answer, of one in chunks too.
fn dechunked(answer: &str) -> String {
    let mut rest = body_of(answer);
    if !answer.contains("transfer-encoding: chunked") {
        return rest.to_owned();
    }
    let mut text = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text.push_str(&after[..length]);
        rest = &after[length + 2..];
        if length == 0 {
            break;
        }
    }
    text
}

// behaviour: SRV-23
#[tokio::test]
async fn query_is_not_read_unless_it_is_enabled() {
    let port = Port::open(Options::default()).await;
    let (status, answer) = port.ask(Who::Token("admin"), "GET", "/logs/?query=kubelet").await;
    assert!(status == 200 && answer.contains("text/html"), "{answer}");
}

// behaviour: SRV-23
#[tokio::test]
async fn service_has_a_log_file_where_there_is_no_journal() {
    let port = port(Arc::new(Journal { is_missing: true, ..Journal::default() })).await;
    let (status, answer) = port.ask(Who::Token("admin"), "GET", "/logs/?query=syslog").await;
    assert!(status == 200 && dechunked(&answer).starts_with("line\n"), "{status}");
}

// behaviour: SRV-24
#[tokio::test]
async fn queries_at_a_time_are_limited() {
    let port = Arc::new(port(Arc::new(Journal::default())).await);
    let mut slow = tokio::task::JoinSet::new();
    let path = "/logs/?query=slow";
    for _ in 0..MOST_QUERIES {
        let mut stream =
            port.authority.connect(port.address, rustls::DEFAULT_VERSIONS, None).await.unwrap();
        slow.spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer admin\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            // The headers are sent when the journal is being read.
            let mut head = [0; 15];
            stream.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 200 OK");
            stream
        });
    }
    let connections = slow.join_all().await;
    let (status, answer) = port.ask(Who::Token("admin"), "GET", path).await;
    assert!(status == 429 && answer.contains("retry-after: 1\r\n"), "{answer}");
    // Disconnected clients end their programs.
    drop(connections);
    while port.ask(Who::Token("admin"), "GET", "/logs/?query=kubelet").await.0 != 200 {}
}

async fn service_logs(query: &str) -> ServiceLogs {
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let query = node_log_query(Some(query)).unwrap().unwrap();
    let (journal, files) = (Arc::new(Journal::default()), Arc::new(Behind::default()));
    ServiceLogs::of(journal, files, query, permit).await
}

// behaviour: SRV-24
#[tokio::test(start_paused = true)]
async fn response_ends_after_thirty_seconds() {
    let mut logs = service_logs("query=slow&query=kubelet").await;
    let next = logs.next();
    tokio::pin!(next);
    assert!(futures_util::poll!(next.as_mut()).is_pending());
    advance(LIMIT).await;
    assert_eq!(next.await, None);
}

// behaviour: SRV-23
#[tokio::test]
async fn response_is_compressed_on_request() {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    let answer = served(service_logs("query=kubelet&query=syslog").await, &headers);
    assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip");
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text.len(), "an entry\n".len() + 5 * 50_000);
}
