//! The log of a container.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use hyper::StatusCode;
use k8s_openapi::api::core::v1::PodStatus;
use model::chain::Chain;
use model::ids::{ContainerId, PodUid};
use model::ports::logs::Ended;
use podspec::view;
use tracing::warn;

use crate::decide::{Instance, has_container, is_running, log_instance};
use crate::parts::{Parts, PodAndStatus, PodView};
use crate::query::{BadQuery, LogQuery, Query, log_query};
use crate::respond::{Answer, problem, text_stream};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOf<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
}

pub(crate) async fn logs(parts: &Parts, of: LogOf<'_>, query: &Query) -> Answer {
    let named = [
        (of.namespace, "Missing podNamespace."),
        (of.pod, "Missing podID."),
        (of.container, "Missing container name."),
    ];
    if let Some((_, missing)) = named.iter().find(|(name, _)| name.is_empty()) {
        return problem(StatusCode::BAD_REQUEST, *missing);
    }
    let query = match log_query(query, parts.clock.now()) {
        Ok(query) => query,
        Err(BadQuery::Undecodable) => {
            return problem(StatusCode::BAD_REQUEST, "Unable to decode query.");
        }
        Err(BadQuery::Invalid) => {
            return problem(StatusCode::UNPROCESSABLE_ENTITY, "Invalid request.");
        }
    };
    match find(parts, of, query.previous) {
        Ok((uid, instance)) => read(parts, &uid, &instance, query).await,
        Err(answer) => *answer,
    }
}

/// The pod and the instance of its container that are meant.
fn find(parts: &Parts, of: LogOf<'_>, previous: bool) -> Result<(PodUid, Instance), Box<Answer>> {
    let name = |found: &PodAndStatus| {
        let name = view::pod_name(&found.pod);
        *name.namespace == *of.namespace && *name.name == *of.pod
    };
    // Of two with one name, the one that is on its way out comes second.
    let mut pods = parts.pods.pods();
    pods.retain(name);
    pods.sort_by_key(|found| view::is_being_deleted(&found.pod));
    let Some(found) = pods.first() else {
        let message = format!("pod {:?} does not exist", of.pod);
        return Err(Box::new(problem(StatusCode::NOT_FOUND, message)));
    };
    if !has_container(&found.pod, of.container) {
        let message = format!("container {:?} not found in pod {:?}", of.container, of.pod);
        return Err(Box::new(problem(StatusCode::NOT_FOUND, message)));
    }
    let status = status_of(found);
    let instance = log_instance(of.pod, &status, of.container, previous)
        .map_err(|error| Box::new(problem(StatusCode::BAD_REQUEST, error.to_string())))?;
    Ok((view::uid(&found.pod), instance))
}

fn status_of(found: &PodAndStatus) -> Arc<PodStatus> {
    let own = || Arc::new(found.pod.status.clone().unwrap_or_default());
    found.status.clone().unwrap_or_else(own)
}

async fn read(parts: &Parts, uid: &PodUid, instance: &Instance, query: LogQuery) -> Answer {
    let unable = || {
        let id = &instance.written_id;
        problem(StatusCode::BAD_REQUEST, format!("unable to retrieve container logs for {id}"))
    };
    let Some(path) = parts.log_paths.log_path(uid, &instance.id) else {
        return unable();
    };
    let follow = query.follow.then(|| -> Ended {
        Box::pin(ended(Arc::clone(&parts.pods), uid.clone(), instance.id.clone()))
    });
    match parts.logs.open(&path, &query.request, follow).await {
        Ok(text) => text_stream(text.map_err(Into::into)),
        Err(error) => {
            warn!(%uid, container = %instance.id, error = %Chain(&error), "cannot read a log");
            unable()
        }
    }
}

/// Waits until an instance no longer runs, or nothing is known of it.
async fn ended(pods: Arc<dyn PodView>, uid: PodUid, id: ContainerId) {
    let mut changes = pods.changes();
    loop {
        changes.borrow_and_update();
        let all = pods.pods();
        let pod = all.iter().find(|found| view::uid(&found.pod) == uid);
        if !pod.is_some_and(|found| is_running(&status_of(found), &id)) {
            return;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
