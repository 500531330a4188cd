//! The books: they add up by every name, tell unpriced from free, and change only with their Batch.

use super::sound;
use crate::conformance::{Holder, Sure, holder, refused};
use crate::*;
use contract::event::{RunReport, RunUsage, Totals};
use contract::{Billing, Code, NanoUsd, Timestamp, Tokens};
use tempfile::TempDir;

const DAY: i64 = 86_400_000;

fn row(day: i64, model: &str, output: u64, nanousd: Option<i64>, covers: Covers) -> LedgerRow {
    let seal = Seal::default();
    LedgerRow {
        at: Timestamp(day * DAY + 7),
        provider: seal.given(if model.is_empty() { "" } else { "acme" }),
        model: seal.given(model),
        tokens: Tokens { output, ..Tokens::default() },
        nanousd: nanousd.map(NanoUsd),
        unpriced: nanousd.is_none(),
        covers,
        approximate: false,
        replaces: Covers::Nothing,
    }
}

async fn book(store: &Store, held: &mut Holder, ledger: Vec<LedgerRow>, totals: Option<Totals>) {
    let batch = Batch { ledger, totals, ..held.batch(&["spent"]) };
    held.head_seq = store.commit(batch).await.unwrap().head_seq;
}

fn totals(output: u64, nanousd: Option<i64>) -> Option<Totals> {
    let tokens = Tokens { output, ..Tokens::default() };
    Some(Totals { tokens, effective_nanousd: nanousd.map(NanoUsd) })
}

/// Day, model, runs, output, effective and priced money.
async fn costs(store: &Store, by: &[By], since: Option<i64>) -> Vec<String> {
    let since = since.map(|day| Timestamp(day * DAY + DAY - 1));
    let query = CostsQuery { by: by.to_vec(), since, limit: 100, ..CostsQuery::default() };
    let rows = store.costs(query).await.unwrap();
    rows.iter()
        .map(|row| {
            let name = [&row.day, &row.agent, &row.adapter, &row.model];
            let name: Vec<_> = name.into_iter().flatten().map(String::as_str).collect();
            let money = |amount: Option<NanoUsd>| amount.map_or("-".into(), |it| it.0.to_string());
            format!(
                "{}: {} runs, {} tokens, {} ({})",
                name.join(" "),
                row.runs,
                row.tokens.total(),
                money(row.effective_nanousd),
                money(row.priced_nanousd)
            )
        })
        .collect()
}

#[tokio::test]
async fn the_books_add_up_by_day_agent_and_model() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (mut one, mut two) =
        (holder(&Sure(store.clone())).await, holder(&Sure(store.clone())).await);
    let first =
        vec![row(1, "a", 5, Some(2), Covers::Nothing), row(1, "b", 1, None, Covers::Nothing)];
    book(&store, &mut one, first, totals(6, None)).await;
    let next =
        vec![row(2, "a", 5, Some(3), Covers::Nothing), row(2, "a", 1, Some(0), Covers::Nothing)];
    book(&store, &mut one, next, totals(12, None)).await;
    book(&store, &mut two, vec![row(2, "", 4, Some(7), Covers::Nothing)], totals(4, Some(7))).await;

    assert_eq!(costs(&store, &[], None).await, [": 2 runs, 16 tokens, - (12)"]);
    assert_eq!(
        costs(&store, &[By::Day], None).await,
        ["1970-01-03: 2 runs, 10 tokens, 10 (10)", "1970-01-02: 1 runs, 6 tokens, - (2)"]
    );
    assert_eq!(
        costs(&store, &[By::Model], None).await,
        [
            ": 1 runs, 4 tokens, 7 (7)",
            "acme/a: 1 runs, 11 tokens, 5 (5)",
            "acme/b: 1 runs, 1 tokens, - (-)"
        ]
    );
    assert_eq!(costs(&store, &[], Some(2)).await, [": 2 runs, 10 tokens, 10 (10)"]);
    assert_eq!(costs(&store, &[By::Agent], None).await.len(), 1);
    assert_eq!(
        costs(&store, &[By::Day, By::Agent, By::Adapter, By::Model], Some(1)).await.len(),
        4
    );
    sound(dir.path());
}

/// The key of a row, as who asks for the next page gives it.
fn key(row: &CostRow) -> CostKey {
    let CostRow { day, agent, adapter, model, .. } = row.clone();
    let day = day.map(|day| {
        let written = format!("{day}T23:59:59.000Z");
        serde_json::from_value(serde_json::Value::from(written)).unwrap()
    });
    CostKey { day, agent, adapter, model }
}

#[tokio::test]
async fn pages_of_the_books_have_every_row_once_however_they_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 0..4 {
        let mut held = holder(&Sure(store.clone())).await;
        let days = (1..=3).map(|day| row(day, ["", "a", "b"][n % 3], 1, Some(1), Covers::Nothing));
        let rows = days.chain([row(n as i64, "c", 2, None, Covers::Nothing)]).collect();
        book(&store, &mut held, rows, totals(5, None)).await;
    }
    let every = [By::Day, By::Agent, By::Adapter, By::Model];
    for chosen in 0..1_u32 << every.len() {
        let wanted = |n: &usize| chosen & (1 << n) != 0;
        let by: Vec<_> = (0..every.len()).filter(wanted).map(|n| every[n]).collect();
        let since = Some(Timestamp(DAY));
        let query = CostsQuery { by, since, limit: 100, ..CostsQuery::default() };
        let whole = store.costs(query.clone()).await.unwrap();
        assert!(!whole.is_empty(), "{query:?}");
        for limit in [1, 2, 100] {
            let (mut seen, mut query) = (Vec::new(), CostsQuery { limit, ..query.clone() });
            loop {
                let page = store.costs(query.clone()).await.unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                query.after = Some(key(last));
                seen.extend(page);
                assert!(seen.len() <= whole.len(), "the pages have no end: {query:?}");
            }
            assert_eq!(seen, whole, "{query:?}");
        }
    }
}

#[tokio::test]
async fn a_priced_total_covers_what_had_no_price() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut held = holder(&Sure(store.clone())).await;
    let elsewhere = LedgerRow {
        provider: Seal::default().given("other"),
        ..row(1, "a", 5, None, Covers::Nothing)
    };
    let unpriced = vec![
        row(1, "a", 5, None, Covers::Nothing),
        row(1, "b", 5, None, Covers::Nothing),
        elsewhere,
    ];
    book(&store, &mut held, unpriced, totals(15, None)).await;
    book(&store, &mut held, vec![row(2, "a", 1, Some(6), Covers::Model)], totals(16, None)).await;
    assert_eq!(
        costs(&store, &[By::Model], None).await,
        [
            "acme/a: 1 runs, 6 tokens, 6 (6)",
            "acme/b: 1 runs, 5 tokens, - (-)",
            "other/a: 1 runs, 5 tokens, - (-)"
        ]
    );
    // Neither the other model nor the same one of another provider has a price by that.
    let bare = "SELECT group_concat(provider || '/' || model, ' ') FROM ledger WHERE unpriced";
    let reader = rusqlite::Connection::open(dir.path().join("ostler.db")).unwrap();
    let bare: String = reader.query_row(bare, [], |row| row.get(0)).unwrap();
    assert_eq!(bare, "acme/b other/a");
    book(&store, &mut held, vec![row(2, "", 0, Some(4), Covers::Run)], totals(16, Some(10))).await;
    assert_eq!(costs(&store, &[], None).await, [": 1 runs, 16 tokens, 10 (10)"]);
    sound(dir.path());
}

#[tokio::test]
async fn a_refused_batch_books_nothing_and_a_repeated_one_once() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut held = holder(&Sure(store.clone())).await;
    let rows = || vec![row(1, "a", 5, Some(2), Covers::Nothing)];
    let stale = Holder { fence: held.fence + 1, ..held };
    let refusal = store.commit(Batch { ledger: rows(), ..stale.batch(&["x"]) }).await;
    assert_eq!(refused(refusal), Code::FenceStale);
    assert!(costs(&store, &[By::Day], None).await.is_empty());
    let again = Batch { ledger: rows(), totals: totals(5, Some(2)), ..held.batch(&["spent"]) };
    book(&store, &mut held, rows(), totals(5, Some(2))).await;
    assert_eq!(refused(store.commit(again).await), Code::Conflict);
    assert_eq!(costs(&store, &[], None).await, [": 1 runs, 5 tokens, 2 (2)"]);
}

#[tokio::test]
async fn absurd_amounts_are_kept_without_stopping_anyone() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut held = holder(&Sure(store.clone())).await;
    for _ in 0..3 {
        let absurd = row(1, "a", u64::MAX, Some(i64::MAX), Covers::Nothing);
        book(&store, &mut held, vec![absurd], None).await;
    }
    assert_eq!(costs(&store, &[By::Day], None).await.len(), 1);
}

#[tokio::test]
async fn a_total_replaces_approximate_rows() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut held = holder(&Sure(store.clone())).await;
    let guess = |day, model: &str, output, nanousd| LedgerRow {
        approximate: true,
        ..row(day, model, output, Some(nanousd), Covers::Nothing)
    };
    let firm = |model: &str, output, nanousd, replaces| LedgerRow {
        replaces,
        ..row(2, model, output, Some(nanousd), Covers::Model)
    };
    let told = vec![
        row(1, "a", 5, Some(2), Covers::Nothing),
        guess(1, "a", 9, 9),
        guess(2, "a", 1, 1),
        guess(2, "b", 7, 7),
    ];
    book(&store, &mut held, told, totals(22, Some(19))).await;
    sound(dir.path());
    // The total of one model leaves the other's rows alone, and no row goes below zero.
    let corrected = vec![firm("a", 3, 1, Covers::Model)];
    book(&store, &mut held, corrected, totals(15, Some(10))).await;
    sound(dir.path());
    assert_eq!(
        costs(&store, &[By::Model], None).await,
        ["acme/a: 1 runs, 8 tokens, 3 (3)", "acme/b: 1 runs, 7 tokens, 7 (7)"]
    );
    let corrected = vec![firm("c", 1, 1, Covers::Run)];
    book(&store, &mut held, corrected, totals(9, Some(4))).await;
    sound(dir.path());
    assert_eq!(
        costs(&store, &[By::Model], None).await,
        ["acme/a: 1 runs, 8 tokens, 3 (3)", "acme/c: 1 runs, 1 tokens, 1 (1)"]
    );
}

fn report(output: u64, billing: Option<Billing>) -> Option<ReportSoFar> {
    let tokens = Tokens { output, ..Tokens::default() };
    let usage = Some(RunUsage { tokens, service_tier: None });
    let report = RunReport { usage, model: Some("m".to_owned()), billing, ..RunReport::default() };
    Some(ReportSoFar { json: Seal::default().json(&report), billing })
}

#[tokio::test]
async fn included_use_is_told_apart_and_kept_with_its_run() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for (billing, paid) in [
        (Some(Billing::Subscription), Some(7)),
        (Some(Billing::Free), None),
        (Some(Billing::Metered), Some(5)),
        (None, Some(1)),
    ] {
        let mut held = holder(&Sure(store.clone())).await;
        let ledger = vec![row(1, "m", 2, paid, Covers::Nothing)];
        let (totals, report) = (totals(2, paid), report(2, billing));
        let batch = Batch { ledger, totals, report, ..held.batch(&["spent"]) };
        held.head_seq = store.commit(batch).await.unwrap().head_seq;
        // A later Batch without a change leaves it as it is.
        held.head_seq = store.commit(held.batch(&["more"])).await.unwrap().head_seq;
        let kept = store.run(held.run).await.unwrap().unwrap();
        let kept = kept.report.expect("a report");
        assert_eq!((kept.billing, kept.model.as_deref()), (billing, Some("m")));
    }
    let query = CostsQuery { by: vec![], since: None, after: None, limit: 10, run: None };
    let sums = store.costs(query).await.unwrap().remove(0);
    assert_eq!((sums.priced_nanousd, sums.effective_nanousd), (Some(NanoUsd(13)), None));
    assert_eq!((sums.included_nanousd, sums.billed_nanousd), (NanoUsd(7), Some(NanoUsd(6))));
    sound(dir.path());

    let held = holder(&Sure(store.clone())).await;
    let batch =
        Batch { totals: totals(3, None), report: report(2, None), ..held.batch(&["spent"]) };
    store.commit(batch).await.unwrap();
    let found = check::check(dir.path()).unwrap();
    assert!(found.iter().any(|found| found.contains("agrees with its totals")), "{found:?}");
}

#[tokio::test]
async fn included_dollars_are_no_part_of_a_budget() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for (is_included, counted) in [(true, 0), (false, 9)] {
        let held = holder(&Sure(store.clone())).await;
        let scope = format!("agent:{is_included}");
        let reserve = Reserve {
            scope: scope.clone(),
            run: held.run,
            fence: held.fence,
            nanousd: NanoUsd(50),
            tokens: 0,
            turns: 0,
            ms: 0,
            since: Timestamp(0),
            nanousd_max: None,
            tokens_max: None,
            turns_max: None,
            ms_max: None,
        };
        store.reserve(reserve).await.unwrap();
        let spent = totals(3, Some(9)).unwrap();
        let mut batch = held.settling(contract::TaskState::Done, spent);
        batch.settle = batch.settle.map(|settle| Settle { is_included, ..settle });
        store.commit(batch).await.unwrap();
        let sum = store.scope_sum(&scope, Timestamp(0)).await.unwrap();
        assert_eq!((sum.nanousd, sum.tokens), (NanoUsd(counted), 3), "included: {is_included}");
    }
}
