//! What a worker has changed in its worktree.

use std::sync::Arc;

use axum::Json;
use raymond_engine::worktree;
use raymond_flow::id::AgentId;
use serde_json::{Value, json};

use crate::{
    error::{ApiError, ApiResult},
    request::NamedRun,
};

/// The most of a diff that is sent: more than people read.
const DIFF_BYTES_MAX: usize = 1024 * 1024;

/// `GET /api/runs/{project}/{run}/agents/{agent}/diff`
pub(crate) async fn diff(run: NamedRun) -> ApiResult<Json<Value>> {
    let app = Arc::clone(&run.app);
    let found = run.read(|named, run| {
        let agent = &*named.names.agent;
        let worktrees = run.overview.run().map(|run| &run.worktrees);
        let found = worktrees.and_then(|all| all.get(&AgentId::new(agent))).cloned();
        found.ok_or_else(|| ApiError::not_found(format!("agent `{agent}` has no worktree")))
    });
    let worktree = found.await?;
    // Git may take long, so other readers of the run do not wait for it.
    app.read(move |_| {
        let diff = worktree::diff(&worktree, DIFF_BYTES_MAX);
        let diff = diff.map_err(|error| {
            ApiError::unreadable(format!("cannot compare branch `{}`: {error}", worktree.branch))
        })?;
        Ok(Json(json!({ "text": diff.text, "is_cut": diff.is_cut })))
    })
    .await
}
