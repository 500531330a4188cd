//! Agents over HTTP: list, hire, look at one, change it, and how it stands.

use super::{Given, Named, Problem};
use crate::App;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use contract::state::AgentState;
use contract::{Code, Fault};
use host::ops::agents::{self, AgentView, Edit, Hire, Saved};
use serde::Deserialize;

/// Who acts with the token of the data directory.
pub(super) const OPERATOR: &str = "operator";

pub async fn list(State(app): State<App>) -> Result<Json<Vec<AgentView>>, Problem> {
    Ok(Json(agents::list(&app.host).await?))
}

pub async fn hire(
    State(app): State<App>,
    Given(hire): Given<Hire>,
) -> Result<(StatusCode, Json<Saved>), Problem> {
    Ok((StatusCode::CREATED, Json(agents::hire(&app.host, hire, OPERATOR).await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Without what it runs and spends, which takes a while to count.
    #[serde(default)]
    glance: bool,
}

pub async fn show(
    State(app): State<App>,
    Named(name): Named,
    look: Result<Query<Look>, QueryRejection>,
) -> Result<Json<AgentView>, Problem> {
    let Query(Look { glance }) =
        look.map_err(|error| Problem(Fault::new(Code::Usage, error.body_text())))?;
    Ok(Json(match glance {
        true => agents::glance(&app.host, &name).await?,
        false => agents::get(&app.host, &name).await?,
    }))
}

pub async fn edit(
    State(app): State<App>,
    Named(name): Named,
    Given(edit): Given<Edit>,
) -> Result<Json<Saved>, Problem> {
    Ok(Json(agents::edit(&app.host, &name, edit, OPERATOR).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    state: AgentState,
}

pub async fn stand(
    State(app): State<App>,
    Named(name): Named,
    Given(Standing { state }): Given<Standing>,
) -> Result<Json<AgentView>, Problem> {
    Ok(Json(agents::stand(&app.host, &name, state, OPERATOR).await?))
}
