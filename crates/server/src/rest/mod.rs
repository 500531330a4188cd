//! The table of routes, and how faults become answers. One file per noun.

mod agents;
mod asks;
mod callback;
mod host;
mod money;
mod openapi;
mod runs;
mod tasks;
mod workspace;

use crate::App;
use axum::extract::{FromRequest, FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use contract::{Code, Fault};
use serde::de::DeserializeOwned;

/// One address and what it takes.
pub struct Route {
    pub path: &'static str,
    pub methods: &'static [(&'static str, &'static str)],
    make: fn() -> MethodRouter<App>,
}

/// The whole surface. The second word of a method is its summary in the OpenAPI document.
pub const ROUTES: &[Route] = &[
    Route {
        path: "/healthz",
        methods: &[("get", "whether the host lives")],
        make: || get(host::healthz),
    },
    Route {
        path: "/mcp",
        methods: &[("post", "relayed tools by MCP, for the token of a live run")],
        make: || post(crate::mcp::take),
    },
    Route {
        path: "/api/v1/host",
        methods: &[("get", "who hosts this data directory, and how its store is")],
        make: || get(host::show),
    },
    Route {
        path: "/api/v1/host/handover",
        methods: &[("post", "make room for another host; a server does not")],
        make: || post(host::hand_over),
    },
    Route {
        path: "/api/v1/openapi.json",
        methods: &[("get", "this document")],
        make: || get(openapi::show),
    },
    Route {
        path: "/api/v1/runs",
        methods: &[
            ("get", "runs, newest first"),
            (
                "post",
                "start a run: 201, or 202 while it waits for a slot and is to be asked for again",
            ),
        ],
        make: || get(runs::list).post(runs::start),
    },
    Route {
        path: "/api/v1/runs/{run}",
        methods: &[("get", "one run"), ("delete", "delete a run that has ended; its costs stay")],
        make: || get(runs::show).delete(runs::delete),
    },
    Route {
        path: "/api/v1/runs/{run}/plan",
        methods: &[("get", "its sealed launch plan")],
        make: || get(runs::plan),
    },
    Route {
        path: "/api/v1/runs/{run}/trace",
        methods: &[("get", "its sealed raw output, as JSON lines")],
        make: || get(runs::trace),
    },
    Route {
        path: "/api/v1/runs/{run}/events",
        methods: &[(
            "get",
            "its events: server-sent and followed with accept: text/event-stream, else JSON lines up to now",
        )],
        make: || get(runs::events),
    },
    Route {
        path: "/api/v1/runs/{run}/workspace",
        methods: &[(
            "get",
            "its workspace as a tar file, for the token of that run while it lives",
        )],
        make: || get(workspace::show),
    },
    Route {
        path: "/api/v1/runs/{run}/callback",
        methods: &[("post", "events of a service that calls back, for the token of its live run")],
        make: || post(callback::take),
    },
    Route {
        path: "/api/v1/runs/{run}/commands",
        methods: &[("post", "wish something of a live run")],
        make: || post(runs::wish),
    },
    Route {
        path: "/api/v1/tasks",
        methods: &[("get", "tasks, oldest first: state=waiting has those that wait for a slot")],
        make: || get(tasks::list),
    },
    Route {
        path: "/api/v1/tasks/{task}",
        methods: &[("get", "one task, by its own id or by that of a run of it")],
        make: || get(tasks::show),
    },
    Route {
        path: "/api/v1/agents",
        methods: &[
            ("get", "who works here: hired, or configured"),
            ("post", "hire an agent: its name, and as spec what agents.<name> takes"),
        ],
        make: || get(agents::list).post(agents::hire),
    },
    Route {
        path: "/api/v1/agents/{agent}",
        methods: &[
            ("get", "one agent; glance=true leaves out what it runs and spends"),
            ("patch", "change the spec of a hired agent; a key that is null goes away"),
        ],
        make: || get(agents::show).patch(agents::edit),
    },
    Route {
        path: "/api/v1/agents/{agent}/state",
        methods: &[("post", "pause, resume or retire an agent: paused, active, retired")],
        make: || post(agents::stand),
    },
    Route {
        path: "/api/v1/asks",
        methods: &[("get", "questions that wait for a person")],
        make: || get(asks::list),
    },
    Route {
        path: "/api/v1/asks/{ask}/answer",
        methods: &[("post", "answer a question")],
        make: || post(asks::answer),
    },
    Route {
        path: "/api/v1/costs",
        methods: &[(
            "get",
            "what was spent: by=day,agent,adapter,model and since=2026-11-01 or 7d",
        )],
        make: || get(money::costs),
    },
    Route {
        path: "/api/v1/prices",
        methods: &[
            ("get", "the prices that count: model is a part of the name"),
            ("post", "import prices in the format of LiteLLM or models.dev"),
        ],
        make: || get(money::prices).post(money::import),
    },
    Route {
        path: "/api/v1/blobs/{hash}",
        methods: &[("get", "a blob that an event names")],
        make: || get(runs::blob),
    },
];

pub fn routes() -> Router<App> {
    let router = ROUTES.iter().fold(Router::new(), |router, route| {
        router.route(route.path, (route.make)().fallback(method_not_allowed))
    });
    router.fallback(not_found)
}

async fn method_not_allowed() -> Problem {
    Problem(Fault::new(Code::MethodNotAllowed, "this address does not take that method"))
}

async fn not_found() -> Problem {
    Problem(
        Fault::new(Code::NotFound, "there is nothing at this address")
            .with_hint("see /api/v1/openapi.json"),
    )
}

/// A fault as an answer: its status from the one table, its body the fault itself.
pub struct Problem(pub Fault);

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(mut fault) = self;
        let status = StatusCode::from_u16(fault.code.row().http)
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        fault.hint = Some(fault.hint().to_owned());
        (status, Json(fault)).into_response()
    }
}

/// A JSON body whose faults are ours.
pub struct Given<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Given<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(given)) => Ok(Self(given)),
            Err(error) => Err(Problem(Fault::new(Code::Usage, error.body_text()))),
        }
    }
}

/// The one parameter of an address, as text.
pub struct Named(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(error) => Err(Problem(Fault::new(Code::Usage, error.body_text()))),
        }
    }
}
