//! The task that all passes are made in.

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, error, info, info_span};

use super::look::{Collector, Looked};
use super::records::RecordsFile;
use super::{ImageGcError, ImagesLeft, Kind, PassReport, Request};
use crate::decide::images::stay;

/// From the end of a pass to the start of the next, as upstream.
const PERIOD: Duration = Duration::from_mins(5);

/// Makes passes: by itself every five minutes, and when asked.
#[derive(Debug)]
pub struct ImageGcTask {
    collector: Arc<Collector>,
    /// Closed when all handles are dropped.
    requests: mpsc::Receiver<Request>,
    file: RecordsFile,
    /// The images left by the last pass, for consumers that store data per image.
    left: watch::Sender<Option<Arc<ImagesLeft>>>,
    /// Whether the last pass that was made by itself failed.
    failed: bool,
}

impl ImageGcTask {
    pub(super) fn new(
        collector: Arc<Collector>,
        requests: mpsc::Receiver<Request>,
        left: watch::Sender<Option<Arc<ImagesLeft>>>,
    ) -> Self {
        let file = RecordsFile::new(Arc::clone(&collector.parts.files), &collector.settings.state);
        Self { collector, requests, file, left, failed: false }
    }

    /// Runs until stopped, which may interrupt a pass.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: the stop comes first.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.serve() => unreachable!("it serves without end"),
        }
    }

    async fn serve(&mut self) {
        let records = self.file.load().await;
        self.collector.remember(records);
        if !self.collector.settings.policy.is_periodic() {
            info!("no image goes by itself: the high threshold is 100 and there is no maximum age");
        }
        let mut next = Instant::now();
        loop {
            // Biased: the periodic pass is rare, and requests repeat.
            tokio::select! {
                biased;
                () = sleep_until(next) => {
                    self.periodic().await;
                    next = Instant::now() + PERIOD;
                }
                Some(Request { kind, answer }) = self.requests.recv() => {
                    let report = self.pass(kind).await;
                    // The caller may have dropped its receiver.
                    drop(answer.send(report));
                }
            }
        }
    }

    /// What is done without being asked: a pass, or at least a look, so that uses are known.
    async fn periodic(&mut self) {
        if !self.collector.settings.policy.is_periodic() {
            let _watch = self.collector.parts.claims.watch();
            if let Err(error) = self.look().await {
                error!(error = %Chain(&error), "cannot look at images");
            }
            return;
        }
        let report = self.pass(Kind::Ordinary).await;
        match report.error {
            None if self.failed => info!("image garbage collection works again"),
            None => debug!("image garbage collection succeeded"),
            Some(ref failure) => {
                let message = Chain(failure).to_string();
                if self.failed {
                    error!(
                        error = message,
                        "image garbage collection failed several times in a row"
                    );
                    self.collector.warn("ImageGCFailed", failure.event_message());
                } else {
                    error!(
                        error = message,
                        "image garbage collection failed once; the disk may not be known yet"
                    );
                }
            }
        }
        self.failed = report.error.is_some();
    }

    async fn pass(&mut self, kind: Kind) -> PassReport {
        let span = info_span!("Images/GarbageCollect");
        async {
            // From before the look on, so that no claim is missed.
            let _watch = self.collector.parts.claims.watch();
            let looked = match self.look().await {
                Ok(looked) => looked,
                Err(error) => return PassReport { error: Some(error), ..PassReport::default() },
            };
            let report = self.collector.pass(kind, &looked).await;
            self.file.save(&self.collector.records()).await;
            if report.made_room {
                let ids = stay(&report.plan.items);
                self.left.send_replace(Some(Arc::new(ImagesLeft { began: looked.now, ids })));
            }
            report
        }
        .instrument(span)
        .await
    }

    /// Looks at images and remembers what was seen, on disk before anything follows from it.
    async fn look(&mut self) -> Result<Looked, ImageGcError> {
        let looked = self.collector.look().await?;
        for name in &looked.detected.without_id {
            let message = format!("ImageID is not valid, skipping, image: {name}");
            self.collector.warn("InvalidImageID", message);
        }
        self.collector.remember_look(&looked);
        self.collector.parts.claims.forget_uses(&looked.made_since);
        self.file.save(&looked.detected.records).await;
        Ok(looked)
    }
}
