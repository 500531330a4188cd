//! The beginning and the end of a session at its remote: it is asked for until it is there or will not
//! be, and taken away whether the remote likes it or not. Both are safe to do twice.

use super::link::{Link, Trouble};
use super::tongue::Tongue;
use super::{Limits, ear};
use crate::wire::{NewSession, Session};
use contract::limits::REMOTE_DELETE_MS;
use contract::{Code, Fault};
use std::time::Duration;
use tokio::time::Instant;

/// Asks for a session, for as long as it may help: asking again is asking once.
pub async fn open(
    link: &Link,
    tongue: Tongue,
    limits: Limits,
    asked: &NewSession,
    body: &str,
) -> Result<Session, Fault> {
    let began = Instant::now();
    let mut tries = 0;
    loop {
        let why = match link.answer(tongue.create(link, asked, body)).await {
            Ok(answer) => return tongue.session(&answer),
            Err(Trouble::Passing(why)) => why,
            Err(Trouble::Lasting(fault)) => return Err(fault),
            Err(Trouble::Stale) => return Err(ear::stale()),
            Err(Trouble::Refused(why)) => return Err(Fault::new(Code::ProtocolError, why)),
            Err(Trouble::Gone) => {
                let message = "it does not accept sessions: is baseUrl the address of a remote?";
                return Err(Fault::new(Code::ProtocolError, message));
            }
        };
        if began.elapsed() >= limits.start {
            return Err(Fault::new(Code::RemoteUnavailable, why));
        }
        tokio::time::sleep(limits.pause(tries)).await;
        tries += 1;
    }
}

/// Takes a session away. False when it was not there any more.
pub async fn delete(link: &Link, tongue: Tongue, session: &str) -> bool {
    let Some(request) = tongue.delete(link, session) else { return false };
    let answer = link.answer(request);
    let answer = tokio::time::timeout(Duration::from_millis(REMOTE_DELETE_MS), answer);
    !matches!(answer.await, Ok(Err(Trouble::Gone)))
}
