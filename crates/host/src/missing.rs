//! An agent whose program is not there: how it can be had, from its runtime's card, as the hint of an
//! error before the end of the run. Only for the program that the card itself names; one that was
//! configured is known to whoever configured it.

use contract::event::{self, Body};
use contract::{Card, Code, Draft};

/// What to tell of a program that could not be found, by the words of who looked for it.
pub(crate) fn told(card: &Card, error: &str) -> Option<Draft> {
    let named = |binary: &str| error.split([' ', ':']).any(|word| word == binary);
    let wanted = card.requires.iter().find(|wanted| named(&wanted.binary))?;
    let hint = format!(
        "install it with `{}`, or set the adapter's binary to its full path",
        wanted.install_hint
    );
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
