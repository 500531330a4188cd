//! Costs and prices over HTTP.

use super::{Given, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use host::ops::money::{self, ImportReport};
use host::prices::Listed;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use store::CostRow;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostsQuery {
    /// Any of day, agent, adapter, model, with commas between.
    by: Option<String>,
    /// A day such as 2026-11-01, or the last days such as 7d.
    since: Option<String>,
}

pub async fn costs(
    State(app): State<App>,
    Options(query): Options<CostsQuery>,
) -> Result<Json<Vec<CostRow>>, Problem> {
    Ok(Json(money::costs(&app.host, query.by.as_deref(), query.since.as_deref()).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PricesQuery {
    /// A part of the name.
    model: Option<String>,
}

pub async fn prices(
    State(app): State<App>,
    Options(query): Options<PricesQuery>,
) -> Result<Json<Vec<Listed>>, Problem> {
    Ok(Json(money::prices(&app.host, query.model.as_deref()).await?))
}

pub async fn import(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    _: Chosen,
    Given(file): Given<Value>,
) -> Result<Json<ImportReport>, Problem> {
    Ok(Json(money::import(&app.host, file, &caller.who()).await?))
}
