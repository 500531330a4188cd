//! What a server and a keeper say to each other, as messages of one SEQPACKET socket.
//!
//! ```text
//! 0 u8 op | 1 u8 flags (1: more parts follow) | 2 u32 number, little-endian | 6 payload
//! ```
//!
//! A message longer than [`MESSAGE_PAYLOAD_BYTES_MAX`] goes in parts, which [`Assembler`] joins
//! and counts as one. Orders go down, reports come up. Nothing here touches a socket; see
//! [`crate::packet`]. Old keepers meet new servers for hours, so both speak a version and the one
//! before it; numbers of ops are never used again.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits::{JOINED_BYTES_MAX, MESSAGE_PAYLOAD_BYTES_MAX};
use crate::plan::Plan;
use crate::record::Isolation;

/// The version spoken here.
pub const VERSION: u32 = 1;
/// The oldest version still understood.
pub const VERSION_OLDEST: u32 = 1;

/// Length of a message's header.
pub const HEADER_BYTES: usize = 6;
/// Longest packet, for the receiver's buffer.
pub const PACKET_BYTES_MAX: usize = HEADER_BYTES + MESSAGE_PAYLOAD_BYTES_MAX;

const MORE: u8 = 1;

/// From the server to the keeper.
#[derive(Clone, PartialEq, Eq)]
pub enum Order {
    /// First and once, on the socket the keeper was born with. The keeper makes everything ready and
    /// starts nothing.
    Plan(Box<Plan>),
    /// Second and once: start the agent. Answered by `Hello`. A keeper whose socket closes before this
    /// takes the spool away and leaves.
    Launch,
    /// Say frame `n` to the agent. Numbers rise; each is settled exactly once, by `SaidAck` or
    /// `Dropped`, however often it is sent. The next may be sent when this one is settled.
    Say { n: u32, bytes: Vec<u8> },
    /// Close stdin, as item `n` of the same sequence.
    CloseStdin { n: u32 },
    /// The way to say goodbye has changed; empty means closing stdin.
    Farewell { bytes: Vec<u8> },
    /// The lease ends at `deadline_ms` on the clock of the plan.
    Renew { fence: u64, deadline_ms: u64 },
    /// Stop the agent. A second stop can only shorten the graces of the first; graces of zero
    /// leave out the rung they belong to.
    Stop { reason: String, farewell_ms: u64, term_ms: u64 },
    /// Asks for a `Pong` with the same number, so that the host knows that the keeper still obeys
    /// orders. Only keepers whose hello says `answers_pings` know it.
    Ping { n: u32 },
    /// First on a dialled connection. Whoever shows the secret and no lower fence owns the keeper
    /// from then on, and the owner before is disconnected.
    Hello { secret: String, fence: u64, version: u32 },
}

/// Orders carry prompts and secrets, so only their kind is shown.
impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Message { op, number, payload } = self.to_message();
        write!(f, "Order {{ op: {op}, number: {number}, bytes: {} }}", payload.len())
    }
}

/// From the keeper to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Answers a launch and a hello.
    Hello(Box<HelloReply>),
    /// Item `n` is in the agent's stdin to its last byte.
    SaidAck { n: u32 },
    /// Item `n` will never be said.
    Dropped { n: u32 },
    /// There is more in the spool.
    Poke,
    /// Order number `n`, if it had one, was not carried out.
    Refused { n: u32, why: Refusal },
    /// The testimony is in the spool and the keeper leaves.
    Exit,
    /// Answers a ping.
    Pong { n: u32 },
}

/// What a new owner needs to go on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    pub version: u32,
    pub fence: u64,
    /// Absent when the program could not be started.
    pub agent_pid: Option<i32>,
    pub keeper_pid: i32,
    /// The highest number that is settled; zero before the first.
    pub last_said: u32,
    /// The number being said now; its settlement will be reported.
    pub held: Option<u32>,
    pub spool_len: u64,
    pub deadline_ms: u64,
    pub stage: Stage,
    /// Keepers before there were levels held at the lowest.
    #[serde(default)]
    pub isolation: Isolation,
    /// Why it is not stronger, when nobody asked for this level by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_note: Option<String>,
    /// The plan's secrets; left out in the answer to the launch.
    pub secrets: Vec<(String, String)>,
    /// The plan's luggage; left out like the secrets, and by keepers from before there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub luggage: Option<String>,
    /// Whether it answers pings; keepers of earlier versions drop the connection instead.
    #[serde(default)]
    pub answers_pings: bool,
}

impl std::fmt::Debug for HelloReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelloReply")
            .field("version", &self.version)
            .field("fence", &self.fence)
            .field("agent_pid", &self.agent_pid)
            .field("keeper_pid", &self.keeper_pid)
            .field("last_said", &self.last_said)
            .field("held", &self.held)
            .field("spool_len", &self.spool_len)
            .field("deadline_ms", &self.deadline_ms)
            .field("stage", &self.stage)
            .field("isolation", &self.isolation)
            .field("secrets", &self.secrets.len())
            .finish()
    }
}

/// How far the attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Running,
    /// The farewell was said and has its grace.
    Farewell,
    /// The family was sent SIGTERM and has its grace.
    Term,
    /// The agent was sent SIGKILL.
    Kill,
    /// The agent is gone; its descendants may still be heard.
    Drain,
    /// What is left of the family is being killed.
    Sweep,
    /// Nobody is left; the testimony is being written.
    Over,
}

/// Why an order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("another frame is being said")]
    Busy,
    #[error("the frame is too long")]
    TooLong,
    #[error("the fence is lower than the owner's")]
    Fence,
    #[error("the secret is wrong")]
    Secret,
    #[error("the version is not spoken")]
    Version,
    #[error("the order is malformed or out of place")]
    Malformed,
    #[error("the spool cannot be opened")]
    Spool,
}

/// Bytes that are no message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed control message")]
pub struct Malformed;

/// One message before it is split, or after it is joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    op: u8,
    number: u32,
    payload: Vec<u8>,
}

impl Message {
    fn new(op: u8, number: u32, payload: Vec<u8>) -> Self {
        Self { op, number, payload }
    }

    fn json(op: u8, payload: &impl Serialize) -> Self {
        Self::new(op, 0, serde_json::to_vec(payload).expect("messages are plain data"))
    }

    /// The packets to send, in order.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        let count = self.payload.len().div_ceil(MESSAGE_PAYLOAD_BYTES_MAX).max(1);
        let parts = (0..count).map(|part| {
            let rest = &self.payload[part * MESSAGE_PAYLOAD_BYTES_MAX..];
            let more = if part + 1 < count { MORE } else { 0 };
            let mut packet = vec![self.op, more];
            packet.extend(self.number.to_le_bytes());
            packet.extend(&rest[..rest.len().min(MESSAGE_PAYLOAD_BYTES_MAX)]);
            packet
        });
        parts.collect()
    }
}

/// Joins the parts of messages, as they come from one connection.
#[derive(Debug)]
pub struct Assembler {
    partial: Option<Message>,
    bytes_max: usize,
}

impl Default for Assembler {
    fn default() -> Self {
        Self::bounded(JOINED_BYTES_MAX)
    }
}

impl Assembler {
    /// One that takes no message longer than `bytes_max`, for peers that are not known yet.
    pub fn bounded(bytes_max: usize) -> Self {
        Self { partial: None, bytes_max }
    }

    /// Takes one packet; gives the message that it completes.
    pub fn push(&mut self, packet: &[u8]) -> Result<Option<Message>, Malformed> {
        let (header, part) = packet.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed)?;
        let [op, flags, number @ ..] = *header;
        let number = u32::from_le_bytes(number);
        let message = match self.partial.take() {
            None => Message::new(op, number, part.to_vec()),
            Some(mut message) => {
                let joined_bytes = message.payload.len() + part.len();
                if (message.op, message.number) != (op, number) || joined_bytes > self.bytes_max {
                    return Err(Malformed);
                }
                message.payload.extend_from_slice(part);
                message
            }
        };
        if flags & MORE != 0 {
            self.partial = Some(message);
            return Ok(None);
        }
        Ok(Some(message))
    }
}

mod op {
    pub const PLAN: u8 = 1;
    pub const SAY: u8 = 2;
    pub const CLOSE_STDIN: u8 = 3;
    pub const FAREWELL: u8 = 4;
    pub const RENEW: u8 = 5;
    pub const STOP: u8 = 6;
    pub const HELLO: u8 = 7;
    pub const LAUNCH: u8 = 8;
    pub const PING: u8 = 9;

    pub const HELLO_REPLY: u8 = 65;
    pub const SAID_ACK: u8 = 66;
    pub const DROPPED: u8 = 67;
    pub const POKE: u8 = 68;
    pub const REFUSED: u8 = 69;
    pub const EXIT: u8 = 70;
    pub const PONG: u8 = 71;
}

#[derive(Serialize, Deserialize)]
struct StopBody {
    reason: String,
    farewell_ms: u64,
    term_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct HelloBody {
    secret: String,
    fence: u64,
    version: u32,
}

impl Order {
    pub fn to_message(&self) -> Message {
        match self {
            Self::Plan(plan) => Message::json(op::PLAN, plan),
            Self::Launch => Message::new(op::LAUNCH, 0, Vec::new()),
            Self::Ping { n } => Message::new(op::PING, *n, Vec::new()),
            Self::Say { n, bytes } => Message::new(op::SAY, *n, bytes.clone()),
            Self::CloseStdin { n } => Message::new(op::CLOSE_STDIN, *n, Vec::new()),
            Self::Farewell { bytes } => Message::new(op::FAREWELL, 0, bytes.clone()),
            Self::Renew { fence, deadline_ms } => {
                let payload = [fence.to_le_bytes(), deadline_ms.to_le_bytes()].concat();
                Message::new(op::RENEW, 0, payload)
            }
            Self::Stop { reason, farewell_ms, term_ms } => {
                let reason = reason.clone();
                let body = StopBody { reason, farewell_ms: *farewell_ms, term_ms: *term_ms };
                Message::json(op::STOP, &body)
            }
            Self::Hello { secret, fence, version } => {
                let body = HelloBody { secret: secret.clone(), fence: *fence, version: *version };
                Message::json(op::HELLO, &body)
            }
        }
    }

    /// The packets to send, in order.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        self.to_message().packets()
    }

    pub fn from_message(message: Message) -> Result<Self, Malformed> {
        let Message { op, number: n, payload } = message;
        Ok(match op {
            op::PLAN => Self::Plan(Box::new(read_json(&payload)?)),
            op::LAUNCH => Self::Launch,
            op::PING => Self::Ping { n },
            op::SAY => Self::Say { n, bytes: payload },
            op::CLOSE_STDIN => Self::CloseStdin { n },
            op::FAREWELL => Self::Farewell { bytes: payload },
            op::RENEW => {
                let (fence, rest) = payload.split_first_chunk::<8>().ok_or(Malformed)?;
                let deadline_ms = rest.first_chunk::<8>().ok_or(Malformed)?;
                Self::Renew {
                    fence: u64::from_le_bytes(*fence),
                    deadline_ms: u64::from_le_bytes(*deadline_ms),
                }
            }
            op::STOP => {
                let StopBody { reason, farewell_ms, term_ms } = read_json(&payload)?;
                Self::Stop { reason, farewell_ms, term_ms }
            }
            op::HELLO => {
                let HelloBody { secret, fence, version } = read_json(&payload)?;
                Self::Hello { secret, fence, version }
            }
            _ => return Err(Malformed),
        })
    }
}

impl Report {
    pub fn to_message(&self) -> Message {
        match self {
            Self::Hello(reply) => Message::json(op::HELLO_REPLY, reply),
            Self::SaidAck { n } => Message::new(op::SAID_ACK, *n, Vec::new()),
            Self::Dropped { n } => Message::new(op::DROPPED, *n, Vec::new()),
            Self::Poke => Message::new(op::POKE, 0, Vec::new()),
            Self::Refused { n, why } => Message { number: *n, ..Message::json(op::REFUSED, why) },
            Self::Exit => Message::new(op::EXIT, 0, Vec::new()),
            Self::Pong { n } => Message::new(op::PONG, *n, Vec::new()),
        }
    }

    /// The packets to send, in order.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        self.to_message().packets()
    }

    pub fn from_message(message: Message) -> Result<Self, Malformed> {
        let Message { op, number: n, payload } = message;
        Ok(match op {
            op::HELLO_REPLY => Self::Hello(Box::new(read_json(&payload)?)),
            op::SAID_ACK => Self::SaidAck { n },
            op::DROPPED => Self::Dropped { n },
            op::POKE => Self::Poke,
            op::REFUSED => Self::Refused { n, why: read_json(&payload)? },
            op::EXIT => Self::Exit,
            op::PONG => Self::Pong { n },
            _ => return Err(Malformed),
        })
    }
}

fn read_json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Malformed> {
    serde_json::from_slice(payload).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn join(packets: &[Vec<u8>]) -> Message {
        let mut assembler = Assembler::default();
        let (last, parts) = packets.split_last().unwrap();
        assert!(parts.iter().all(|part| assembler.push(part) == Ok(None)));
        assembler.push(last).unwrap().unwrap()
    }

    #[test]
    fn every_order_comes_back_as_it_was_sent() {
        let long = vec![7; 3 * MESSAGE_PAYLOAD_BYTES_MAX + 1];
        for order in [
            Order::Plan(Box::new(crate::plan::tests::plan())),
            Order::Launch,
            Order::Ping { n: 2 },
            Order::Say { n: 3, bytes: long },
            Order::Say { n: 4, bytes: vec![7; MESSAGE_PAYLOAD_BYTES_MAX] },
            Order::CloseStdin { n: 5 },
            Order::Farewell { bytes: b"bye\n".to_vec() },
            Order::Renew { fence: 8, deadline_ms: u64::MAX },
            Order::Stop { reason: "cancelled".into(), farewell_ms: 1, term_ms: 2 },
            Order::Hello { secret: "ab".into(), fence: 9, version: VERSION },
        ] {
            assert_eq!(Order::from_message(join(&order.packets())), Ok(order));
        }
    }

    #[test]
    fn every_report_comes_back_as_it_was_sent() {
        let reply = HelloReply {
            version: VERSION,
            fence: 7,
            agent_pid: Some(12),
            keeper_pid: 11,
            last_said: 4,
            held: Some(5),
            spool_len: 1 << 40,
            deadline_ms: 99,
            stage: Stage::Drain,
            isolation: Isolation::Strict,
            isolation_note: None,
            secrets: vec![("KEY".into(), "x".repeat(2 * MESSAGE_PAYLOAD_BYTES_MAX))],
            luggage: None,
            answers_pings: true,
        };
        for report in [
            Report::Hello(Box::new(reply)),
            Report::SaidAck { n: 6 },
            Report::Dropped { n: 7 },
            Report::Poke,
            Report::Refused { n: 8, why: Refusal::Busy },
            Report::Exit,
            Report::Pong { n: 9 },
        ] {
            assert_eq!(Report::from_message(join(&report.packets())), Ok(report));
        }
    }

    proptest! {
        #[test]
        fn no_packet_is_able_to_panic(
            packets in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..40), 0..6),
        ) {
            let mut assembler = Assembler::default();
            for packet in packets {
                if let Ok(Some(message)) = assembler.push(&packet) {
                    let _ = Order::from_message(message.clone());
                    let _ = Report::from_message(message);
                }
            }
        }
    }

    #[test]
    fn parts_of_two_messages_do_not_mix() {
        let long = vec![7; MESSAGE_PAYLOAD_BYTES_MAX + 1];
        let say = Order::Say { n: 3, bytes: long }.packets();
        let stop = Order::CloseStdin { n: 4 }.packets();
        let mut assembler = Assembler::default();
        assert_eq!(assembler.push(&say[0]), Ok(None));
        assert_eq!(assembler.push(&stop[0]), Err(Malformed));
    }
}
