//! One row for each CLI: how it is pointed at the scripted model, and what is peculiar to it. The
//! words `{base}` and `{home}` stand for the model's address and the instance's HOME.
//!
//! `env` is what a person would have set and the card lets through; what only a test needs, such as
//! switches against telemetry and updates, is given by our own configuration.

/// How one CLI is prepared, and what it is known to tell.
#[derive(Debug)]
pub struct Cli {
    pub id: &'static str,
    /// Files of its own, below HOME.
    pub files: &'static [(&'static str, &'static str)],
    /// Variables of the person who starts Ostler.
    pub env: &'static [(&'static str, &'static str)],
    /// Variables of our configuration.
    pub given: &'static [(&'static str, &'static str)],
    /// Whether thoughts are printed, or only counted.
    pub thinking: Thinking,
    pub quota: Quota,
    /// Whether its tokens hold those of side calls, such as for a title.
    pub side_calls: bool,
    /// How a request shows that our tools are offered by MCP: some offer them whole, some only
    /// tell the model what it can ask for.
    pub tools: Option<&'static str>,
    /// Whether it leaves by itself when it is told to stop, and its exit would show a signal. One
    /// that leaves SIGTERM with 0 cannot be told apart.
    pub obeys: bool,
}

/// One of our tools, whose name no CLI has of its own.
pub const OUR_TOOL: &str = "report_progress";

#[derive(Debug, PartialEq, Eq)]
pub enum Thinking {
    Shown,
    Counted,
}

/// What it tells of a quota that is used up for an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    WithReset,
    Named,
    /// Nothing at all: it waits without a word, and a clock of ours has to end it.
    Silent,
}

pub const CLIS: &[Cli] = &[
    Cli {
        id: "claude",
        files: &[],
        env: &[
            ("ANTHROPIC_BASE_URL", "{base}"),
            ("ANTHROPIC_API_KEY", "test-key"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ],
        given: &[],
        thinking: Thinking::Shown,
        quota: Quota::WithReset,
        side_calls: true,
        tools: Some(OUR_TOOL),
        obeys: true,
    },
    Cli {
        id: "codex",
        files: &[(
            ".codex/config.toml",
            r#"
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
[model_providers.scripted]
name = "scripted"
base_url = "{base}/v1"
env_key = "SCRIPTED_API_KEY"
wire_api = "responses"
"#,
        )],
        env: &[],
        given: &[("SCRIPTED_API_KEY", "test-key")],
        thinking: Thinking::Shown,
        quota: Quota::Named,
        side_calls: true,
        tools: Some("\\n- ostler\\n"),
        obeys: false,
    },
    Cli {
        id: "gemini",
        files: &[(
            ".gemini/settings.json",
            r#"{
  "security": { "auth": { "selectedType": "gemini-api-key" } },
  "privacy": { "usageStatisticsEnabled": false },
  "telemetry": { "enabled": false },
  "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false }
}"#,
        )],
        env: &[("GEMINI_API_KEY", "test-key"), ("GOOGLE_GEMINI_BASE_URL", "{base}")],
        given: &[],
        thinking: Thinking::Counted,
        quota: Quota::Named,
        side_calls: true,
        tools: None,
        obeys: false,
    },
    Cli {
        id: "opencode",
        files: &[(
            ".config/opencode/opencode.json",
            r#"{ "autoupdate": false, "share": "disabled",
  "model": "scripted/fake-model", "small_model": "scripted/fake-model",
  "provider": { "scripted": { "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
    "options": { "baseURL": "{base}/v1", "apiKey": "test-key" },
    "models": { "fake-model": { "name": "Fake", "reasoning": true, "tool_call": true,
      "limit": { "context": 200000, "output": 32000 },
      "cost": { "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75 } } } } } }"#,
        )],
        env: &[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ],
        given: &[("XDG_CONFIG_HOME", "{home}/.config"), ("OPENCODE_DISABLE_SHARE", "1")],
        thinking: Thinking::Shown,
        quota: Quota::Silent,
        side_calls: false,
        tools: Some(OUR_TOOL),
        obeys: false,
    },
    Cli {
        id: "pi",
        files: &[
            (
                ".pi/agent/models.json",
                r#"{ "providers": { "scripted": {
  "baseUrl": "{base}/v1", "api": "openai-completions", "apiKey": "test-key",
  "models": [{ "id": "fake-model", "reasoning": true, "contextWindow": 200000, "maxTokens": 32000,
    "cost": { "input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75 } }] } } }"#,
            ),
            (
                ".pi/agent/settings.json",
                r#"{ "defaultProvider": "scripted", "defaultModel": "fake-model" }"#,
            ),
        ],
        env: &[],
        given: &[("PI_OFFLINE", "1"), ("PI_TELEMETRY", "0"), ("PI_SKIP_VERSION_CHECK", "1")],
        thinking: Thinking::Shown,
        quota: Quota::Named,
        side_calls: true,
        tools: None,
        obeys: false,
    },
];

impl Cli {
    pub fn of(id: &str) -> &'static Self {
        CLIS.iter().find(|cli| cli.id == id).unwrap_or_else(|| panic!("{id} has no row"))
    }
}
