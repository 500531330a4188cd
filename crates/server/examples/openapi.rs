//! Prints the OpenAPI document as `docs/openapi.json` keeps it. For `cargo xtask docs`, which is built
//! without the server; nothing of this is shipped.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let document = server::rest::openapi::document();
    let text = serde_json::to_string_pretty(&document)?;
    writeln!(std::io::stdout(), "{text}")
}
