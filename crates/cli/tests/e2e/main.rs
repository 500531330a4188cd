//! The product as its users meet it: the real binary, real processes, one isolated instance per
//! test. Everything is on loopback and in temporary directories; every wait has a bound.

#![allow(clippy::print_stderr, reason = "a test of size prints its figures")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start processes and read the clock for themselves"
)]

mod acp;
mod acp_deaths;
mod acp_policy;
mod acp_strangers;
mod activity;
mod adopted;
mod api;
mod api_page;
mod approvals;
mod asks;
mod assistant;
mod background;
mod bad_input;
mod budgets;
mod burst;
mod conformance;
mod conformance_acp;
mod console;
mod damage;
mod deaths;
mod doctor;
mod door;
mod environment;
mod escape;
mod fallback;
mod fifty;
mod first_minutes;
mod generated_client;
mod git;
mod guide;
mod handover;
mod hired;
mod hook;
mod hostile;
mod limits;
mod lost;
mod manners;
mod mapped;
mod mcp;
mod mcp_waits;
mod metrics;
mod moment;
mod money;
mod operator_log;
mod ostler;
mod owned;
mod pages;
mod piped_input;
mod pool;
mod principals;
mod processes;
mod protocol;
mod queue;
mod queue_deaths;
mod read_only;
mod record;
mod remote;
mod remote_agents;
mod remote_caller;
mod remote_chain;
mod remote_cuts;
mod remote_judged;
mod remote_memory;
mod remote_pool;
mod remote_server;
mod remote_server_tls;
mod remote_tls;
mod removal;
mod run_argument;
mod schemathesis;
mod secrets;
mod security;
mod sessions;
mod shells;
mod skills;
mod spare;
mod status;
mod stop;
mod storage;
mod suite;
mod surface;
mod tasks;
mod tls;
mod told;
mod trace;
mod trees;
mod watchdogs;
mod watchers;
mod without_disk;
