//! A mapping that was read for use: its paths parsed once, the tests of its rules ready. Answers what
//! a rule finds in a line, and decides nothing about what comes of it: `ear` does.

use super::path::{Path, Place};
use contract::mapping::{Conditions, Mapping, Pick, Rule, Sum, Test};
use serde_json::Value;
use std::collections::BTreeMap;

/// A mapping without mistakes.
pub(super) struct Book {
    pub mapping: Mapping,
    /// One for each rule, in the same order.
    tests: Vec<Tests>,
    /// Every path that a line is asked for, once.
    asked: Vec<Path>,
    /// Every path of the mapping by its text.
    paths: BTreeMap<String, Path>,
    /// A rule says when the turn begins.
    pub turn_by_rule: bool,
}

/// What a rule asks of a line, and of a member of it.
struct Tests {
    /// By the number of the path among those that are asked for.
    line: Vec<(usize, Test)>,
    member: Vec<(Path, Test)>,
}

/// What a line was found to hold. Rules mostly ask for the same few things, so each is looked for once.
pub(super) struct Answers<'v> {
    place: Place<'v>,
    found: Vec<Option<Option<&'v Value>>>,
}

impl Book {
    /// Paths that cannot be read are not kept and find nothing: `check` names them.
    pub(super) fn new(mapping: Mapping) -> Self {
        let mut paths = BTreeMap::new();
        each_path(&mapping, &mut |_, text| {
            if let Ok(path) = Path::read(text) {
                paths.insert(text.to_owned(), path);
            }
        });
        let ready = |tests: &BTreeMap<String, Test>| {
            let read =
                |(path, test): (&String, &Test)| Some((Path::read(path).ok()?, test.clone()));
            tests.iter().filter_map(read).collect::<Vec<_>>()
        };
        let mut asked = Vec::new();
        let mut number = |(path, test): (Path, Test)| {
            let known = asked.iter().position(|one| *one == path);
            let number = known.unwrap_or_else(|| {
                asked.push(path);
                asked.len() - 1
            });
            (number, test)
        };
        let tests = mapping.rules.iter().map(|rule| Tests {
            line: ready(&rule.when).into_iter().map(&mut number).collect(),
            member: ready(&rule.member),
        });
        Self {
            tests: tests.collect(),
            turn_by_rule: mapping.rules.iter().any(|rule| rule.turn),
            asked,
            paths,
            mapping,
        }
    }

    /// Answers about a line that is asked by one rule after the other.
    pub(super) fn answers<'v>(&self, place: Place<'v>) -> Answers<'v> {
        Answers { place, found: vec![None; self.asked.len()] }
    }

    /// Whether a rule, by its number, is about this line.
    pub(super) fn fits(&self, rule: usize, answers: &mut Answers<'_>) -> bool {
        let Answers { place, found } = answers;
        let mut find =
            |number: usize| *found[number].get_or_insert_with(|| self.asked[number].one(*place));
        self.tests[rule].line.iter().all(|(number, test)| holds(test, find(*number)))
    }

    /// The members of a line that a rule is about, which it finds at this path.
    pub(super) fn members<'v>(&self, rule: usize, each: &str, place: Place<'v>) -> Vec<Place<'v>> {
        let members = self.paths.get(each).and_then(|path| path.members(place));
        let places = members.unwrap_or_default().into_iter();
        let places = places.map(|(key, here)| Place { key, here, ..place });
        places.filter(|place| holds_all(&self.tests[rule].member, *place)).collect()
    }

    /// Whether conditions by path hold.
    pub(super) fn holds(&self, tests: &BTreeMap<String, Test>, place: Place<'_>) -> bool {
        tests.iter().all(|(path, test)| {
            self.paths.get(path).is_some_and(|path| holds(test, path.one(place)))
        })
    }

    pub(super) fn text(&self, pick: Option<&Pick>, place: Place<'_>) -> Option<String> {
        self.first(pick, |path| path.text(place))
    }

    pub(super) fn value(&self, pick: Option<&Pick>, place: Place<'_>) -> Option<Value> {
        self.first(pick, |path| path.value(place))
    }

    pub(super) fn number(&self, pick: Option<&Pick>, place: Place<'_>) -> Option<f64> {
        self.first(pick, |path| path.one(place)?.as_f64())
    }

    pub(super) fn text_at(&self, path: &str, place: Place<'_>) -> Option<String> {
        self.paths.get(path)?.text(place)
    }

    pub(super) fn members_at<'v>(&self, path: &str, place: Place<'v>) -> Option<Vec<&'v Value>> {
        let members = self.paths.get(path)?.members(place)?;
        Some(members.into_iter().map(|(_, value)| value).collect())
    }

    /// A sum of counts, which is never less than nothing; `None` when not one term is there.
    pub(super) fn sum(&self, sum: Option<&Sum>, place: Place<'_>) -> Option<u64> {
        let mut found = None;
        for term in sum?.terms() {
            let (path, sign) = signed(term);
            let count = self.paths.get(path).and_then(|path| count(path.one(place)?));
            if let Some(count) = count {
                found = Some(found.unwrap_or(0) + sign * i128::from(count));
            }
        }
        found.map(|sum: i128| u64::try_from(sum.max(0)).unwrap_or(u64::MAX))
    }

    fn first<T>(&self, pick: Option<&Pick>, find: impl Fn(&Path) -> Option<T>) -> Option<T> {
        pick?.paths().iter().find_map(|path| find(self.paths.get(path)?))
    }
}

/// The path of a term and whether it is added or taken away.
pub(super) fn signed(term: &str) -> (&str, i128) {
    match term.strip_prefix('-') {
        Some(path) => (path, -1),
        None => (term, 1),
    }
}

/// A number of tokens; some agents write whole numbers as decimals.
fn count(value: &Value) -> Option<u64> {
    let decimal = || value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64);
    value.as_u64().or_else(decimal)
}

fn holds_all(tests: &[(Path, Test)], place: Place<'_>) -> bool {
    tests.iter().all(|(path, test)| holds(test, path.one(place)))
}

fn holds(test: &Test, found: Option<&Value>) -> bool {
    match test {
        Test::Text(text) => found.and_then(Value::as_str) == Some(text),
        Test::Truth(truth) => found.and_then(Value::as_bool) == Some(*truth),
        Test::Number(number) => found.and_then(Value::as_f64) == number.as_f64(),
        Test::Words(conditions) => all_hold(conditions, found),
    }
}

fn all_hold(conditions: &Conditions, found: Option<&Value>) -> bool {
    let Conditions { exists, one_of, not_in, starts, has } = conditions;
    let text = found.and_then(Value::as_str);
    let among = |texts: &[String]| text.is_some_and(|text| texts.iter().any(|one| one == text));
    let holds = |text: &str, has: &str| text.to_lowercase().contains(&has.to_lowercase());
    exists.is_none_or(|exists| exists == found.is_some())
        && (one_of.is_empty() || among(one_of))
        && !among(not_in)
        && starts.as_ref().is_none_or(|starts| text.is_some_and(|text| text.starts_with(starts)))
        && has.as_ref().is_none_or(|has| text.is_some_and(|text| holds(text, has)))
}

/// Every path of a mapping, with the key it stands under.
pub(super) fn each_path<'m>(mapping: &'m Mapping, visit: &mut dyn FnMut(String, &'m str)) {
    let tools = &mapping.tools;
    for (key, list) in [("title", &tools.title), ("location", &tools.location)] {
        for (index, path) in list.iter().enumerate() {
            visit(format!("tools.{key}[{index}]"), path);
        }
    }
    for (tool, change) in &tools.changes {
        let key = |name: &str| format!("tools.changes.{tool}.{name}");
        visit(key("path"), &change.path);
        for (name, path) in [("each", &change.each), ("old", &change.old), ("new", &change.new)] {
            path.iter().for_each(|path| visit(key(name), path));
        }
    }
    for (tool, steps) in &tools.plans {
        let key = |name: &str| format!("tools.plans.{tool}.{name}");
        visit(key("each"), &steps.each);
        visit(key("text"), &steps.text);
        steps.status.iter().for_each(|path| visit(key("status"), path));
    }
    for (index, rule) in mapping.rules.iter().enumerate() {
        paths_of_rule(rule, &format!("rules[{index}]"), visit);
    }
}

fn paths_of_rule<'m>(rule: &'m Rule, at: &str, visit: &mut dyn FnMut(String, &'m str)) {
    for path in rule.when.keys() {
        visit(format!("{at}.when"), path);
    }
    for path in rule.member.keys() {
        visit(format!("{at}.where"), path);
    }
    rule.each.iter().for_each(|path| visit(format!("{at}.each"), path));
    for (name, text) in [("text", &rule.text), ("thinking", &rule.thinking)] {
        let block = text.as_ref().and_then(|text| text.block.as_ref());
        block.iter().for_each(|path| visit(format!("{at}.{name}.block"), path));
    }
    if let Some(result) = &rule.tool_result {
        for path in result.ok.keys() {
            visit(format!("{at}.toolResult.ok"), path);
        }
        for path in result.denied.keys() {
            visit(format!("{at}.toolResult.denied"), path);
        }
    }
    for (name, pick) in picks(rule) {
        for path in pick.into_iter().flat_map(Pick::paths) {
            visit(format!("{at}.{name}"), path);
        }
    }
    let Some(usage) = &rule.usage else { return };
    for (name, sum) in [
        ("input", &usage.input),
        ("cacheRead", &usage.cache_read),
        ("cacheWrite", &usage.cache_write),
        ("output", &usage.output),
        ("reasoning", &usage.reasoning),
    ] {
        for term in sum.iter().flat_map(Sum::terms) {
            visit(format!("{at}.usage.{name}"), signed(term).0);
        }
    }
}

/// The picks of a rule by their keys.
fn picks(rule: &Rule) -> [(&'static str, Option<&Pick>); 23] {
    let Rule { session, text, thinking, tool_use, tool_update, tool_result, .. } = rule;
    let (session, call, usage) = (session.as_ref(), tool_use.as_ref(), rule.usage.as_ref());
    let (update, result) = (tool_update.as_ref(), tool_result.as_ref());
    let (error, limit) = (rule.error.as_ref(), rule.limit.as_ref());
    [
        ("session.id", session.and_then(|session| session.id.as_ref())),
        ("session.model", session.and_then(|session| session.model.as_ref())),
        ("session.cwd", session.and_then(|session| session.cwd.as_ref())),
        ("text.at", text.as_ref().map(|text| &text.at)),
        ("thinking.at", thinking.as_ref().map(|text| &text.at)),
        ("toolUse.id", call.map(|call| &call.id)),
        ("toolUse.name", call.map(|call| &call.name)),
        ("toolUse.input", call.and_then(|call| call.input.as_ref())),
        ("toolUse.parent", call.and_then(|call| call.parent.as_ref())),
        ("toolUpdate.id", update.map(|update| &update.id)),
        ("toolUpdate.content", update.map(|update| &update.content)),
        ("toolResult.id", result.map(|result| &result.id)),
        ("toolResult.output", result.and_then(|result| result.output.as_ref())),
        ("usage.model", usage.and_then(|usage| usage.model.as_ref())),
        ("usage.provider", usage.and_then(|usage| usage.provider.as_ref())),
        ("usage.usd", usage.and_then(|usage| usage.usd.as_ref())),
        ("error.message", error.and_then(|error| error.message.as_ref())),
        ("error.status", error.and_then(|error| error.status.as_ref())),
        ("limit.message", limit.and_then(|limit| limit.message.as_ref())),
        ("limit.waitMs", limit.and_then(|limit| limit.wait_ms.as_ref())),
        ("limit.waitSec", limit.and_then(|limit| limit.wait_sec.as_ref())),
        ("verdict.text", rule.verdict.as_ref().and_then(|verdict| verdict.text.as_ref())),
        ("end.text", rule.end.as_ref().and_then(|end| end.text.as_ref())),
    ]
}
