//! `ostler token`: tokens of the API for others, and links that sign a browser in. A token is printed
//! once, on standard output and alone, so that it can be put somewhere without being read.

use super::{Context, Stopped};
use crate::args;
use crate::client::{Client, escaped};
use crate::hosting::Purpose;
use crate::render;
use crate::terminal;
use crate::way::Way;
use contract::plan::Limit;
use contract::{Code, Fault, Scope};
use host::ops::token::{GivenToken, TokenRequest};
use serde_json::json;
use server::sign_in::Link;
use std::io::Write as _;
use std::process::ExitCode;
use store::TokenRow;

pub async fn token(context: &Context, args: Option<args::Token>) -> Result<ExitCode, Stopped> {
    match args.unwrap_or(args::Token::List) {
        args::Token::Add { name, scope, expires } => add(context, name, scope, expires).await,
        args::Token::List => list(context).await,
        args::Token::Revoke { token } => revoke(context, &token).await,
        args::Token::Link { scope } => {
            let link = asked(context, async |client| link(client, scope).await).await?;
            match context.global.json {
                true => context.print_json(&link)?,
                false => {
                    let told = format!("the link signs a browser in as {}, once:", scope.word());
                    terminal::remark(&told);
                    context.print(&link.url)?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Asks whoever hosts, once: what is made here is made once.
async fn asked<T>(
    context: &Context,
    ask: impl AsyncFn(&Client) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let place = context.place()?;
    let way = Way::find(&place, Purpose::Act).await?;
    let answer = ask(&way.client).await;
    way.finish().await;
    answer
}

async fn add(
    context: &Context,
    name: String,
    scope: Scope,
    expires: Limit,
) -> Result<ExitCode, Stopped> {
    let expires_ms = match expires {
        Limit::Unlimited => None,
        Limit::Ms(ms) => Some(ms),
    };
    let request = TokenRequest { name, scope, expires_ms };
    let given: GivenToken =
        asked(context, async |client| client.send("/api/v1/tokens", &request).await).await?;
    if context.global.json {
        context.print_named(&given, ("id", "token_id"))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Whoever reads the token only is not kept from it.
    let _ = writeln!(std::io::stderr(), "{} token {}; it is shown only once:", scope.word(), {
        render::tail(&given.row.id.to_string()).to_owned()
    });
    context.print(&given.token)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(context: &Context) -> Result<ExitCode, Stopped> {
    let rows: Vec<TokenRow> =
        context.ask(async |client| Ok(client.all("/api/v1/tokens").await?)).await?;
    if context.global.json {
        context.print_named(&rows, ("id", "token_id"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        context.print("no tokens; the owner's token is the file `token` in the data directory")?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    let (now, columns) = (host::clock::now().wall, surroundings.columns_to_fill());
    context.print_rendered(&render::tokens_table(&rows, now, columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

async fn revoke(context: &Context, token: &str) -> Result<ExitCode, Stopped> {
    let path = format!("/api/v1/tokens/{}/revoke", escaped(token));
    let row: TokenRow = asked(context, async |client| client.send(&path, &json!({})).await).await?;
    match context.global.json {
        true => context.print_named(&row, ("id", "token_id"))?,
        false => context.print(&format!("token '{}' revoked", row.name))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A link that signs a browser in. It lives as long as its host, so only a server has any.
pub async fn link(client: &Client, scope: Scope) -> Result<Link, Fault> {
    if !client.serves().await {
        return Err(Fault::new(
            Code::Conflict,
            "no server is running that accepts a browser sign-in",
        )
        .with_hint("start `ostler serve --sign-in`"));
    }
    client.send("/api/v1/sign-in", &json!({ "scope": scope })).await
}
