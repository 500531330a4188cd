//! The product with the real agents of others: each pinned CLI in an instance of its own, its HOME
//! empty, its keys made up, its model a scripted one on loopback. `cargo xtask agents` installs them
//! and runs this; a CLI that is not there is a failure.
//!
//! `clis` says how each one is pointed at the model and what is peculiar to it, `scenarios` what is
//! done with all of them, `acp` what is done with those that have a second lane, `budgets` how budgets
//! hold them, `tokens` what the model says it spent, `readme` plays the README, `stage` how it is put
//! together.

#![allow(clippy::print_stderr, reason = "a test of size prints its figures")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and read the clock for themselves"
)]

mod acp;
mod budgets;
mod clis;
#[path = "../e2e/console.rs"]
mod console;
#[path = "../e2e/ostler.rs"]
#[allow(dead_code, unused_imports, reason = "the other suite uses the rest of it")]
mod ostler;
mod readme;
mod scenarios;
mod stage;
mod tokens;

/// One module for each CLI, one test for each scenario.
macro_rules! driven {
    ($($cli:ident)*) => {
        $(mod $cli {
            use crate::scenarios;

            const CLI: &str = stringify!($cli);

            #[test]
            fn a_prompt_of_200_kb_arrives_and_is_answered() {
                scenarios::hello(CLI);
            }

            #[test]
            fn piped_input_reaches_the_model() {
                scenarios::piped(CLI);
            }

            #[test]
            fn a_file_is_really_written() {
                scenarios::write(CLI);
            }

            #[test]
            fn two_tools_of_one_answer_are_paired() {
                scenarios::two_tools(CLI);
            }

            #[test]
            fn thinking_is_told_apart_from_text() {
                scenarios::thinking(CLI);
            }

            #[test]
            fn a_conversation_goes_on() {
                scenarios::goes_on(CLI);
            }

            #[test]
            fn a_used_up_quota_is_named() {
                scenarios::quota(CLI);
            }

            #[test]
            fn a_stop_in_the_middle_of_a_tool_leaves_nothing() {
                scenarios::stopped(CLI);
            }

            #[test]
            fn an_agent_killed_in_the_middle_of_a_tool_leaves_nothing() {
                scenarios::killed(CLI);
            }
        })*
    };
}

driven!(claude codex gemini opencode);

/// Budgets in an endless loop of tool calls.
mod budget {
    use crate::budgets;

    #[test]
    fn dollars_hold_claude() {
        budgets::usd("claude");
    }

    #[test]
    fn tokens_hold_claude() {
        budgets::tokens("claude");
    }

    #[test]
    fn turns_hold_claude() {
        budgets::turns("claude");
    }

    #[test]
    fn tokens_hold_a_sub_agent_of_claude_in_the_background() {
        budgets::sub_agent("claude");
    }

    #[test]
    fn opencode_has_no_sub_agents_under_a_budget() {
        budgets::no_sub_agents("opencode", "task");
    }

    #[test]
    fn gemini_has_no_sub_agents_under_a_budget() {
        budgets::no_sub_agents("gemini", "invoke_agent");
    }

    #[test]
    fn gemini_by_acp_is_stopped_when_it_tells_nothing() {
        crate::acp::untold_budgets("gemini");
    }

    #[test]
    fn opencode_by_acp_is_stopped_when_it_tells_nothing() {
        crate::acp::untold_budgets("opencode");
    }

    #[test]
    fn codex_that_finishes_at_the_limit_has_succeeded() {
        budgets::finished_at_the_limit("codex");
    }

    #[test]
    fn dollars_hold_codex() {
        budgets::usd("codex");
    }

    #[test]
    fn tokens_hold_codex() {
        budgets::tokens("codex");
    }

    #[test]
    fn turns_hold_codex() {
        budgets::turns("codex");
    }

    #[test]
    fn dollars_hold_opencode() {
        budgets::usd("opencode");
    }

    #[test]
    fn tokens_hold_opencode() {
        budgets::tokens("opencode");
    }

    #[test]
    fn turns_hold_opencode() {
        budgets::turns("opencode");
    }

    #[test]
    fn turns_hold_gemini() {
        budgets::turns("gemini");
    }

    #[test]
    fn gemini_refuses_what_it_tells_too_late() {
        budgets::refused("gemini", "--budget-usd", "1");
        budgets::refused("gemini", "--budget-tokens", "1000");
    }
}

/// A plan that is used up is known of one alone.
mod plan {
    #[test]
    fn codex_says_when_a_used_up_plan_resets() {
        crate::scenarios::plan_limit("codex");
    }
}

/// Those beyond every day: whether they can be driven at all, and what is cheap to see of them.
mod beyond {
    mod by_acp;
    mod policies;

    macro_rules! greeted {
        ($($cli:ident)*) => {
            $(mod $cli {
                use crate::scenarios;

                const CLI: &str = stringify!($cli);

                #[test]
                fn a_long_prompt_arrives_and_is_answered() {
                    scenarios::hello(CLI);
                }

                #[test]
                fn a_file_is_really_written() {
                    scenarios::write(CLI);
                }

                #[test]
                fn a_conversation_goes_on() {
                    scenarios::goes_on(CLI);
                }

                #[test]
                fn a_used_up_quota_is_named() {
                    scenarios::quota(CLI);
                }
            })*
        };
    }

    mod budget {
        use crate::budgets;

        #[test]
        fn dollars_hold_pi() {
            budgets::usd("pi");
        }

        #[test]
        fn tokens_hold_pi() {
            budgets::tokens("pi");
        }

        #[test]
        fn turns_hold_pi() {
            budgets::turns("pi");
        }

        #[test]
        fn turns_hold_copilot() {
            budgets::turns("copilot");
        }

        #[test]
        fn copilot_by_acp_is_stopped_when_it_tells_nothing() {
            crate::acp::untold_budgets("copilot");
        }

        #[test]
        fn copilot_refuses_what_it_never_tells() {
            budgets::refused("copilot", "--budget-usd", "1");
            budgets::refused("copilot", "--budget-tokens", "1000");
        }
    }

    greeted!(pi copilot kilo droid cline openclaw hermes aider openhands);
}
