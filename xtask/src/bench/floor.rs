//! The floor of the pipeline: pipe → append to a file → read back → split → parse the envelope, in
//! one process and one loop. Nobody who keeps a copy of what an agent says does less.

use super::agent::{self, Note, Writes};
use super::lines::Lines;
use super::usage::{self, Cost};
use super::{Programs, said};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use testkit::Instance;

const READ_BYTES: usize = 64 * 1024;

/// A line's head, with the rest left as it is.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
}

pub fn run(programs: &Programs, writes: Writes, events: u64) -> Result<Cost, String> {
    let instance = Instance::new();
    let note = instance.root().join("note");
    let path = instance.root().join("copy");
    let mut copy = File::options()
        .create(true)
        .append(true)
        .read(true)
        .open(&path)
        .map_err(said("making the floor's copy"))?;
    let mut child = Command::new(&programs.xtask)
        .args(agent::args(writes, events, &note))
        .env_clear()
        .envs(instance.env())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(said("starting the floor's agent"))?;
    let mut pipe = child.stdout.take().ok_or("the agent has no pipe")?;
    let cpu_ns = usage::own_cpu_ns();
    let (mut chunk, mut back) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
    let (mut lines, mut offset, mut heard, mut body_bytes) = (Lines::default(), 0, 0, 0);
    loop {
        let count = pipe.read(&mut chunk).map_err(said("reading the floor's pipe"))?;
        if count == 0 {
            break;
        }
        copy.write_all(&chunk[..count]).map_err(said("writing the floor's copy"))?;
        copy.read_exact_at(&mut back[..count], offset).map_err(said("reading it back"))?;
        offset += count as u64;
        lines.push(&back[..count], |line| {
            if let Ok(Head { kind, event: Some(event) }) = serde_json::from_slice::<Head>(line) {
                heard += u64::from(kind.len() == 5);
                body_bytes += event.get().len();
            }
        });
    }
    let (cpu_ns, ended_ns) = (usage::own_cpu_ns() - cpu_ns, usage::now_ns());
    child.wait().map_err(said("waiting for the floor's agent"))?;
    if heard != events || body_bytes == 0 {
        return Err(format!("the floor heard {heard} of {events} events"));
    }
    Ok(Cost::per(events, cpu_ns, 0, ended_ns - Note::read(&note)?.began_ns))
}
