//! The operator's page, embedded.

use std::sync::Arc;

use axum::Router;

use crate::Service;

/// The page and what it is made of; none of it needs a token.
pub fn routes() -> Router<Arc<Service>> {
    Router::new()
}
