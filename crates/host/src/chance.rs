//! The only place that draws lots: ids and tokens.

use contract::{AgentId, AskId, CommandId, RunId, TaskId, TokenId};
use std::fmt::Write as _;
use uuid::Uuid;

pub fn run_id() -> RunId {
    RunId::new(fresh())
}

pub fn task_id() -> TaskId {
    TaskId::new(fresh())
}

pub fn command_id() -> CommandId {
    CommandId::new(fresh())
}

pub fn ask_id() -> AskId {
    AskId::new(fresh())
}

pub fn token_id() -> TokenId {
    TokenId::new(fresh())
}

/// An id for what is made under a key of its caller's.
pub fn chosen() -> Uuid {
    fresh()
}

/// The id of a call that came by MCP. It cannot be guessed, so an agent's own ids never meet it.
pub fn call_id() -> String {
    format!("mcp_{}", fresh().simple())
}

/// A name for a file that is there for a moment.
pub fn aside() -> String {
    format!(".ostler-{}", fresh().simple())
}

/// An agent that was never hired has an id made from its name, so that its runs belong together.
pub fn agent_id(name: &str) -> AgentId {
    let hash = blake3::hash(name.as_bytes());
    let bytes: [u8; 16] = std::array::from_fn(|i| hash.as_bytes()[i]);
    AgentId::new(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// An id that is the same whenever it is made of the same words.
pub fn command_id_of(words: &str) -> CommandId {
    let hash = blake3::hash(words.as_bytes());
    let bytes: [u8; 16] = std::array::from_fn(|i| hash.as_bytes()[i]);
    CommandId::new(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

#[expect(clippy::disallowed_methods, reason = "ids are made here and nowhere else")]
fn fresh() -> Uuid {
    Uuid::now_v7()
}

/// A number from 0 to 1.
pub fn unit() -> f64 {
    // The low bits of an id are random.
    (fresh().as_u128() & u128::from(u32::MAX)) as f64 / f64::from(u32::MAX)
}

/// 256 random bits in hexadecimal. Fails only when the kernel gives no randomness.
pub fn token() -> std::io::Result<String> {
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(hex(&bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
