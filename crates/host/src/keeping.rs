//! Our end of a keeper's control socket, async. Orders go out in order and never block the caller;
//! reports come in one by one. Everything that matters is also in the spool or the store, so a
//! broken connection loses nothing.

use crate::metrics::metrics;
use engine::rules::keeper_ping::{KeeperPing, PingReason};
use keeper::packet;
use keeper::wire::{Assembler, HelloReply, Order, Report};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Packets that wait for a keeper which does not read. One more means that it hangs.
const OUTBOX_PACKETS_MAX: usize = 1024;
/// Where a spool goes on in its next segment.
pub(crate) const SEGMENT_BYTES: u64 = failpoint::shrunk(contract::limits::SPOOL_SEGMENT_BYTES, 512);

/// A connection to one keeper.
#[derive(Debug)]
pub struct Keeping {
    /// A SEQPACKET socket. It goes by the name of a stream because that is how the reactor takes a
    /// Unix socket; only its readiness is used, packets pass by `keeper::packet`.
    control: UnixStream,
    assembler: Assembler,
    outbox: VecDeque<Vec<u8>>,
    ping: KeeperPing,
    /// The pid of the keeper, once its hello has come.
    keeper_pid: Option<i32>,
    _counted: CountedKeeper,
}

/// One of the connections in the metrics.
#[derive(Debug)]
struct CountedKeeper(());

impl CountedKeeper {
    fn new() -> Self {
        metrics().keepers.inc();
        Self(())
    }
}

impl Drop for CountedKeeper {
    fn drop(&mut self) {
        metrics().keepers.dec();
    }
}

thread_local! {
    // One receive buffer per thread and not per run: reports are taken out of it at once.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(packet::buffer());
}

impl Keeping {
    /// Connects to a keeper that this host has started, and which is of its own version.
    pub fn new(control: OwnedFd) -> io::Result<Self> {
        let control = UnixStream::from_std(control.into())?;
        Ok(Self {
            control,
            assembler: Assembler::default(),
            outbox: VecDeque::new(),
            ping: KeeperPing::new(true),
            keeper_pid: None,
            _counted: CountedKeeper::new(),
        })
    }

    /// Connects to a keeper that an earlier host has started.
    pub fn adopted(control: OwnedFd, reply: &HelloReply) -> io::Result<Self> {
        let ping = KeeperPing::new(reply.answers_pings);
        Ok(Self { ping, keeper_pid: Some(reply.keeper_pid), ..Self::new(control)? })
    }

    /// Asks the keeper to show that it still obeys orders.
    pub fn ping(&mut self, now_ms: u64, reason: PingReason) -> io::Result<()> {
        match self.ping.ask(now_ms, reason) {
            Some(n) => self.send(&Order::Ping { n }),
            None => Ok(()),
        }
    }

    /// The time by which the keeper must answer, while a ping is unanswered.
    pub fn answer_deadline_ms(&self) -> Option<u64> {
        self.ping.deadline_ms()
    }

    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.ping.is_overdue(now_ms)
    }

    pub fn keeper_pid(&self) -> Option<i32> {
        self.keeper_pid
    }

    /// Sends an order, now or as soon as the keeper reads again.
    pub fn send(&mut self, order: &Order) -> io::Result<()> {
        if self.outbox.len() > OUTBOX_PACKETS_MAX {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the keeper does not read its orders",
            ));
        }
        self.outbox.extend(order.packets());
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(packet) = self.outbox.front() {
            let send = || packet::send(&self.control, packet);
            // At once, for the reactor may not know yet that a new socket can be written to; and through
            // it only where that fails, so that it knows when to wait.
            let sent = match send() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.control.try_io(Interest::WRITABLE, send)
                }
                sent => sent,
            };
            match sent {
                Ok(()) => drop(self.outbox.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next report; `None` when the keeper is gone or belongs to another. Pokes that have
    /// gathered are one: they all say the same. Safe to cancel: a lost poke is followed by another,
    /// and whoever waits here has read the spool to its end before.
    pub async fn next(&mut self) -> io::Result<Option<Report>> {
        let mut poked = false;
        loop {
            let (control, assembler) = (&self.control, &mut self.assembler);
            match control.try_io(Interest::READABLE, || receive(control, assembler)) {
                Ok(Received::Gone) => return Ok(None),
                Ok(Received::Part) => continue,
                Ok(Received::Report(Report::Poke)) => {
                    poked = true;
                    continue;
                }
                Ok(Received::Report(Report::Pong { n })) => {
                    self.ping.answered(n);
                    continue;
                }
                Ok(Received::Report(report)) => {
                    if let Report::Hello(reply) = &report {
                        self.keeper_pid = Some(reply.keeper_pid);
                    }
                    return Ok(Some(report));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if poked {
                return Ok(Some(Report::Poke));
            }
            let interest = match self.outbox.is_empty() {
                true => Interest::READABLE,
                false => Interest::READABLE | Interest::WRITABLE,
            };
            self.control.ready(interest).await?;
            self.flush()?;
        }
    }
}

enum Received {
    Gone,
    Part,
    Report(Report),
}

fn receive(control: &UnixStream, assembler: &mut Assembler) -> io::Result<Received> {
    BUFFER.with_borrow_mut(|buffer| {
        let Some(packet) = packet::receive(control, buffer)? else { return Ok(Received::Gone) };
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        match assembler.push(packet).map_err(malformed)? {
            None => Ok(Received::Part),
            Some(message) => Report::from_message(message).map(Received::Report).map_err(malformed),
        }
    })
}
