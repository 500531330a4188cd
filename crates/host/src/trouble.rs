//! Storage trouble: a full disk, a disk that became read-only, an error of the device. Agents do not
//! notice, they write to their spools; what was heard is tried again by its driver. While it lasts,
//! nothing new is started and everyone who asks is told. It is over when a probe of the store says
//! so, which is tried without end. A sync that failed is never over: this host lets go of its runs
//! and ends, and the next one reads the disk afresh.

use crate::supervise;
use crate::{Host, Inner, clock};
use contract::{Code, Fault, Timestamp};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use store::{Error, Room};

/// How long to wait before a store that is in trouble is asked again.
pub(crate) const STORE_RETRY: Duration = Duration::from_millis(500);

/// What is wrong with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Trouble {
    pub code: Code,
    pub since: Timestamp,
    /// Nobody knows what is on the disk: this host may not go on.
    #[serde(rename = "final")]
    pub is_final: bool,
}

impl Trouble {
    /// What someone is told who wants something new.
    pub fn fault(&self) -> Fault {
        let message = match self.is_final {
            true => "the store could not confirm that the disk has the written data".to_owned(),
            false => {
                format!("no runs are started because the store has failed, since {}", self.since)
            }
        };
        Fault::new(self.code, message)
    }
}

/// What an answer of the store says about the store itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// Nothing: it did as asked, or refused for a reason of its own.
    None,
    Trouble(Code),
    Final(Code),
}

fn sign(error: &Error) -> Sign {
    match error {
        Error::DiskFull { .. } | Error::Unreadable { .. } => Sign::Trouble(error.code()),
        Error::Unsynced { .. } => Sign::Final(error.code()),
        Error::NotFound { .. }
        | Error::Conflict { .. }
        | Error::FenceStale { .. }
        | Error::TooMany { .. }
        | Error::PoolFull { .. }
        | Error::BudgetExceeded { .. }
        | Error::Newer { .. }
        | Error::Locked { .. }
        | Error::Damaged { .. }
        | Error::Unacknowledged
        | Error::Closed => Sign::None,
    }
}

impl Host {
    /// What is wrong with the store, if anything is.
    pub fn trouble(&self) -> Option<Trouble> {
        self.inner.trouble()
    }

    /// Waits until this host may not go on, and says why.
    pub async fn broken(&self) -> Fault {
        let mut trouble = self.inner.trouble.subscribe();
        let is_final = |trouble: &Option<Trouble>| trouble.is_some_and(|trouble| trouble.is_final);
        match trouble.wait_for(is_final).await.map(|trouble| *trouble) {
            Ok(Some(trouble)) => trouble.fault(),
            // The sender lives in `self`, so this is never reached.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Inner {
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        *self.trouble.borrow()
    }

    /// Takes note of what an answer of the store says about the store.
    pub(crate) fn heed<T>(self: &Arc<Self>, answer: Result<T, Error>) -> Result<T, Error> {
        match answer.as_ref().err().map_or(Sign::None, sign) {
            Sign::None => {}
            Sign::Trouble(code) => self.begin_trouble(code),
            Sign::Final(code) => self.end_for_good(code),
        }
        answer
    }

    /// The same, for what may have used the reserve: then the disk is full, though it was done.
    pub(crate) fn heed_room(self: &Arc<Self>, answer: Result<Room, Error>) -> Result<(), Error> {
        match self.heed(answer)? {
            Room::Ordinary => {}
            Room::Reserve => self.begin_trouble(Code::DiskFull),
        }
        Ok(())
    }

    fn begin_trouble(self: &Arc<Self>, code: Code) {
        let began = self.trouble.send_if_modified(|trouble| {
            let began = trouble.is_none();
            if began {
                *trouble = Some(Trouble { code, since: clock::now().wall, is_final: false });
            }
            began
        });
        if began {
            tracing::error!(code = code.word(), "the store has failed; no runs are started");
            supervise::spawn("probe store", Arc::clone(self).probe_until_well());
        }
    }

    async fn probe_until_well(self: Arc<Self>) {
        loop {
            tokio::time::sleep(STORE_RETRY).await;
            let error = match self.store.probe().await {
                Ok(()) => {
                    self.trouble.send_replace(None);
                    tracing::info!("the store works again");
                    return;
                }
                Err(error) => error,
            };
            match sign(&error) {
                Sign::Trouble(code) => self.trouble.send_modify(|trouble| {
                    if let Some(trouble) = trouble {
                        trouble.code = code;
                    }
                }),
                Sign::Final(code) => return self.end_for_good(code),
                // Busy is no trouble, but no proof either; a closed store is nobody's any more.
                Sign::None if matches!(error, Error::Closed) => return,
                Sign::None => {}
            }
        }
    }

    /// Every driver lets go of its run: the keepers live on until the next host comes.
    fn end_for_good(&self, code: Code) {
        let is_final = |trouble: &Option<Trouble>| trouble.is_some_and(|trouble| trouble.is_final);
        let first = self.trouble.send_if_modified(|trouble| {
            let first = !is_final(trouble);
            if first {
                *trouble = Some(Trouble { code, since: clock::now().wall, is_final: true });
            }
            first
        });
        if first {
            tracing::error!(
                code = code.word(),
                "the store cannot confirm its writes; this host stops"
            );
            self.leaving.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_disk_is_trouble_and_only_a_failed_sync_is_final() {
        let doing = || "x".to_owned();
        let cause: store::Cause = Arc::new(std::io::Error::other("y"));
        let rows = [
            (Error::DiskFull { doing: doing() }, Sign::Trouble(Code::DiskFull)),
            (Error::Unreadable { doing: doing(), cause }, Sign::Trouble(Code::StoreUnreadable)),
            (Error::Unsynced { doing: doing() }, Sign::Final(Code::StoreUnreadable)),
            (Error::Locked { doing: doing() }, Sign::None),
            (Error::Conflict { what: doing() }, Sign::None),
            (Error::Closed, Sign::None),
        ];
        for (error, expected) in rows {
            assert_eq!(sign(&error), expected, "{error}");
        }
    }
}
