//! Costs and prices over HTTP.

use super::{Given, Problem};
use crate::App;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use contract::{Code, Fault};
use host::ops::money::{self, ImportReport};
use host::prices::Listed;
use serde::Deserialize;
use serde_json::Value;
use store::CostRow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostsQuery {
    by: Option<String>,
    since: Option<String>,
}

pub async fn costs(
    State(app): State<App>,
    query: Result<Query<CostsQuery>, QueryRejection>,
) -> Result<Json<Vec<CostRow>>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    Ok(Json(money::costs(&app.host, query.by.as_deref(), query.since.as_deref()).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricesQuery {
    model: Option<String>,
}

pub async fn prices(
    State(app): State<App>,
    query: Result<Query<PricesQuery>, QueryRejection>,
) -> Result<Json<Vec<Listed>>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    Ok(Json(money::prices(&app.host, query.model.as_deref()).await?))
}

pub async fn import(
    State(app): State<App>,
    Given(file): Given<Value>,
) -> Result<Json<ImportReport>, Problem> {
    Ok(Json(money::import(&app.host, file).await?))
}

fn bad_query(error: QueryRejection) -> Problem {
    Problem(Fault::new(Code::Usage, error.body_text()))
}
