//! Says words to one session, one after the other and each until it is taken or cannot be. A word
//! carries its number in every try, so that a remote that took it and whose answer was lost does not
//! take it again. What the remote refuses is told and left; what it cannot take for too long is the
//! end.

use super::ear::{gone, stale};
use super::link::{Link, Trouble};
use super::tongue::Tongue;
use super::{Limits, News};
use contract::{Code, Fault};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Whoever speaks to a session.
pub struct Mouth {
    pub link: Link,
    pub tongue: Tongue,
    pub session: String,
    pub limits: Limits,
    /// Under which fence the session was opened: it goes with every word, so that none is taken of
    /// someone who owns the work no longer.
    pub fence: Option<u64>,
    pub news: mpsc::Sender<News>,
}

/// One word, with the number that it keeps.
#[derive(Debug)]
pub struct Said {
    pub n: u64,
    pub body: String,
}

impl Mouth {
    /// Says what comes, in order, until nothing more will.
    pub async fn speak(self, mut words: mpsc::Receiver<Said>) {
        while let Some(said) = words.recv().await {
            if let Err(fault) = self.say(&said).await {
                // Without a receiver the session is over.
                let _ = self.news.send(News::Over(fault)).await;
                return;
            }
        }
    }

    async fn say(&self, said: &Said) -> Result<(), Fault> {
        let began = Instant::now();
        let mut tries = 0;
        loop {
            match self.post(said).await {
                Ok(()) => return Ok(()),
                Err(Trouble::Passing(why)) if began.elapsed() >= self.limits.lost => {
                    let message = format!("{why}; the message was sent {} times", tries + 1);
                    return Err(Fault::new(Code::RemoteLost, message));
                }
                Err(Trouble::Passing(_)) => {
                    tokio::time::sleep(self.limits.pause(tries)).await;
                    tries += 1;
                }
                Err(Trouble::Gone) => return Err(gone()),
                Err(Trouble::Stale) => return Err(stale()),
                Err(Trouble::Lasting(fault)) => return Err(fault),
                Err(Trouble::Refused(why)) => {
                    let note = format!("the remote did not accept a message: {why}");
                    // Without a receiver the session is over.
                    let _ = self.news.send(News::Note(note)).await;
                    return Ok(());
                }
            }
        }
    }

    async fn post(&self, said: &Said) -> Result<(), Trouble> {
        match self.tongue.input(&self.link, &self.session, self.fence, said) {
            Some(request) => self.link.answer(request).await.map(|_| ()),
            None => Ok(()),
        }
    }
}
