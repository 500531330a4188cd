//! An agent whose program is not there: how it is installed, as the hint of an error before the end of
//! the run. Only for programs that Ostler knows; another one is known to whoever configured it.

use contract::event::{self, Body};
use contract::{Card, Code, Draft};
use runtimes::registry;

/// The error for a program that could not be found, by the words of the failed start.
pub(crate) fn told(card: &Card, error: &str) -> Option<Draft> {
    let words = || error.split([' ', ':']).filter(|word| !word.is_empty());
    let named = |binary: &str| words().any(|word| word == binary);
    let of_card = card.requires.iter().find(|wanted| named(&wanted.binary));
    let of_card = of_card.map(|wanted| wanted.install_hint.clone());
    // Whoever configured a path knows where the program comes from.
    let names = || words().filter(|word| !word.contains('/'));
    let install = of_card.or_else(|| names().find_map(registry::install_hint))?;
    let how = match install.starts_with("see ") {
        true => format!("install it ({install})"),
        false => format!("install it with `{install}`"),
    };
    let hint = format!("{how}, or set the adapter's binary to its full path");
    let (code, detail) = (Code::NotInstalled, None);
    Some(Draft::ostler(Body::Error(event::Error {
        code,
        message: code.row().message.to_owned(),
        retryable: code.retryable(),
        retry_at: None,
        hint: Some(hint),
        detail,
    })))
}
