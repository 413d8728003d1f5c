use super::*;

impl Harness {
    /// The status and the text of the answer to a checkpoint request.
    async fn checkpoint(
        &self,
        container: &str,
        query: &str,
        files: &Arc<MemoryFiles>,
    ) -> (u16, String) {
        let (files, clock) = (Arc::clone(files) as _, Arc::clone(&self.node) as _);
        let checkpoints = Checkpoints::new("/".into(), files, clock);
        let path = StreamPath {
            pod: PodName::new("shop", "web"),
            uid: None,
            container: container.to_owned(),
        };
        let answer = self.streams.checkpoint(&path, Some(query), &checkpoints).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

// behaviour: STR-20
#[tokio::test]
async fn checkpoint_names_its_archive() {
    let (harness, files) = (Harness::new().await, Arc::new(MemoryFiles::new()));
    let archive = "/checkpoints/checkpoint-web_shop-main-1970-01-01T00:00:00Z.tar";
    let written = (200, format!("{{\"items\":[\"{archive}\"]}}"));
    assert_eq!(harness.checkpoint("main", "timeout=9", &files).await, written);
    let rows = [
        ("other", "", 404, "container other does not exist"),
        ("main", "timeout=x", 404, "cannot parse value of timeout parameter"),
        (
            "main",
            "timeout=-1",
            500,
            "checkpointing of shop/web/main failed (the timeout value must be > 0)",
        ),
    ];
    for (container, query, status, text) in rows {
        let answer = harness.checkpoint(container, query, &files).await;
        assert_eq!(answer, (status, text.to_owned()), "{container} {query}");
    }
}

// behaviour: STR-22
#[tokio::test]
async fn checkpoint_request_is_refused_when_too_many_are_in_progress() {
    let (harness, files) = (Harness::new().await, Arc::new(MemoryFiles::new()));
    for number in 0..64 {
        files.write(format!("/checkpoints/{number}.tar"), "");
    }
    let (status, text) = harness.checkpoint("main", "", &files).await;
    assert_eq!(status, 507, "{text}");
}

// behaviour: STR-21
#[tokio::test]
async fn checkpoint_error_names_the_container() {
    let harness = Harness::with(|_| Err(Code::Unimplemented)).await;
    let answer = harness.checkpoint("main", "", &Arc::new(MemoryFiles::new())).await;
    let text = "checkpointing of shop/web/main failed (rpc error: code = Unimplemented desc = no)";
    assert_eq!(answer, (500, text.to_owned()));
}
