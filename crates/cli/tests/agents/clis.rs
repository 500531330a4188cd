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
    /// The model, where it must be named to it.
    pub model: Option<&'static str>,
    /// How long a prompt it takes.
    pub prompt: Prompt,
    /// Whether it tells what it spent.
    pub tokens: Tokens,
    /// Whether its calls of tools are told one by one.
    pub calls: Calls,
    pub resumes: Resumes,
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

/// How long a prompt can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    AnyLength,
    /// It has to be an argument, and there is little room for those.
    Argument,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokens {
    Told,
    /// What came from a cache is not told apart from the rest of what was sent.
    Undivided,
    Untold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    Told,
    Untold,
}

/// What becomes of `--continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumes {
    /// It goes on with its own conversation.
    ItsOwn,
    /// It does not know the conversation, and is begun afresh with a hand-over.
    Afresh,
    /// It has no conversations, and the command is refused.
    Never,
}

/// What it tells of a quota that is used up for an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    WithReset,
    Named,
    /// Nothing at all: it waits without a word, and a clock of ours has to end it.
    Silent,
    /// That somebody has to pay: it takes the one for the other, in words of its own.
    Billing,
}

/// One that shows and tells everything, for the rows to say what is otherwise.
const OPEN: Cli = Cli {
    id: "",
    files: &[],
    env: &[],
    given: &[],
    model: None,
    prompt: Prompt::AnyLength,
    tokens: Tokens::Told,
    calls: Calls::Told,
    resumes: Resumes::ItsOwn,
    thinking: Thinking::Shown,
    quota: Quota::Named,
    side_calls: true,
    tools: None,
    obeys: false,
};

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
        ..OPEN
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
        ..OPEN
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
        ..OPEN
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
        side_calls: false,
        tools: Some(OUR_TOOL),
        obeys: false,
        ..OPEN
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
        ..OPEN
    },
    Cli {
        id: "copilot",
        env: &[
            ("COPILOT_PROVIDER_BASE_URL", "{base}/v1"),
            ("COPILOT_PROVIDER_TYPE", "openai"),
            ("COPILOT_PROVIDER_API_KEY", "test-key"),
            ("COPILOT_MODEL", "gpt-5"),
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_AUTO_UPDATE", "false"),
        ],
        // Headless it prints none; its card says so.
        tokens: Tokens::Untold,
        tools: Some(OUR_TOOL),
        ..OPEN
    },
    Cli {
        id: "kilo",
        files: &[(
            ".config/kilo/kilo.json",
            r#"{ "autoupdate": false, "share": "disabled",
  "model": "scripted/fake-model", "small_model": "scripted/fake-model",
  "provider": { "scripted": { "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
    "options": { "baseURL": "{base}/v1", "apiKey": "test-key" },
    "models": { "fake-model": { "name": "Fake", "reasoning": true, "tool_call": true,
      "limit": { "context": 200000, "output": 32000 },
      "cost": { "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75 } } } } } }"#,
        )],
        env: &[
            ("KILO_DISABLE_AUTOUPDATE", "1"),
            ("KILO_DISABLE_MODELS_FETCH", "1"),
            ("KILO_DISABLE_SHARE", "1"),
            ("KILO_TELEMETRY_LEVEL", "off"),
        ],
        given: &[("XDG_CONFIG_HOME", "{home}/.config")],
        side_calls: false,
        tools: Some(OUR_TOOL),
        ..OPEN
    },
    Cli {
        id: "droid",
        files: &[(
            ".factory/settings.json",
            r#"{ "enableTelemetry": false, "customModels": [{
  "model": "fake-model", "id": "custom:fake", "displayName": "Fake", "baseUrl": "{base}/v1",
  "apiKey": "test-key", "provider": "generic-chat-completion-api", "maxOutputTokens": 8000 }] }"#,
        )],
        env: &[("FACTORY_API_KEY", "test-key"), ("FACTORY_DISABLE_AUTO_UPDATE", "1")],
        model: Some("custom:fake"),
        // Without its vendor it leaves with 1 and without a word when it is to go on.
        resumes: Resumes::Afresh,
        ..OPEN
    },
    Cli {
        id: "cline",
        files: &[(
            ".cline/data/settings/providers.json",
            r#"{ "version": 1, "lastUsedProvider": "openai-compatible", "modes": {},
  "providers": { "openai-compatible": {
    "settings": { "provider": "openai-compatible", "apiKey": "test-key", "model": "fake-model",
      "baseUrl": "{base}/v1" },
    "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual" } } }"#,
        )],
        env: &[("CLINE_DISABLE_TELEMETRY", "1"), ("CLINE_NO_AUTO_UPDATE", "1")],
        prompt: Prompt::Argument,
        // It names no conversation, and takes none up where it prints JSON.
        resumes: Resumes::Never,
        ..OPEN
    },
    Cli {
        id: "openclaw",
        files: &[(
            ".openclaw/openclaw.json",
            r#"{ "models": { "mode": "merge", "providers": { "scripted": {
    "baseUrl": "{base}/v1", "apiKey": "test-key", "api": "openai-completions", "models": [{
      "id": "fake-model", "name": "Fake", "reasoning": false, "input": ["text"],
      "cost": { "input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75 },
      "contextWindow": 200000, "maxTokens": 8192 }] } } },
  "agents": { "defaults": { "model": { "primary": "scripted/fake-model" } } },
  "gateway": { "mode": "local" } }"#,
        )],
        env: &[("OPENCLAW_NO_AUTO_UPDATE", "1")],
        calls: Calls::Untold,
        quota: Quota::Billing,
        ..OPEN
    },
    Cli {
        id: "hermes",
        files: &[(
            ".hermes/config.yaml",
            "model:\n  default: fake-model\n  provider: custom\n  base_url: {base}/v1\n  api_key: test-key\n",
        )],
        env: &[("OPENAI_BASE_URL", "{base}/v1"), ("OPENAI_API_KEY", "test-key")],
        prompt: Prompt::Argument,
        calls: Calls::Untold,
        // Of this version: it drops the flag for it without a word.
        resumes: Resumes::Never,
        quota: Quota::Silent,
        ..OPEN
    },
    Cli {
        id: "aider",
        env: &[
            ("OPENAI_API_BASE", "{base}/v1"),
            ("OPENAI_API_KEY", "test-key"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ],
        // For a model it does not know it takes another format than the scripted model writes.
        given: &[("AIDER_EDIT_FORMAT", "diff")],
        model: Some("openai/fake-model"),
        tokens: Tokens::Undivided,
        // It has no tools: what it changes it writes itself.
        calls: Calls::Untold,
        resumes: Resumes::Never,
        ..OPEN
    },
    Cli {
        id: "openhands",
        env: &[
            ("LLM_API_KEY", "test-key"),
            ("LLM_BASE_URL", "{base}/v1"),
            ("LLM_MODEL", "openai/fake-model"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ],
        given: &[("OPENHANDS_SUPPRESS_BANNER", "1")],
        tokens: Tokens::Untold,
        ..OPEN
    },
];

impl Cli {
    pub fn of(id: &str) -> &'static Self {
        CLIS.iter().find(|cli| cli.id == id).unwrap_or_else(|| panic!("{id} has no row"))
    }
}
