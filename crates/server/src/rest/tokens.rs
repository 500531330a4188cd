//! Tokens over HTTP: which there are, one more, one less. A token is shown when it is made and never
//! again, so its answer is kept under no key either.

use super::describe::With;
use super::{Given, Named, Problem};
use crate::App;
use crate::auth::Caller;
use axum::extract::State;
use axum::{Extension, Json};
use host::ops::token::{self, GivenToken, TokenRequest};
use store::TokenRow;

pub async fn list(State(app): State<App>) -> Result<Json<Vec<TokenRow>>, Problem> {
    Ok(Json(token::list(&app.host).await?))
}

pub async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Given(request): Given<TokenRequest>,
) -> Result<With<201, GivenToken>, Problem> {
    Ok(With(token::add(&app.host, request, &caller.who()).await?))
}

pub async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(given): Named,
) -> Result<Json<TokenRow>, Problem> {
    Ok(Json(token::revoke(&app.host, &given, &caller.who()).await?))
}
