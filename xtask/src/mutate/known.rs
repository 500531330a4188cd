//! Mutations that no test can turn red, or none should: by name, with the reason. Whoever adds one
//! says why the code does the same without it, or what holds in its stead. A mutation that survives
//! and is not named here makes `cargo xtask mutate` fail.

/// Two statements of one transaction ask the same, so that a check and a write never part.
const ASKED_BEFORE: &str =
    "`held` has asked the same of the same row in this transaction, with the only writer there is";
const READ_BEFORE: &str =
    "the same was read from this row in this transaction, with the only writer there is";
const ENDED: &str = "a run has an end exactly when it is settled, by a constraint of its table, and what \
                     has none is before no moment";
const ASKED_AFTER: &str =
    "`fence_off` asks the same again of the same row, and a run it refuses is left out";

/// The deed is done, and only its failure would go unsaid.
const CANNOT_FAIL: &str = "it is done all the same, and only that it failed would go unsaid: an open file of our own, or a \
                           regular one, does not refuse it, and no test can make it";

pub const KNOWN: &[(&str, &str)] = &[
    (
        "path/host/workspace/read_from/file.seek(SeekFrom::Start(offset.min(bytes_in_al…",
        CANNOT_FAIL,
    ),
    (
        "path/host/workspace/read_from/file.take(bytes_max as u64 + 1).read_to_end(&mut…",
        CANNOT_FAIL,
    ),
    (
        "path/host/workspace/change/prepare/rustix::fs::fchmod(&fd, mode).map_err(|error| fa…",
        CANNOT_FAIL,
    ),
    (
        "path/host/workspace/change/make/name == \"..\" || name.eq_ignore_ascii_case(\".git\"…",
        "`outside_of_git` looks again at where the directory is before anything is written, and what was \
         made is taken away: only the words differ",
    ),
    (
        "fence/store/sqlite/queue/note_dependents/d.task = tasks.id",
        "the statement takes only those that wait for this task, and says the same to all of them",
    ),
    (
        "path/a path may go by a magic link",
        "the kernel refuses them to whoever asks to stay beneath, and only says that it may not always",
    ),
    (
        "path/host/trees/give_back/merge/self.untouched(&differences)?;",
        "`give` has asked the same of all that the run changed, and a merge changes nothing else",
    ),
    (
        "sync/store/backup/copy_all/disk::sync(&file, &database)",
        "SQLite syncs what `VACUUM INTO` writes by the setting of its connection; it does not promise to",
    ),
    (
        "fence/store/sqlite/queue/again/state = 'waiting'",
        "what is looked for inside of the same statement asks the same",
    ),
    ("fence/store/sqlite/removal/delete/state = 'settled'", READ_BEFORE),
    ("fence/store/sqlite/removal/delete/deleted_at IS NULL", READ_BEFORE),
    ("fence/store/sqlite/removal/finish/deleted_at IS NOT NULL", READ_BEFORE),
    ("fence/store/sqlite/removal/stale/r.ended_at IS NOT NULL", ENDED),
    ("fence/store/sqlite/removal/stale/r.state = 'settled'", ENDED),
    ("fence/store/sqlite/verbs/renew/fence = ?2", ASKED_BEFORE),
    ("fence/store/sqlite/verbs/renew/state <> 'settled'", ASKED_BEFORE),
    (
        "fence/store/sqlite/verbs/command/state <> 'settled'",
        "a settled run was refused a few lines above, in this transaction",
    ),
    ("fence/store/sqlite/verbs/reap_seen/fence = ?2", ASKED_AFTER),
    ("fence/store/sqlite/verbs/reap_seen/state IN ('planned', 'live', 'stopping')", ASKED_AFTER),
    (
        "sync/host/drive/leave/tracer.sync()",
        "the trace is a copy for people that no answer depends on; that a trace which is told to sync \
         does so is held in the store, but no test of a host can cut the power",
    ),
    (
        "sync/host/trace/sync/trace.sync()",
        "as for `leave`, which calls it: what it does is held in the store",
    ),
    (
        "seal/host/ops/start/begin_new/seal.given(id)",
        "the id was read from the store, where it is sealed already",
    ),
    (
        "seal/host/ops/errand/follow/seal.given(words)",
        "the words are our own and the same for everyone: nobody's secret is in them",
    ),
    (
        "path/host/data/private_dir/rustix::fs::fchmod(&dir, Mode::RWXU)?;",
        "the directory is our own, as was asked a line above: the kernel lets its owner change its mode",
    ),
    (
        "fence/store/sqlite/reads/find_runs/run IS NOT NULL",
        "an id that is not there lies between no two and ends with nothing: it is not found either way",
    ),
    (
        "fence/store/sqlite/reads/ranges/first_seq >= coalesce( (SELECT max(first_seq) FR…",
        "it spares the spans before the first event that is asked for, whose ranges are empty",
    ),
    (
        "fence/store/sqlite/reads/ranges/first_seq <= ?3",
        "it spares the spans behind the last event that is asked for, whose ranges are empty",
    ),
    (
        "auth/server/listen/converse/.max_headers(limits::HEADERS_MAX)",
        "the library takes as many by itself; what it takes may change, and then a test fails that asks for \
         exactly so many",
    ),
    (
        "auth/host/ops/token/revoke/!host.store().revoke_token(row.id).await.map_err…",
        "the token was found among those that are good a line above: only two who take it away at once \
         come so far, and for both of them it is gone",
    ),
    (
        "rule/the agent's group is not killed",
        "the agent is killed by the next line and the rest of its family by the sweep: only later",
    ),
    (
        "auth/anyone may knock at a keeper",
        "the socket lies in a directory that only its owner can enter: no other user gets so far",
    ),
];

pub fn reason(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}
