//! Which models there are.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    state::{ServedModel, ServerState, Stage},
    wire::reply::ModelCard,
};

/// `GET /v1/models`: one card for each name.
pub async fn list(State(state): State<Arc<ServerState>>) -> Result<Json<Value>, ApiError> {
    if state.stage() == Stage::Loading {
        return Err(ApiError::loading());
    }
    let models = state.models();
    let cards: Vec<ModelCard> = models
        .iter()
        .flat_map(|served| served.names.iter().map(|name| card(served, name)))
        .collect();
    Ok(Json(json!({"object": "list", "data": cards})))
}

/// `GET /v1/models/{id}`.
pub async fn one(
    State(state): State<Arc<ServerState>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ModelCard>, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let served = state.find(Some(&id))?;
    Ok(Json(card(&served, &id)))
}

fn card(served: &ServedModel, name: &str) -> ModelCard {
    ModelCard {
        id: name.to_owned(),
        object: "model",
        created: served.loaded_at,
        owned_by: "tokenmill",
        root: served.model.id().0.clone(),
        parent: None,
        max_model_len: served.model.info().max_sequence_tokens,
    }
}
