//! The workspace of a run over HTTP, as a tar file: for the token of that run, while it lives, and
//! for no other. The owner has the directory itself.

use super::describe::{Sent, Tar};
use super::{Named, Problem};
use crate::App;
use crate::auth::Caller;
use crate::patience::Hurry;
use crate::watchers::Leash;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use bytes::Bytes;
use contract::{Code, Fault};
use futures::stream;
use host::blocking;
use host::ops::{run, snapshot};

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(hurry): Extension<Hurry>,
    Named(named): Named,
) -> Result<Sent<Tar>, Problem> {
    let bearer = match caller {
        Caller::Run(bearer) if bearer.run.to_string() == named => bearer,
        Caller::Run(_) => {
            return Err(Fault::new(Code::Forbidden, "this is not the token of that run").into());
        }
        Caller::Person(_) => {
            run::find(&app.host, &named).await?;
            return Err(Fault::new(Code::Forbidden, "only the run itself may read its workspace")
                .with_hint("an agent finds its token in OSTLER_LEASE_TOKEN")
                .into());
        }
    };
    let caller = Caller::Run(bearer);
    let place = app.watchers.take(&caller)?;
    let leash = Leash::of(&app.host, &caller, hurry);
    let taken = snapshot::take(&app.host, bearer).await?;
    let kept = (app.host.attach(), place, leash);
    let pieces = stream::unfold(Some((taken.reader, taken.dir, kept)), async |open| {
        let (mut reader, dir, kept) = open?;
        let read = move || (reader.piece(), reader);
        let read = blocking::work_in(&dir, "read the working directory", read).await;
        match read {
            Ok((Ok(piece), reader)) => Some((Ok(Bytes::from(piece?)), Some((reader, dir, kept)))),
            Ok((Err(error), _)) => Some((Err(error), None)),
            Err(fault) => Some((Err(std::io::Error::other(fault.message)), None)),
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_LENGTH, taken.bytes.to_string()),
        (header::ETAG, format!("\"{}\"", taken.digest)),
    ];
    Ok(Sent::new((headers, Body::from_stream(pieces))))
}
