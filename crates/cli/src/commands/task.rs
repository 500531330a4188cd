//! `ostler task`: hand work over to the queue, see where it stands, and decide about it. Tasks are
//! started by a server; without one they are taken and wait.

use super::{Context, Stopped};
use crate::args::{self, Amount, Task};
use crate::client::Client;
use crate::config::{self, Book, Config};
use crate::hosting::Purpose;
use crate::render;
use crate::terminal;
use crate::way::Way;
use contract::state::{AgentState, Review, WaitingFor};
use contract::{Code, Fault, NanoUsd, Page, TaskState, Timestamp};
use host::ops::agents::{AgentView, Book as _};
use host::ops::run::Budget;
use host::ops::task::add::NewErrand;
use host::ops::task::budget::BudgetChange;
use host::ops::task::decide::Words;
use host::ops::task::{TaskSheet, TaskView};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

pub async fn task(context: &Context, args: Option<Task>) -> Result<ExitCode, Stopped> {
    match args.unwrap_or(Task::List(args::TaskList::default())) {
        Task::Add(args) => add(context, *args).await,
        Task::List(args) => list(context, args).await,
        Task::Show(args) => show(context, args).await,
        Task::Cancel(args) => decide(context, &args.task, "cancel", Words::default()).await,
        Task::Retry(args) => decide(context, &args.task, "retry", Words::default()).await,
        Task::Reopen(args) => decide(context, &args.task, "reopen", Words::default()).await,
        Task::Approve(args) => decide(context, &args.task, "approve", Words::default()).await,
        Task::Reject(args) => {
            let words = Words { text: Some(args.reason.join(" ")), ..Words::default() };
            decide(context, &args.task, "reject", words).await
        }
        Task::Comment(args) => {
            // Under one id, so that a host that is lost on the way leaves no second one.
            let (id, text) = (Some(host::chance::command_id()), Some(args.text.join(" ")));
            decide(context, &args.task, "comment", Words { id, text, mentions: args.mention }).await
        }
        Task::Budget(args) => budget(context, args).await,
    }
}

async fn add(context: &Context, args: args::TaskAdd) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let here = &context.surroundings.cwd;
    let body = match args.body.as_deref() {
        Some("-") => crate::input::alone_from(context.surroundings.stdin_is_terminal)?,
        body => body.unwrap_or_default().to_owned(),
    };
    let not_before = args.not_before.as_deref().map(moment).transpose()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let mut cwd = args.cwd.map(|cwd| here.join(cwd));
    if cwd.is_none() {
        let own = match &args.agent {
            Some(agent) => {
                way.ask(async |client| works_somewhere(client, &place.config, agent).await).await
            }
            None => Ok(false),
        };
        match own {
            Ok(true) => {}
            // Who works nowhere of its own works here.
            Ok(false) => cwd = Some(here.clone()),
            Err(fault) => {
                way.finish().await;
                return Err(fault.into());
            }
        }
    }
    let mut new = NewErrand {
        // Asked for again after a change of host, it is the same task.
        id: Some(host::chance::task_id()),
        key: args.key,
        title: args.title_flag.unwrap_or_else(|| args.title.join(" ")),
        body,
        agent: args.agent,
        cwd,
        review: args.review.unwrap_or(Review::Person),
        priority: args.priority,
        labels: args.label,
        after: Vec::new(),
        parent: None,
        not_before,
        budget: Budget {
            nanousd: args.budget_usd,
            tokens: args.budget_tokens,
            turns: None,
            ms: args.budget_ms,
            best_effort: args.budget_best_effort,
        },
        context: args.context.map(|given| given.0),
    };
    let added = way
        .ask(async |client: &Client| {
            new.after.clear();
            for given in &args.after {
                new.after.push(client.task(given).await?.id);
            }
            if let Some(parent) = &args.parent {
                new.parent = Some(client.task(parent).await?.id);
            }
            Ok((client.add_task(&new).await?, client.serves().await))
        })
        .await;
    way.finish().await;
    let (task, served) = added?;
    match context.global.json {
        true => context.print_named(&task, ("id", "task_id"))?,
        false => context.print(&stands(&task))?,
    }
    if !served {
        // Who only adds is not kept from it.
        let _ = writeln!(
            std::io::stderr(),
            "queued; no server is running, start one with `ostler serve`"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether an agent has a place of its own to work at: one of the configuration, or one that was
/// hired. A name that is neither is the host's to refuse.
async fn works_somewhere(client: &Client, config: &Config, agent: &str) -> Result<bool, Fault> {
    if Book(config.clone()).has(agent) {
        let resolved = config::resolve(agent, config)?;
        return Ok(resolved.cwd.is_some() || resolved.repository.is_some());
    }
    match client.glance(agent).await {
        Ok(AgentView { spec: Some(spec), .. }) => {
            Ok(["cwd", "repository"].iter().any(|key| spec[key].is_string()))
        }
        Ok(AgentView { spec: None, .. }) => Ok(false),
        Err(fault) if fault.code == Code::NotFound => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// A time, or how long from now.
fn moment(given: &str) -> Result<Timestamp, Fault> {
    if let Ok(at) = serde_json::from_value::<Timestamp>(given.into()) {
        return Ok(at);
    }
    match args::limit(given) {
        Ok(contract::plan::Limit::Ms(ms)) => {
            Ok(host::clock::now().wall.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX)))
        }
        // No time either way.
        Ok(contract::plan::Limit::Unlimited) | Err(_) => {
            Err(Fault::new(Code::Usage, format!("cannot parse --not-before '{given}' as a time"))
                .with_hint("give 2026-11-16T09:00:00Z, or how long from now: 90s, 10m, 2h"))
        }
    }
}

async fn list(context: &Context, args: args::TaskList) -> Result<ExitCode, Stopped> {
    let mut path =
        format!("/api/v1/tasks?order=newest&limit={}&handed_over={}", args.limit, !args.all);
    for (name, value) in [("state", &args.state), ("label", &args.label)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", crate::client::escaped(value)));
        }
    }
    let ask = async |client: &Client| {
        let tasks = client.get::<Page<TaskView>>(&path).await?.items;
        let mut waits = BTreeMap::new();
        for task in tasks.iter().filter(|task| task.state == TaskState::Waiting) {
            waits.extend(waits_for(client, task).await.map(|why| (task.id, why)));
        }
        Ok((tasks, waits, client.asks().await?.len()))
    };
    let (tasks, waits, asks) = context.ask(ask).await?;
    if context.global.json {
        context.print_named(&tasks, ("id", "task_id"))?;
    } else if tasks.is_empty() {
        context.print(match args.state.is_some() || args.label.is_some() {
            true => "no such tasks; `ostler task list` without filters lists all",
            false => "no tasks yet; hand one over: ostler task add \"say hello\" --agent demo",
        })?;
    } else {
        let surroundings = &context.surroundings;
        let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
        let now = host::clock::now().wall;
        context.print_rendered(&render::tasks_table(
            &tasks,
            &waits,
            now,
            (surroundings.columns, colour),
        ))?;
        let looks = tasks.iter().any(|task| task.state == TaskState::Review);
        if surroundings.stdout_is_terminal && (looks || asks > 0) {
            context.print("")?;
        }
        if surroundings.stdout_is_terminal && asks > 0 {
            context.print(&super::runs::approvals_line(asks))?;
        }
        if surroundings.stdout_is_terminal && looks {
            context.print("? waiting for your review: ostler task show TASK")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a task waits for, in words, where its own row does not say enough: the task before it, or
/// its paused agent.
async fn waits_for(client: &Client, task: &TaskView) -> Option<String> {
    match task.waiting_for? {
        WaitingFor::Dependency => {
            let sheet: TaskSheet = client.get(&format!("/api/v1/tasks/{}", task.id)).await.ok()?;
            for after in sheet.after {
                let before = client.task(&after.to_string()).await.ok()?;
                if before.state != TaskState::Done {
                    return Some(format!("waits for '{}'", render::one_line(&before.title)));
                }
            }
            None
        }
        WaitingFor::Agent if is_paused(client, task).await => {
            Some(format!("{} is paused", render::one_line(task.agent.as_deref()?)))
        }
        _ => None,
    }
}

async fn show(context: &Context, args: args::OneTask) -> Result<ExitCode, Stopped> {
    let path = format!("/api/v1/tasks/{}", crate::client::escaped(&args.task));
    let ask = async |client: &Client| {
        let sheet = client.get::<TaskSheet>(&path).await?;
        let paused = is_paused(client, &sheet.task).await;
        Ok((sheet, client.asks().await?, paused))
    };
    let (sheet, mut asks, paused) = context.ask(ask).await?;
    if context.global.json {
        context.print_named(&sheet, ("id", "task_id"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let surroundings = &context.surroundings;
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    let now = host::clock::now().wall;
    asks.retain(|ask| sheet.runs.iter().any(|run| run.id == ask.run_id));
    let room = (surroundings.columns, colour);
    let sheet = render::task_sheet(&sheet, &asks, paused, now, room);
    context.print_rendered(&sheet)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a task waits because its agent was paused: one that waits for an agent may as well wait for
/// another of its chain that has its hands full, and nobody is resumed then.
async fn is_paused(client: &Client, task: &TaskView) -> bool {
    let agent = task.agent.as_ref().filter(|_| task.waiting_for == Some(WaitingFor::Agent));
    let Some(agent) = agent else { return false };
    client.glance(agent).await.is_ok_and(|agent| agent.state == AgentState::Paused)
}

async fn budget(context: &Context, args: args::TaskBudget) -> Result<ExitCode, Stopped> {
    let count = |times: f64| {
        move |amount: Amount| match amount {
            Amount::Unlimited => None,
            Amount::Of(amount) => Some((amount * times) as u64),
        }
    };
    let nanousd = match args.usd {
        None => None,
        Some(Amount::Unlimited) => Some(None),
        Some(Amount::Of(usd)) => Some(Some(NanoUsd::from_usd(usd).ok_or_else(|| {
            Fault::new(Code::Usage, format!("--usd {usd}: give an amount of dollars above 0"))
        })?)),
    };
    let tokens = args.tokens.map(count(1.0));
    let change =
        BudgetChange { nanousd, tokens, turns: None, ms: args.minutes.map(count(60_000.0)) };
    decide(context, &args.task, "budget", change).await
}

async fn decide(
    context: &Context,
    task: &str,
    verb: &str,
    words: impl serde::Serialize,
) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let mut way = Way::find(&place, Purpose::Act).await?;
    let decided = way.ask(async |client: &Client| client.decide(task, verb, &words).await).await;
    way.finish().await;
    let task = decided?;
    match context.global.json {
        true => context.print_named(&task, ("id", "task_id"))?,
        false => context.print(&stands(&task))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A task in a line: how it is named, where it stands, what it is.
fn stands(task: &TaskView) -> String {
    let id = task.id.to_string();
    let state = if task.recalled { "being stopped" } else { task.state.word() };
    format!("{} {state}: {}", render::tail(&id), render::one_line(&task.title))
}
