//! What can be run and configured, over HTTP: runtimes, adapters, the schema of the configuration and
//! doctor. Forms and language models read these before they hire an agent.

use super::page::{ByName, page_of};
use super::{Given, Named, Options, Problem};
use crate::App;
use crate::auth::Caller;
use axum::extract::State;
use axum::{Extension, Json};
use contract::diagnosis::Diagnosis;
use contract::{Code, Fault, Page, Scope};
use host::ops::doctor::{self, DoctorRequest, ModelListing};
use host::ops::runtimes::{self, AdapterView, RuntimeSummary, RuntimeView};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub async fn list(
    State(app): State<App>,
    Options(ByName { limit, after }): Options<ByName>,
) -> Result<Json<Page<RuntimeSummary>>, Problem> {
    let rows = runtimes::list(&app.host).await?;
    Ok(Json(page(rows, limit, &after, |one| &one.id)))
}

pub async fn show(
    State(app): State<App>,
    Named(runtime): Named,
) -> Result<Json<RuntimeView>, Problem> {
    Ok(Json(runtimes::get(&app.host, &runtime).await?))
}

pub async fn models(
    State(app): State<App>,
    Named(runtime): Named,
) -> Result<Json<ModelListing>, Problem> {
    Ok(Json(doctor::models(&app.host, &runtime).await?))
}

pub async fn adapters(
    State(app): State<App>,
    Options(ByName { limit, after }): Options<ByName>,
) -> Result<Json<Page<AdapterView>>, Problem> {
    let rows = runtimes::adapters(&app.host).await?;
    Ok(Json(page(rows, limit, &after, |one| &one.name)))
}

/// A JSON Schema of draft 2020-12.
#[derive(Serialize, JsonSchema)]
pub struct ConfigSchema(Map<String, Value>);

pub async fn config_schema() -> Json<ConfigSchema> {
    match contract::config::schema() {
        Value::Object(schema) => Json(ConfigSchema(schema)),
        // A schema of a struct is an object.
        _ => Json(ConfigSchema(Map::new())),
    }
}

/// An adapter in the request names a program to start, which is a shell: it needs the scope admin, as it
/// does in a request for a run.
pub async fn diagnose(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Given(request): Given<DoctorRequest>,
) -> Result<Json<Diagnosis>, Problem> {
    if request.adapter.is_some() && !caller.has(Scope::Admin) {
        let message = "an adapter in the request needs the scope admin";
        return Err(Fault::new(Code::Forbidden, message)
            .with_hint("name an adapter of the configuration")
            .into());
    }
    Ok(Json(doctor::diagnose(&app.host, request).await?))
}

/// So many rows behind a name.
fn page<T>(rows: Vec<T>, limit: Option<u32>, after: &str, name: fn(&T) -> &String) -> Page<T> {
    let limit = page_of(limit);
    let behind = rows.into_iter().filter(|row| name(row).as_str() > after);
    Page::of(behind.take(limit + 1).collect(), limit, |row| name(row).clone())
}
