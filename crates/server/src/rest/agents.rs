//! Agents over HTTP: list, hire, look at one, change it, and how it stands.

use super::describe::With;
use super::page::{ByName, page_of};
use super::views::{self, AgentAnswer, SavedAgent};
use super::{Given, Named, Options, Problem};
use crate::App;
use crate::auth::Caller;
use crate::keyed::Chosen;
use axum::extract::State;
use axum::{Extension, Json};
use contract::Page;
use contract::state::AgentState;
use host::ops::agents::{self, Edit, Hire};
use schemars::JsonSchema;
use serde::Deserialize;

pub async fn list(
    State(app): State<App>,
    Options(ByName { limit, after }): Options<ByName>,
) -> Result<Json<Page<AgentAnswer>>, Problem> {
    let limit = page_of(limit);
    let rows = agents::list(&app.host, &after, limit + 1).await?;
    let page = Page::of(rows, limit, |agent| agent.name.clone());
    Ok(Json(Page { items: views::all(page.items), next: page.next }))
}

pub async fn hire(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    _: Chosen,
    Given(hire): Given<Hire>,
) -> Result<With<201, SavedAgent>, Problem> {
    Ok(With(agents::hire(&app.host, hire, &caller.who()).await?.into()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Without what it runs and spends, which takes a while to count.
    #[serde(default)]
    glance: bool,
}

pub async fn show(
    State(app): State<App>,
    Named(name): Named,
    Options(Look { glance }): Options<Look>,
) -> Result<Json<AgentAnswer>, Problem> {
    let agent = match glance {
        true => agents::glance(&app.host, &name).await?,
        false => agents::get(&app.host, &name).await?,
    };
    Ok(Json(agent.into()))
}

pub async fn edit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    _: Chosen,
    Given(edit): Given<Edit>,
) -> Result<Json<SavedAgent>, Problem> {
    Ok(Json(agents::edit(&app.host, &name, edit, &caller.who()).await?.into()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    state: AgentState,
}

pub async fn stand(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    _: Chosen,
    Given(Standing { state }): Given<Standing>,
) -> Result<Json<AgentAnswer>, Problem> {
    Ok(Json(agents::stand(&app.host, &name, state, &caller.who()).await?.into()))
}
