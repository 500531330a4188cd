//! Tokens over HTTP: which there are, one more, one less. A token is shown when it is made and never
//! again, so its answer is kept under no key either.

use super::describe::With;
use super::page::{ById, page_of};
use super::views::{self, Token};
use super::{Given, Named, Options, Problem};
use crate::App;
use crate::auth::Caller;
use axum::extract::State;
use axum::{Extension, Json};
use contract::{Page, TokenId};
use host::ops::token::{self, GivenToken, TokenRequest};

pub async fn list(
    State(app): State<App>,
    Options(ById { limit, after }): Options<ById<TokenId>>,
) -> Result<Json<Page<Token>>, Problem> {
    let limit = page_of(limit);
    let rows = token::list(&app.host, after, limit + 1).await?;
    let page = Page::of(rows, limit, |token| token.id.to_string());
    Ok(Json(Page { items: views::all(page.items), next: page.next }))
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
) -> Result<Json<Token>, Problem> {
    Ok(Json(token::revoke(&app.host, &given, &caller.who()).await?.into()))
}
