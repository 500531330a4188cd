//! Where earlier hosts listened. Agents were told those addresses and know no other, so a host that
//! takes runs over listens there too, with the same guard and the same routes, until the last run
//! that was told an address has ended. An address that someone else has by then is told to its runs,
//! and tried again.

use contract::limits::DOORS_MAX;
use host::Host;
use host::supervise;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How often an address that someone else has is tried again.
const DOOR_RETRY: Duration = Duration::from_secs(2);
/// How long requests under way may take when the host leaves.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The addresses that are listened at beside the host's own.
pub struct Doors {
    open: Vec<JoinHandle<()>>,
    /// Those of runs that are still being taken over.
    later: Option<JoinHandle<Doors>>,
}

impl Doors {
    /// Opens them when the runs are taken over, which `adopted` waits for.
    pub fn open_after(
        adopted: impl Future<Output = ()> + Send + 'static,
        host: &Host,
        token: &str,
    ) -> Self {
        let (host, token) = (host.clone(), token.to_owned());
        let later = supervise::spawn("earlier addresses", async move {
            adopted.await;
            Self::open(&host, &token).await
        });
        Self { open: Vec::new(), later: Some(later) }
    }

    /// Opens them for the runs that were taken over. Each was tried once when this returns.
    pub async fn open(host: &Host, token: &str) -> Self {
        let mut open = Vec::new();
        let told = host.told_elsewhere();
        for address in told.iter().skip(DOORS_MAX) {
            host.tell_of_closed_door(address, &format!("{DOORS_MAX} others are open"));
        }
        for address in told.into_iter().take(DOORS_MAX) {
            let listening = listen(&address).await;
            let (host, token) = (host.clone(), token.to_owned());
            open.push(supervise::spawn(
                "earlier address",
                keep_open(host, token, address, listening),
            ));
        }
        Self { open, later: None }
    }

    /// Waits until all are closed, so that the next host can open them. The host is leaving.
    pub async fn close(self) {
        let closed = async {
            let mut open = self.open;
            if let Some(later) = self.later {
                // A panic is logged by the supervisor.
                open.extend(later.await.map(|doors| doors.open).unwrap_or_default());
            }
            futures::future::join_all(open).await
        };
        if tokio::time::timeout(CLOSE_MAX, closed).await.is_err() {
            tracing::warn!("an address of an earlier host was not closed in time");
        }
    }
}

async fn listen(address: &str) -> Result<server::Listening, contract::Fault> {
    server::listen(address.strip_prefix("http://").unwrap_or(address)).await
}

async fn keep_open(
    host: Host,
    token: String,
    address: String,
    mut listening: Result<server::Listening, contract::Fault>,
) {
    let mut told = false;
    loop {
        let over = over(host.clone(), address.clone());
        match listening {
            Ok(listening) => {
                // An agent that is not served any more asks again, or its run has ended.
                if let Err(error) = listening.serve(host, token, over).await {
                    tracing::warn!(address, %error, "the listener at an earlier address stopped");
                }
                return;
            }
            Err(fault) => {
                if !std::mem::replace(&mut told, true) {
                    let error = &fault.message;
                    tracing::warn!(address, error, "an earlier address cannot be listened at");
                    host.tell_of_closed_door(&address, &fault.message);
                }
                tokio::select! {
                    () = over => return,
                    () = tokio::time::sleep(DOOR_RETRY) => {}
                }
            }
        }
        listening = listen(&address).await;
    }
}

/// Until nobody looks here any more, or the host leaves.
async fn over(host: Host, address: String) {
    let mut leaving = host.leaving();
    tokio::select! {
        () = host.untold(&address) => {}
        _ = leaving.changed() => {}
    }
}
