//! Mutations that no generator finds: rules of the whole, each a text that stands once in its file,
//! what stands there instead, and the tests that are asked first. A row whose text has moved or
//! changed is an error, so that the table cannot fall behind the code in silence.

use super::site::{Form, Kind, Mutation};
use super::source::Source;
use super::trial::{self, Trial};

pub struct Row {
    pub name: &'static str,
    pub kind: Kind,
    pub path: &'static str,
    pub text: &'static str,
    pub becomes: &'static str,
    pub trials: &'static [&'static Trial],
}

const LEASE: &str = "crates/engine/src/rules/lease.rs";
const RESUME: &str = "crates/engine/src/rules/resume.rs";
const LEDGER: &str = "crates/engine/src/run/ledger.rs";
const COMMIT: &str = "crates/store/src/sqlite/commit.rs";
const VERBS: &str = "crates/store/src/sqlite/verbs.rs";
const KEEPER_LEASE: &str = "crates/keeper/src/keep/lease.rs";
const LADDER: &str = "crates/keeper/src/keep/ladder.rs";
const DRIVE: &str = "crates/host/src/drive.rs";
const AUTH: &str = "crates/server/src/auth.rs";
const NAMES: &str = "crates/server/src/names.rs";
const PASS: &str = "crates/server/src/pass.rs";
const TLS: &str = "crates/server/src/remote/tls.rs";
const REACH: &str = "crates/contract/src/reach.rs";
const CHANGE: &str = "crates/host/src/workspace/change.rs";

const ENGINE: &[&Trial] = &[&trial::ENGINE];
const STORE: &[&Trial] = &[&trial::STORE];
const KEEPER: &[&Trial] = &[&trial::KEEPER, &trial::DEATHS];
const HOST: &[&Trial] = &[&trial::HOST, &trial::SECURITY];
const SERVER: &[&Trial] = &[&trial::SERVER, &trial::SECURITY];
const CROWDED: &[&Trial] = &[&trial::SERVER, &trial::CROWD];
const REMOTE: &[&Trial] = trial::OF_REMOTE;
const REACHED: &[&Trial] = &[&trial::REACH];
const SPARE: &[&Trial] = &[&trial::SPARE];
const DRIVEN: &[&Trial] = &[&trial::HOST, &trial::TOKENS];
const RUN_TOKENS: &[&Trial] = &[&trial::TOKENS];
const STREAMS: &[&Trial] = &[&trial::SERVER, &trial::PRINCIPALS];
const WATCHED: &[&Trial] = &[&trial::SERVER, &trial::WATCHERS];

macro_rules! row {
    ($name:literal, $kind:ident, $path:expr, $text:literal => $becomes:literal, $trials:expr) => {
        Row {
            name: $name,
            kind: Kind::$kind,
            path: $path,
            text: $text,
            becomes: $becomes,
            trials: $trials,
        }
    };
}

pub const ROWS: &[Row] = &[
    row!("a lease never ends for its holder", Rule, LEASE,
        "now_ms >= self.until_ms" => "false", ENGINE),
    row!("a lease counts from its answer", Rule, LEASE,
        "self.until_ms = asked_ms + self.length_ms" => "self.until_ms = now_ms + self.length_ms", ENGINE),
    row!("a renewal answered too late is good", Rule, LEASE,
        "Answer::Renewed | Answer::Unknown if self.is_over(now_ms)" =>
        "Answer::Renewed | Answer::Unknown if false", ENGINE),
    row!("every lease that is seen is over", Rule, "crates/engine/src/rules/overdue.rs",
        "now_ms.saturating_sub(since_ms) >= length_ms" => "true", ENGINE),
    row!("what was said is said again", Rule, RESUME,
        "Effect::CloseStdin if said" => "Effect::CloseStdin if false", ENGINE),
    row!("a call that may have been made is made again", Rule, RESUME,
        "Effect::Relay(_) if may_repeat" => "Effect::Relay(_) if true", ENGINE),
    row!("a batch that conflicts is there", Rule, RESUME,
        "head_seq >= sent.last_seq && before" => "head_seq >= sent.last_seq", ENGINE),
    row!("the money of a budget has no end", Rule, LEDGER,
        "let reached = full(usd)" => "let reached = None::<(u64, u64)>", ENGINE),
    row!("a budget may be passed by one", Rule, LEDGER,
        "unit.filter(|(used, limit)| used >= limit)" => "unit.filter(|(used, limit)| used > limit)", ENGINE),
    row!("nobody is warned of a budget", Rule, LEDGER,
        "u128::from(used) * 100 >= u128::from(limit) * SOFT_PERCENT" => "used > limit", ENGINE),
    row!("exit 0 is success", Rule, "crates/engine/src/run/outcome.rs",
        "outcome: judged.code.map_or(Outcome::Succeeded, outcome)" =>
        "outcome: judged.code.filter(|code| *code != Code::EndedWithoutResult).map_or(Outcome::Succeeded, outcome)", ENGINE),
    row!("a batch may begin anywhere", Rule, COMMIT,
        "batch.first_seq != held.head_seq + 1" => "false", STORE),
    row!("an event may have any number", Rule, COMMIT,
        "if event.seq != seq {" => "if false {", STORE),
    row!("a result may come before the end", Rule, COMMIT,
        "results == 0" => "true", STORE),
    row!("an end may have two results", Rule, COMMIT,
        "results == 1 && ends_with_result" => "ends_with_result", STORE),
    row!("a result need not be last", Rule, COMMIT,
        "results == 1 && ends_with_result" => "results == 1", STORE),
    row!("a settled run may leave its task running", Rule, COMMIT,
        "&& may_settle_as(settle.task_state)" => "", STORE),
    row!("any state may follow any", Rule, COMMIT,
        "!moves || (batch.run_state == RunState::Settled && !settles)" => "false", STORE),
    row!("a wish may be taken that is not there", Rule, COMMIT,
        "if taken != 1 {" => "if false {", STORE),
    row!("an effect may be asked for twice", Rule, COMMIT,
        "if asked != 1 {" => "if false {", STORE),
    row!("a write that hit nothing is good", Rule, COMMIT,
        "_ => Err(Error::FenceStale { run: batch.run, fence: batch.fence })" => "_ => Ok(())", STORE),
    row!("whoever asks holds the run", Rule, VERBS,
        "if mine { Ok(held) } else { Err(Error::FenceStale { run, fence }) }" => "{ let _ = mine; Ok(held) }", STORE),
    row!("a claim that took nothing is granted", Rule, VERBS,
        "_ => Err(untaken(connection, claim)?)," => "_ => Ok(()),", STORE),
    row!("a claim is granted to another holder", Rule, VERBS,
        "if task == blob_id(claim.task.uuid()) && holder == claim.holder" =>
        "if task == blob_id(claim.task.uuid()) || holder == claim.holder", STORE),
    row!("the inbox has no end", Rule, VERBS,
        "count(waiting) >= room as u64" => "false", STORE),
    row!("a shared budget has no end", Rule, VERBS,
        "|max| sum > max" => "|_| sum == i64::MIN", STORE),
    row!("a settled task may move", Rule, VERBS,
        "if let Some(why) = step.folly() {" => "if let Some(why) = step.folly().filter(|_| false) {", STORE),
    row!("jobs are answered before their commit", Rule, "crates/store/src/sqlite/writer.rs",
        "self.run_sql(\"COMMIT\").map_err(failed)" => "self.run_sql(\"ROLLBACK\").map_err(failed)", STORE),
    row!("a refused job stays in its group", Rule, "crates/store/src/sqlite/writer.rs",
        "self.run_sql(\"ROLLBACK TO job\").map_err(failed)?" => "()", STORE),
    row!("blobs are not written with their batch", Rule, "crates/store/src/lib.rs",
        "blobs.iter().try_for_each(|blob| folder.write(blob))" =>
        "{ let _ = (&blobs, &folder); Ok::<(), Error>(()) }", STORE),
    row!("a keeper obeys an older fence", Rule, KEEPER_LEASE,
        "if fence < self.fence {" => "if false {", KEEPER),
    row!("a keeper's lease never ends", Rule, KEEPER_LEASE,
        "Some(kill_at_ms) if now_ms >= kill_at_ms" => "Some(_) if false", KEEPER),
    row!("a keeper takes no leave before its lease ends", Rule, KEEPER_LEASE,
        "deadline_ms - self.graces_ms().min(last_part_ms)" => "deadline_ms", KEEPER),
    row!("a renewal calls the stop of a lease off", Rule, KEEPER_LEASE,
        "if self.kill_at_ms.is_some() {" => "if false {", KEEPER),
    row!("a plan that comes late is obeyed", Rule, "crates/keeper/src/keep.rs",
        "plan.clock.now_ms() >= plan.deadline_ms" => "false", KEEPER),
    row!("an agent is started before it is to be", Rule, "crates/keeper/src/keep.rs",
        "if !orders.launch(&mut packet)? {" => "if false {", KEEPER),
    row!("a keeper that starts nothing leaves its spool", Rule, "crates/keeper/src/keep.rs",
        "return std::fs::remove_dir_all(&plan.spool_dir);" => "return Ok(());", KEEPER),
    row!("an agent goes behind others like its keeper", Rule, "crates/keeper/src/keep/raw.rs",
        "if self.stepped_back {" => "if false {", KEEPER),
    row!("an end that nobody stored is the end of a run", Rule, DRIVE,
        "match settled {" => "match self.machine.is_settled() {", &[&trial::DEATHS]),
    row!("an attempt may be launched twice", Rule, "crates/keeper/src/door.rs",
        "rustix::fs::mkdir(dir, Mode::RWXU)?" => "let _ = rustix::fs::mkdir(dir, Mode::RWXU)", KEEPER),
    row!("anyone may knock at a keeper", Auth, "crates/keeper/src/keep/control.rs",
        "raw::peer_uid(&socket).is_ok_and(|uid| uid == getuid().as_raw())" =>
        "raw::peer_uid(&socket).is_ok_and(|uid| uid == getuid().as_raw() || true)", KEEPER),
    row!("any secret takes a keeper over", Auth, "crates/keeper/src/keep/watch/orders.rs",
        "if !same(secret.as_bytes(), self.hello_secret.as_bytes()) {" => "if false {", KEEPER),
    row!("SIGTERM is left out", Rule, LADDER,
        "None | Some(Rung::Farewell) if stop.graces.term_ms > 0" => "None | Some(Rung::Farewell) if false", KEEPER),
    row!("the farewell is left out", Rule, LADDER,
        "None if can_say_farewell && stop.graces.farewell_ms > 0" => "None if false && can_say_farewell", KEEPER),
    row!("a rung comes before its time", Rule, LADDER,
        "stop.until.is_none_or(|until| now < until)" => "false", KEEPER),
    row!("a second stop shortens nothing", Rule, LADDER,
        "stop.graces = stop.graces.shorter(graces);" => "", KEEPER),
    row!("the agent's group is not killed", Rule, "crates/keeper/src/keep/family.rs",
        "let _ = kill_process_group(agent, Signal::KILL);" => "", KEEPER),
    row!("the sweep kills nobody", Rule, "crates/keeper/src/keep/family.rs",
        "let _ = kill_process(child, Signal::KILL);" => "let _ = child;", KEEPER),
    row!("words are kept without their secrets", Seal, DRIVE,
        "*unkept += unseal(out);" => "let _ = (unkept, unseal);", &[&trial::SECRETS, &trial::DEATHS]),
    row!("a token does not end with its run", Auth, DRIVE,
        "self.house.end_token(self.run);" => "", DRIVEN),
    row!("to end a token does nothing", Auth, "crates/host/src/lib.rs",
        "live.token = None;" => "let _ = live;", DRIVEN),
    row!("what is kept for a successor is believed", Rule, "crates/host/src/keepsake.rs",
        "if proof(secret, bytes) != shown {" => "if false {", HOST),
    row!("a foreign tool may write under any policy", Auth, "crates/host/src/ops/permission.rs",
        "(false, _) | (true, Policy::AllowAll | Policy::Ask) => Ok(())" =>
        "(false, _) | (true, Policy::AllowAll | Policy::Ask | Policy::Deny | Policy::AllowReads) if true => Ok(()),\n        (false, _) | (true, Policy::AllowAll | Policy::Ask) => Ok(())", HOST),
    row!("a path may lead out of the workspace", Path, CHANGE,
        "ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS" => "ResolveFlags::NO_MAGICLINKS", HOST),
    row!("a path may go by a magic link", Path, CHANGE,
        "ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS" => "ResolveFlags::BENEATH", HOST),
    row!("what is Ostler's own is open", Path, "crates/host/src/workspace.rs",
        "if self.private.iter().any(|private| real.starts_with(private)) {" => "if false {", HOST),
    row!("a second name of Ostler's own is open", Path, "crates/host/src/workspace.rs",
        "Ok(linked && self.private.iter().any(|private| holds(private, &stat)))" => "Ok(false && linked)", HOST),
    row!("a link in a workspace's place is followed", Path, "crates/host/src/workspace.rs",
        "ResolveFlags::NO_SYMLINKS" => "ResolveFlags::empty()", HOST),
    row!("any token opens the house", Auth, AUTH,
        "bool::from(token.as_bytes().ct_eq(self.token.as_bytes()))" => "true", SERVER),
    row!("a whole address may name any host", Auth, NAMES,
        "uri.authority().is_none_or(|named| self.is_own(named.as_str()))" => "true", SERVER),
    row!("a browser may come from any site", Auth, NAMES,
        "matches!(site.as_bytes(), b\"same-origin\" | b\"none\")" => "!site.is_empty()", SERVER),
    row!("every path is open", Auth, AUTH,
        "if access == Access::Open {" => "if access != Access::Run {", SERVER),
    row!("any scope is enough", Auth, AUTH,
        "Some(scope) if !caller.has(scope) => {" => "Some(scope) if !caller.has(scope) && false => {", SERVER),
    row!("a cookie is good beside any page", Auth, AUTH,
        "if !looks && !parts.headers.contains_key(header::ORIGIN) {" => "if !looks && false {", SERVER),
    row!("a sign-in link opens twice", Auth, "crates/server/src/sign_in.rs",
        "found.map(|at| open.remove(at).allows)" => "found.map(|at| open[at].allows.clone())", SERVER),
    row!("a sign-in link is good for ever", Auth, "crates/server/src/sign_in.rs",
        "now_ms + SIGN_IN_MS" => "u64::MAX", SERVER),
    row!("addresses of credentials are reached", Auth, REACH,
        "if link_local || METADATA.contains(&ip) {" => "if false {", REACHED),
    row!("a wrapped address is another", Auth, REACH,
        "v6.to_ipv4_mapped().is_some() || compatible || by_gateway" => "false", REACHED),
    row!("an address behind a tunnel is another", Auth, REACH,
        "parts[0] == TUNNEL" => "false", REACHED),
    row!("a gateway leads to this machine", Auth, "crates/remote/src/courier/address.rs",
        "ip.to_canonical().is_loopback()" => "plain(ip).is_loopback()", &[&trial::COURIER]),
    row!("any number of readers is taken by a remote", Auth, "crates/server/src/remote/listen.rs",
        "Semaphore::new(limits::WATCHERS_MAX)" => "Semaphore::new(1 << 20)", REMOTE),
    row!("every path of a remote is open", Auth, "crates/server/src/remote/guard.rs",
        "if access(matched) == Access::Open {" => "if access(matched) != Access::Open || true {", REMOTE),
    row!("any token opens a remote", Auth, "crates/server/src/remote/guard.rs",
        "token.as_bytes().ct_eq(wanted.as_bytes()).into()" => "!token.is_empty() && !wanted.is_empty()", REMOTE),
    row!("what is told to a remote is not looked at", Auth, "crates/server/src/remote/mod.rs",
        "!matches!(known.verb, \"get\" | \"delete\")" => "known.verb.is_empty()", REMOTE),
    row!("git is given the whole environment", Path, "crates/host/src/git.rs",
        "environment.iter().filter(kept)" => "environment.iter().filter(|one| kept(one) || true)", trial::OF_TREES),
    row!("a snapshot may have any size", Path, "crates/host/src/snapshot.rs",
        "files <= files_max && bytes <= bytes_max" => "files <= files_max || bytes <= bytes_max || true", HOST),
    row!("a key is heeded by nobody", Rule, "crates/server/src/keyed.rs",
        "let Some(key) = key else { return Ok(None) };" => "let Some(key) = key.filter(|_| false) else { return Ok(None) };", SERVER),
    row!("a body may be any content", Auth, AUTH,
        "kind.trim().eq_ignore_ascii_case(\"application/json\")" => "!kind.is_empty()", SERVER),
    row!("a body may take any time", Auth, AUTH,
        "Duration::from_millis(limits::BODY_MS)" => "Duration::from_secs(1 << 30)", SERVER),
    row!("any number of connections is taken", Auth, "crates/server/src/listen.rs",
        "Places::new(limits::CONNECTIONS_MAX)" => "Places::new(1 << 20)", SERVER),
    row!("nobody makes room for the next one", Auth, "crates/server/src/places.rs",
        "first.notify_one();" => "drop(first);", SERVER),
    row!("who has shown a good token is a stranger", Auth, AUTH,
        "standing.vouch(Holder::from(&caller));" => "let _ = (standing, Holder::from(&caller));", CROWDED),
    row!("tokens may be guessed without end", Auth, "crates/server/src/refused.rs",
        "match self.before < REFUSED_MAX" => "match self.before < u32::MAX", SERVER),
    row!("every guess is written down", Auth, "crates/server/src/refused.rs",
        "told: before < REFUSED_TOLD_MAX" => "told: before < u32::MAX", SERVER),
    row!("no guess is written down", Auth, AUTH,
        "if verdict.told {" => "if verdict.told && verdict.before == u32::MAX {", SERVER),
    row!("a spare keeper is not looked at before it is taken", Rule, "crates/host/src/spare.rs",
        "matches!(self.spawned.child.try_wait(), Ok(None))" => "true", SPARE),
    row!("what was mounted since is not asked for", Rule, "crates/host/src/spare.rs",
        "!has_changed(mounts)" => "has_changed(mounts) || true", SPARE),
    row!("a spare keeper may be in any control group", Rule, "crates/host/src/spare.rs",
        "keepers.groups() == self.groups" => "(keepers.groups().is_none() || true)", SPARE),
    row!("the guard does not hold the lock", Rule, "crates/keeper/src/keep/guard.rs",
        "lock = take_over(line.as_fd());" => "lock = take_over(line.as_fd()).filter(|_| false);", KEEPER),
    row!("any number of watchers is taken", Auth, "crates/server/src/watchers.rs",
        "if all >= limits::WATCHERS_MAX {" => "if all >= 1 << 20 {", WATCHED),
    row!("one token has every place for watchers", Auth, "crates/server/src/watchers.rs",
        "if own >= limits::WATCHERS_OF_TOKEN_MAX {" => "if own >= limits::WATCHERS_MAX {", WATCHED),
    row!("no place for watchers is kept for the owner", Auth, "crates/server/src/watchers.rs",
        "limits::WATCHERS_MAX - limits::WATCHERS_OF_OWNER_MIN" => "limits::WATCHERS_MAX", WATCHED),
    row!("who does not read is waited for without end", Auth, "crates/server/src/patience.rs",
        "waiting.as_mut().poll(cx).is_ready() ||" => "(waiting.as_mut().poll(cx).is_ready() && false) ||", WATCHED),
    row!("who does not read keeps a stream without a token", Auth, "crates/server/src/watchers.rs",
        "hurry.press();" => "let _ = &hurry;", WATCHED),
    row!("a workspace is given to the token of any run", Auth, "crates/server/src/rest/workspace.rs",
        "bearer.run.to_string() == named" => "!bearer.run.to_string().is_empty()", RUN_TOKENS),
    row!("events are taken of the token of any run", Auth, "crates/server/src/rest/callback.rs",
        "bearer.run.to_string() == named" => "!bearer.run.to_string().is_empty()", RUN_TOKENS),
    row!("a stream outlasts a token that is taken away", Auth, PASS,
        "!token::is_good(&self.host, token).await.unwrap_or(false)" => "false", STREAMS),
    row!("who watches does not hear that tokens have changed", Auth, PASS,
        "self.due = true;" => "self.due = false;", STREAMS),
    row!("a stream outlasts the time of its token", Auth, PASS,
        "self.until.map(|until| until.since(host::clock::now().wall))" => "None", STREAMS),
    row!("a person has every scope", Auth, AUTH,
        "person.scope >= scope" => "true", SERVER),
    row!("callers of a remote are not asked for a certificate", Auth, TLS,
        "builder.with_client_cert_verifier(verifier(files, path, provider)?)" => "builder.with_no_client_auth()", REMOTE),
    row!("a certificate of any authority is taken", Auth, TLS,
        "self.issued.verify_client_cert(end_entity, intermediates, now)?" => "ClientCertVerified::assertion()", REMOTE),
    row!("a certificate for any name is taken", Auth, TLS,
        "verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name)?;" => "let _ = verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name);", REMOTE),
    row!("a new file is written over one that is there", Path, CHANGE,
        "(&self.change.was, self.exists)" => "(&self.change.was, self.exists && self.change.was != Was::Absent)", HOST),
    row!("a file that is gone is changed", Path, CHANGE,
        "(&self.change.was, self.exists)" => "(&self.change.was, self.exists || matches!(self.change.was, Was::Exactly(_)))", HOST),
    row!("a token of another run is good", Auth, "crates/host/src/lib.rs",
        "live.token == Some(given)" => "live.token.is_some() && given != blake3::hash(b\"\")", DRIVEN),
];

/// The rows as mutations; an error when the text of one does not stand once in its file.
pub fn find(sources: &[Source], found: &mut Vec<Mutation>) -> Result<(), String> {
    for row in ROWS {
        let text = sources.iter().find(|source| source.path == row.path);
        let source = text.ok_or_else(|| format!("'{}': there is no {}", row.name, row.path))?;
        let places: Vec<usize> =
            source.text[..source.end].match_indices(row.text).map(|(at, _)| at).collect();
        let [at] = places.as_slice() else {
            let times = places.len();
            return Err(format!("'{}': its text stands {times} times in {}", row.name, row.path));
        };
        let mut mutation = Mutation::new(source, row.kind, *at..at + row.text.len(), row.becomes);
        mutation.form = form(row, *at);
        mutation.name = format!("{}/{}", row.kind.word(), row.name);
        found.push(mutation);
    }
    Ok(())
}

/// How a row's text stands in the code, as far as it can be told from the text.
fn form(row: &Row, at: usize) -> Form {
    let condition = |text: &'static str| {
        let condition = text.strip_prefix("if ")?.strip_suffix(" {")?;
        (!condition.starts_with("let ")).then_some(condition)
    };
    let begins = |words: &[&str]| words.iter().any(|word| row.text.starts_with(word));
    let loose = begins(&["&&", "let ", "outcome:", "told:"])
        || (begins(&["if ", "match "]) && !row.text.ends_with('}'))
        || [" =>", " if "].iter().any(|word| row.text.contains(word))
        || row.text.ends_with("||")
        || row.becomes.starts_with("let ");
    match (condition(row.text), condition(row.becomes)) {
        (Some(was), Some(becomes)) => {
            Form::Expression(at + 3..at + 3 + was.len(), becomes.to_owned())
        }
        // What it names would be known inside of it alone.
        _ if begins(&["let "]) && !begins(&["let _ "]) => Form::Alone,
        _ if row.text.ends_with(';') => Form::Statement,
        _ if loose => Form::Alone,
        _ => Form::Expression(at..at + row.text.len(), row.becomes.to_owned()),
    }
}

/// The tests that a row asks for.
pub fn trials(name: &str) -> Option<&'static [&'static Trial]> {
    let (_, name) = name.split_once('/')?;
    ROWS.iter().find(|row| row.name == name).map(|row| row.trials)
}
