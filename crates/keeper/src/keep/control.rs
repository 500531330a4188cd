//! The connections of a keeper: one owner, a few newcomers, and the socket they come to.
//!
//! The owner is whoever sent the plan, until somebody shows the secret in a hello. Reports that
//! must arrive wait for an owner that is slow, up to a bound; a poke never waits, because a full
//! socket wakes the reader just as well. Whether a hello is valid is decided in `watch.rs`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, unlinkat};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::getuid;

use super::raw;
use crate::door::{SOCKET_NAME, socket_address};
use crate::limits::{NEWCOMERS_MAX, ORDER_BYTES_MAX, UNSENT_MESSAGES_MAX};
use crate::packet;
use crate::wire::{Assembler, Order, Report};

pub struct Control {
    listener: OwnedFd,
    /// The spool directory, to remove the socket from in the end.
    dir: OwnedFd,
    pub owner: Option<Connection>,
    /// Oldest first.
    pub newcomers: Vec<Connection>,
}

pub struct Connection {
    socket: OwnedFd,
    assembler: Assembler,
    unsent: VecDeque<Vec<u8>>,
}

/// What a connection had for us.
pub enum Heard {
    Order(Order),
    /// Nothing more for now.
    Nothing,
    /// The peer is gone or speaks another language.
    Gone,
}

/// Binds the socket that newcomers come to.
pub fn listen(dir: &OwnedFd) -> io::Result<OwnedFd> {
    let listener = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&listener, &socket_address(dir.as_fd())?)?;
    rustix::net::listen(&listener, NEWCOMERS_MAX as i32)?;
    Ok(listener)
}

impl Control {
    /// Keeps `first` as the owner; others come to the listener, which is in this directory.
    pub fn new(first: OwnedFd, listener: OwnedFd, dir: OwnedFd) -> Self {
        Self { listener, dir, owner: Some(Connection::new(first)), newcomers: Vec::new() }
    }

    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Lets in everyone who waits and has our uid. Too many displace the oldest, so that nobody
    /// can keep a server out by being first.
    pub fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..NEWCOMERS_MAX {
            let Ok(socket) = rustix::net::accept_with(&self.listener, flags) else { return };
            if raw::peer_uid(&socket).is_ok_and(|uid| uid == getuid().as_raw()) {
                if self.newcomers.len() == NEWCOMERS_MAX {
                    self.newcomers.remove(0);
                }
                self.newcomers.push(Connection::new(socket));
            }
        }
    }

    /// Tells the owner, if there is one. An owner that cannot be told is no owner.
    pub fn report(&mut self, report: &Report) {
        if let Some(owner) = &mut self.owner
            && !owner.send(report)
        {
            self.owner = None;
        }
    }

    /// Wakes the owner.
    pub fn poke(&mut self) {
        if let Some(owner) = &self.owner
            && owner.unsent.is_empty()
        {
            for packet in Report::Poke.packets() {
                // A full socket wakes the owner as well; an owner that is gone needs no waking.
                let _ = packet::send(&owner.socket, &packet);
            }
        }
    }

    /// Takes the socket away, so that nobody dials a keeper that is leaving.
    pub fn close(&mut self) {
        // A socket that stays refuses connections once the keeper has ended.
        let _ = unlinkat(&self.dir, SOCKET_NAME, AtFlags::empty());
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, assembler: Assembler::bounded(ORDER_BYTES_MAX), unsent: VecDeque::new() }
    }

    /// The next order, if a whole one has come.
    pub fn hear(&mut self, buffer: &mut [u8]) -> Heard {
        loop {
            let packet = match packet::receive(&self.socket, buffer) {
                Ok(Some(packet)) => packet,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
                // A connection that is broken is one whose peer is gone.
                Ok(None) | Err(_) => return Heard::Gone,
            };
            match self.assembler.push(packet) {
                Ok(None) => {}
                Ok(Some(message)) => {
                    return Order::from_message(message).map_or(Heard::Gone, Heard::Order);
                }
                // A peer that sends no whole messages is none of ours, and is let go.
                Err(_) => return Heard::Gone,
            }
        }
    }

    /// Sends a report, or lets it wait. False when the peer is gone or does not read.
    pub fn send(&mut self, report: &Report) -> bool {
        self.unsent.extend(report.packets());
        self.send_on() && self.unsent.len() <= UNSENT_MESSAGES_MAX
    }

    /// Sends what waits. False when the peer is gone.
    pub fn send_on(&mut self) -> bool {
        while let Some(packet) = self.unsent.front() {
            match packet::send(&self.socket, packet) {
                Ok(()) => drop(self.unsent.pop_front()),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
