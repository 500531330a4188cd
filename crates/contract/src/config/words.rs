//! The words and numbers a value of `ostler.json` may be: closed choices, seconds, and seconds that
//! may be `unlimited`; a duration such as `10m` is seconds by the time it comes here. Each reads and writes exactly what its schema says; 0 seconds stands for the
//! default everywhere.

use crate::plan::Limit;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $(#[serde(rename = $word)] $variant),+
        }

        #[allow(dead_code)]
        impl $name {
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    )+};
}

choices! {
    AdapterType { Process = "process", Cli = "cli", Acp = "acp", Http = "http" }
    Protocol {
        JsonLines = "json-lines",
        CaHttpV1 = "ca-http-v1",
        HermesRunsV1 = "hermes-runs-v1",
        WebhookV1 = "webhook-v1",
    }
    ProjectContext { Load = "load", Isolate = "isolate" }
    LaneChoice { Auto = "auto", Native = "native", Acp = "acp" }
    TurnEnd { Reply = "reply", Update = "update" }
    AuthType { Bearer = "bearer", Mtls = "mtls", None = "none" }
    AutoOff { Auto = "auto", Off = "off" }
    OnOff { On = "on", Off = "off" }
    Off { Off = "off" }
    EnvCompat { Paperclip = "paperclip" }
    Billing { Metered = "metered", Subscription = "subscription", Free = "free" }
    QuotaSource { Auto = "auto", Oauth = "oauth", Off = "off" }
    Workspace { Here = "here", Worktree = "worktree", Temporary = "temporary" }
    Window { Run = "run", Day = "day", Month = "month", Lifetime = "lifetime" }
    Activity { Full = "full", Off = "off" }
    LogFormat { Text = "text", Json = "json" }
}

fn seconds_schema() -> Value {
    json!({ "type": "number", "minimum": 0 })
}

/// A text such as `10m`, which is read as seconds (`crates/cli/src/config/read.rs`).
fn duration_schema() -> Value {
    json!({ "type": "string", "pattern": "^[0-9.]+(ms|s|m|h)?$" })
}

/// A number of seconds; 0 stands for the default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

impl Seconds {
    /// Milliseconds; `None` for 0, which is the default.
    pub fn ms(self) -> Option<u64> {
        // The cast saturates: an absurdly long time is the longest there is.
        (self.0 > 0.0).then(|| ((self.0 * 1000.0).round() as u64).max(1))
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [seconds_schema(), duration_schema()] })
    }
}

/// A number of seconds, or the word `unlimited`; 0 stands for the default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Patience {
    Seconds(Seconds),
    Unlimited,
}

impl Patience {
    const WORD: &str = "unlimited";

    pub fn limit(self) -> Option<Limit> {
        match self {
            Self::Seconds(seconds) => seconds.ms().map(Limit::Ms),
            Self::Unlimited => Some(Limit::Unlimited),
        }
    }
}

impl Serialize for Patience {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Seconds(seconds) => seconds.serialize(serializer),
            Self::Unlimited => serializer.serialize_str(Self::WORD),
        }
    }
}

impl<'de> Deserialize<'de> for Patience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == Self::WORD => Ok(Self::Unlimited),
            Value::Number(number) => {
                let seconds = number.as_f64().unwrap_or_default();
                Ok(Self::Seconds(Seconds(seconds)))
            }
            _ => Err(serde::de::Error::custom("expected seconds or \"unlimited\"")),
        }
    }
}

impl JsonSchema for Patience {
    fn schema_name() -> Cow<'static, str> {
        "Patience".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                seconds_schema(),
                { "type": "string", "const": Self::WORD },
                duration_schema(),
            ]
        })
    }
}
