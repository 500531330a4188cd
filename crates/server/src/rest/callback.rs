//! The way in for services that call back: events of a run, with the token of that run while it lives.
//! What is answered with 202 is durable. A token that was good once is refused with `fence_stale` by
//! the guard, so that a service knows that the work is not its own any more.

use super::describe::Taken;
use super::{Named, Problem, Told};
use crate::App;
use crate::auth::Caller;
use axum::Extension;
use axum::extract::State;
use contract::{Code, Fault};
use host::ops::{callback, run};
use serde_json::Value;

pub async fn take(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(named): Named,
    Told(given): Told<Value>,
) -> Result<Taken, Problem> {
    let bearer = match caller {
        Caller::Run(bearer) if bearer.run.to_string() == named => bearer,
        Caller::Run(_) => {
            return Err(Fault::new(Code::Forbidden, "this is not the token of that run").into());
        }
        Caller::Person(_) => {
            run::find(&app.host, &named).await?;
            return Err(Fault::new(Code::Forbidden, "only the agent of a run may send its events")
                .with_hint("a service finds its token in leaseToken of its task")
                .into());
        }
    };
    callback::take(&app.host, bearer, given).await?;
    Ok(Taken)
}
