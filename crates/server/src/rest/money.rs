//! Costs and prices over HTTP.

use super::page::page_of;
use super::{Given, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use contract::Page;
use host::ops::money::{self, Asked, ImportReport};
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
    /// How many, at most 500.
    limit: Option<u32>,
    /// The `next` of the page before, with the same `by`.
    after: Option<String>,
}

pub async fn costs(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Options(CostsQuery { by, since, limit, after }): Options<CostsQuery>,
) -> Result<Json<Page<CostRow>>, Problem> {
    let limit = page_of(limit);
    let (by, since, after) = (by.as_deref(), since.as_deref(), after.as_deref());
    let asked = Asked { by, since, run: caller.run(), after };
    let rows = money::costs(&app.host, asked, limit + 1).await?;
    Ok(Json(Page::of(rows, limit, money::place)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PricesQuery {
    /// A part of the name.
    model: Option<String>,
    /// How many, at most 500.
    limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default)]
    after: String,
}

pub async fn prices(
    State(app): State<App>,
    Options(PricesQuery { model, limit, after }): Options<PricesQuery>,
) -> Result<Json<Page<Listed>>, Problem> {
    let limit = page_of(limit);
    let rows = money::prices(&app.host, model.as_deref(), &after, limit + 1).await?;
    Ok(Json(Page::of(rows, limit, |price| price.model.clone())))
}

pub async fn import(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    _: Chosen,
    Given(file): Given<Value>,
) -> Result<Json<ImportReport>, Problem> {
    Ok(Json(money::import(&app.host, file, &caller.who()).await?))
}
