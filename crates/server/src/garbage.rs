//! Garbage collection: plans, passes, and records of removals.

use futures_util::StreamExt as _;
use hyper::StatusCode;
use journal::{Query as Meant, SearchResult};

use crate::parts::Parts;
use crate::query::Query;
use crate::respond::{Answer, BrokenOff, json, json_lines, problem};
use crate::wire::WhyAnswer;

/// The default and the largest number of returned entries.
const USUAL_ENTRIES: usize = 20;
const MOST_ENTRIES: usize = 1000;

/// The plan of the next pass.
pub(crate) async fn plan(parts: &Parts) -> Answer {
    json(StatusCode::OK, &parts.collector.plan().await)
}

/// Makes a pass now.
pub(crate) async fn run(parts: &Parts) -> Answer {
    json_lines(parts.collector.run().await.map(|line| {
        let mut bytes = serde_json::to_vec(&line).map_err(BrokenOff::from)?;
        bytes.push(b'\n');
        Ok(bytes)
    }))
}

/// The records of removals.
pub(crate) async fn why(parts: &Parts, query: &Query) -> Answer {
    search(query, |meant, limit| parts.removals.why(meant, limit)).await
}

/// The history of a pod or container.
pub(crate) async fn history(parts: &Parts, query: &Query) -> Answer {
    search(query, |meant, limit| parts.removals.history(meant, limit)).await
}

/// Searches the journal for the object of a query.
async fn search<F>(query: &Query, search: impl FnOnce(Meant, usize) -> F) -> Answer
where
    F: Future<Output = Result<SearchResult, String>>,
{
    let Some(what) = query.get("what").filter(|what| !what.trim().is_empty()) else {
        return problem(StatusCode::BAD_REQUEST, "query parameter \"what\" is required");
    };
    let limit = match query.get("limit").map(str::parse::<usize>) {
        None => USUAL_ENTRIES,
        Some(Ok(limit)) if (1..=MOST_ENTRIES).contains(&limit) => limit,
        Some(_) => {
            let message = format!("limit is a number from 1 to {MOST_ENTRIES}");
            return problem(StatusCode::BAD_REQUEST, message);
        }
    };
    match search(Meant::new(what), limit).await {
        Ok(found) => json(StatusCode::OK, &WhyAnswer { what: what.to_owned(), found }),
        Err(message) => problem(StatusCode::INTERNAL_SERVER_ERROR, message),
    }
}
