//! Typed ids: a prefix that says what it names, then a UUID v7 without hyphens.
//! This crate can read and write ids but never makes one: chance lives in `host`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Why a text is not an id: it names the prefix that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not an id: expected '{prefix}' and 32 hexadecimal digits")]
pub struct BadId {
    pub given: String,
    pub prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn uuid(self) -> Uuid {
                self.0
            }

            /// Appends what `Display` shows.
            pub fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice($prefix.as_bytes());
                out.extend_from_slice(self.0.simple().encode_lower(&mut [0; 32]).as_bytes());
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                f.write_str(self.0.simple().encode_lower(&mut [0; 32]))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(given: &str) -> Result<Self, BadId> {
                given
                    .strip_prefix($prefix)
                    .filter(|digits| digits.len() == 32)
                    .and_then(|digits| Uuid::try_parse(digits).ok())
                    .map(Self)
                    .ok_or_else(|| BadId { given: given.chars().take(80).collect(), prefix: $prefix })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given = Cow::<str>::deserialize(deserializer)?;
                given.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": concat!("^", $prefix, "[0-9a-f]{32}$")
                })
            }
        }
    };
}

id!(/// What someone wants done.
    TaskId, "task_");
id!(/// One agent's work on one task under one lease.
    RunId, "run_");
id!(/// A hired worker.
    AgentId, "agent_");
id!(/// A question waiting for a person.
    AskId, "ask_");
id!(/// A wish in a run's inbox.
    CommandId, "cmd_");
id!(/// A token of the API that a person was given.
    TokenId, "token_");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_what_it_wrote() {
        let id = RunId::new(Uuid::from_u128(7));
        assert_eq!(id.to_string(), "run_00000000000000000000000000000007");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(
            serde_json::from_str::<RunId>(&serde_json::to_string(&id).unwrap()).unwrap(),
            id
        );
    }

    #[test]
    fn an_id_of_another_kind_is_refused_by_name() {
        let task = TaskId::new(Uuid::from_u128(7)).to_string();
        assert_eq!(
            task.parse::<RunId>().unwrap_err().to_string(),
            "'task_00000000000000000000000000000007' is not an id: expected 'run_' and 32 hexadecimal digits"
        );
    }
}
