//! An agent that goes on elsewhere although its keeper is gone: a remote, whose session outlives
//! whoever held it here. What is in the spool is heard and committed first; then a second courier is
//! started that takes the session up behind the last stored event, with a keeper and a spool of its
//! own. Words that may not have been said are said again: they are numbered, and a remote takes each
//! once. A session of an earlier fence is taken up only to be taken away.

use crate::adopt::{self, Relays};
use crate::drive::{Again, Drive};
use crate::environment;
use crate::keepsake;
use crate::ops::start::own_program;
use crate::token_file;
use contract::event::{Body, Lifecycle, Phase};
use contract::limits::{self, ATTEMPTS_MAX, REMOTE_ATTACHES_MAX};
use contract::plan::{EnvEntry, EnvSource};
use contract::{Code, Draft, Fault};
use engine::{Input, Now};
use keeper::plan::{LeaseClock, Plan, StdinMode};
use runtimes::passed_env::{ENV_ALLOWLIST, ENV_ALLOWLIST_PREFIXES};
use runtimes::registry::{self, Left};
use store::seal::Seal;

impl Drive {
    /// Whether the agent lives on without its keeper, and can be held again.
    pub(crate) fn goes_on_elsewhere(&self) -> bool {
        // Without the run's secrets nothing that it says could be kept.
        self.blind.is_none()
            && self.attempt < ATTEMPTS_MAX + REMOTE_ATTACHES_MAX
            && self.left().is_some()
    }

    fn left(&self) -> Option<Left> {
        registry::left(&self.runtime.card().id, &self.dialect.save())
    }

    /// Holds it again. All that was heard of it is committed.
    pub(crate) async fn take_up_elsewhere(&mut self, now: Now) {
        let left = self.left();
        let file = left.as_ref().and_then(|left| left.token_file.clone());
        let new_token = match file {
            // Without it the token that the run began with may still be good.
            Some(file) => token_file::read_aside(file).await.inspect_err(|fault| {
                tracing::warn!(error = fault.message, "the token before is used again");
            }),
            None => Err(Fault::new(Code::AuthRequired, "no token file")),
        };
        let new_token = new_token.ok(); // Logged above.
        let Some((left, again)) =
            left.and_then(|left| Some((left.fence, self.again(left, new_token)?)))
        else {
            return self.lose(now, "its session could not be resumed".to_owned());
        };
        let point = self.house.store.resume_point(self.run).await;
        let relays = match self.shut.take() {
            Some(_) => Relays::Again,
            None => Relays::UnderWay,
        };
        self.again = Some(Box::new(again));
        let body = Lifecycle {
            phase: Phase::AttemptEnded,
            why: Some("its keeper is gone; its session is resumed".to_owned()),
            pid: None,
            isolation: None,
        };
        self.pending.drafts.push(Draft::ostler(Body::Lifecycle(body)));
        self.relaunch(now);
        match point {
            Ok(Some(point)) => self.go_on(now, point, 0, relays),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "what the run had begun cannot be read, and is not repeated");
            }
        }
        if left.is_some_and(|fence| fence != self.fence) {
            self.step(now, Input::LeaseLost);
        }
    }

    /// The same conversation with another courier.
    fn again(&mut self, left: Left, new_token: Option<String>) -> Option<Again> {
        let house = &self.house;
        let attempt = self.attempt + 1;
        let secret = house.keepsake_secret(self.run, self.attempt);
        let mut secrets = keepsake::find(&self.spool, &secret)?;
        let mut env = courier_environment(&house.environment);
        env.push((adopt::MARK.to_owned(), self.run.to_string()));
        if let Some(name) = left.token_env {
            let kept = secrets.iter().find(|(kept, _)| *kept == name).map(|(_, value)| value);
            // It may have been changed since.
            let own = house.environment.get(&name);
            let token = new_token.as_ref().or(own).or(kept).cloned().unwrap_or_default();
            if !secrets.iter().any(|(_, known)| *known == token) {
                secrets.push((name.clone(), token.clone()));
            }
            env.push((name, token));
        }
        let seal = Seal::new(secrets.iter().cloned());
        let dialect = self.runtime.restore(&self.dialect.save()).ok()?;
        let plan = Plan {
            version: keeper::wire::VERSION,
            run_id: self.run.to_string(),
            attempt,
            fence: self.fence,
            hello_secret: house.hello_secret(self.run, attempt),
            spool_dir: house.data.spool(self.run, attempt),
            program: own_program(&house.program),
            args: left.args,
            cwd: self.bench.workspace.path().to_owned(),
            env,
            secrets,
            luggage: self.bench.upstream.packed(),
            stdin: StdinMode::Open,
            first_frame: Some(left.first),
            deadline_ms: self.lease.until_ms(),
            clock: LeaseClock::Monotonic,
            farewell: dialect.farewell(Code::LeaseExpired),
            farewell_ms: limits::FAREWELL_MS,
            term_ms: limits::TERM_MS,
            lease_farewell_ms: limits::REMOTE_FAREWELL_MS,
            lease_term_ms: limits::REMOTE_TERM_MS_MIN,
            lease_overrun_ms: limits::REMOTE_FAREWELL_MS + limits::REMOTE_TERM_MS_MIN,
            drain_ms: limits::DRAIN_MS,
            output_bytes_max: limits::OUTPUT_BYTES_MAX,
            segment_bytes: crate::keeping::SEGMENT_BYTES,
            mark: (adopt::MARK.to_owned(), self.run.to_string()),
            level: house.isolation,
        };
        self.tracer.reseal(seal.clone());
        (self.words.seal, self.bench.seal) = (seal.clone(), seal);
        Some(Again {
            plan,
            dialect,
            files: Vec::new(),
            mounts: Default::default(),
            fresh_prompt: None,
        })
    }
}

/// What a courier needs of the host's own environment.
fn courier_environment(host: &std::collections::BTreeMap<String, String>) -> Vec<(String, String)> {
    let entry = |name: &&str| EnvEntry { name: (*name).to_owned(), source: EnvSource::Allowlist };
    let entries: Vec<EnvEntry> = ENV_ALLOWLIST.iter().map(entry).collect();
    environment::without_run(&entries, ENV_ALLOWLIST_PREFIXES, host)
}
