//! Quotas of accounts and shared budgets over HTTP.

use super::page::page_of;
use super::{Given, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use contract::Page;
use host::ops::limits::{self, BudgetView};
use host::ops::quota::{self, QuotaView};
use schemars::JsonSchema;
use serde::Deserialize;

/// Which page of the quotas, and how old it may be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotasPage {
    /// How many, at most 500.
    limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default)]
    after: String,
    /// Whether the providers are asked now, for adapters with `quota.source: oauth`. An account is
    /// asked at most every 30 seconds.
    #[serde(default)]
    fresh: bool,
}

pub async fn list(
    State(app): State<App>,
    Options(QuotasPage { limit, after, fresh }): Options<QuotasPage>,
) -> Result<Json<Page<QuotaView>>, Problem> {
    let limit = page_of(limit);
    let rows = match fresh {
        true => quota::list_fresh(&app.host, &after, limit + 1).await?,
        false => quota::list(&app.host, &after, limit + 1).await?,
    };
    Ok(Json(Page::of(rows, limit, |quota| quota.scope.clone())))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    scope: String,
}

pub async fn clear(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    _: Chosen,
    Given(wanted): Given<Clear>,
) -> Result<Json<QuotaView>, Problem> {
    Ok(Json(quota::clear(&app.host, &wanted.scope, &caller.who()).await?))
}

pub async fn budgets(State(app): State<App>) -> Result<Json<Vec<BudgetView>>, Problem> {
    Ok(Json(limits::budgets(&app.host).await?))
}
