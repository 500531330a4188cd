//! The built-in demo agent: this same program, started again as `demo-agent`, so that the whole way
//! can be seen with nothing installed and no key. It speaks the process protocol and says hello, so
//! it takes messages and interrupts. The agent itself lives in the binary, not here.

use crate::process::{launch, policies};
use crate::{Dialect, ExitEvidence, Runtime, Spec, jsonlines};
use contract::card::{Can, CardEvidence, Dollars, Mcp, Model, Reports, Retries, Told};
use contract::plan::Lane;
use contract::{Card, Code, Fault, LaunchPlan};
use std::collections::BTreeMap;

/// The runtime of the demo agent.
pub struct Demo;

impl Runtime for Demo {
    fn card(&self) -> Card {
        Card {
            id: "demo".to_owned(),
            label: "Demo agent".to_owned(),
            versions_recorded: Vec::new(),
            evidence: CardEvidence::Documented,
            requires: Vec::new(),
            lanes: vec![Lane::Process],
            models: vec![Model { id: "demo".to_owned(), label: "No model at all".to_owned() }],
            models_source: "built in: it plays a story and calls no model".to_owned(),
            default_model: Some("demo".to_owned()),
            context_window: None,
            model_list: None,
            reports: Reports {
                tokens: true,
                usage: Told::PerAnswer,
                answers: Told::PerAnswer,
                dollars: Dollars::Trusted,
                quota: false,
                activity: true,
            },
            can: Can {
                resume: false,
                interrupt: true,
                message: true,
                permissions: false,
                compaction: false,
                system_prompt: None,
                mcp: Mcp::None,
                api: false,
            },
            env: Vec::new(),
            env_modes: Vec::new(),
            env_files: Vec::new(),
            retries: Retries::Bounded,
            closing: "a complete or failed line".to_owned(),
            policies: policies(),
            skills: None,
            login: None,
            handshake: None,
            use_when: "nothing is installed yet, or you want to see a whole run without a key\n\
             you want to try tasks, approvals, budgets and worktrees without spending anything\n\
             a script or a client of the API is tested: each run does the same"
                .to_owned(),
            dont_use_when: "you want real work done: it has no model\n\
             a permission policy is to be tried: it asks only what its story asks\n\
             the time or the cost of an agent is to be measured"
                .to_owned(),
            config_schema: BTreeMap::new(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        launch(spec, &self.card(), spec.own_program.clone(), vec!["demo-agent".to_owned()])
    }

    fn dialect(&self, _: &Spec) -> Box<dyn Dialect> {
        jsonlines::fresh()
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        jsonlines::restore(state)
    }

    fn classify(&self, _: &ExitEvidence<'_>) -> Option<Code> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Context;
    use contract::plan::StdinMode;
    use serde_json::json;

    #[test]
    fn the_demo_is_this_program_started_again() {
        let spec = Spec {
            adapter: serde_json::from_value(json!({ "name": "demo", "runtime": "demo" })).unwrap(),
            context: Context::new(),
            model: None,
            prompt: "hello".into(),
            system_prompt: None,
            policy: contract::Policy::Ask,
            lane: contract::plan::Lane::Process,
            session: None,
            budget: Default::default(),
            counts_spending: false,
            files: String::new(),
            as_root: false,
            own_program: "/opt/bin/ostler".into(),
            caller_env: BTreeMap::new(),
        };
        let plan = Demo.plan(&spec).unwrap();
        assert_eq!((plan.program.as_str(), plan.stdin), ("/opt/bin/ostler", StdinMode::Events));
        assert_eq!(plan.args, ["demo-agent"]);
        assert_eq!(plan.secrets, [""; 0]);
    }
}
