//! One packet in or out of a control socket, never waiting.
//!
//! Shared by both sides. Readiness is the caller's affair: a poll loop in the keeper, an async
//! reactor in the server.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::limits::BUFFER_BYTES;
use crate::wire::PACKET_BYTES_MAX;

/// Room for the longest packet. One buffer serves any number of sockets.
pub fn buffer() -> Box<[u8]> {
    const { assert!(BUFFER_BYTES >= PACKET_BYTES_MAX) };
    vec![0; BUFFER_BYTES].into_boxed_slice()
}

/// Sends one packet whole, or fails: `WouldBlock` when the peer does not read.
pub fn send(socket: impl AsFd, packet: &[u8]) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry(|| rustix::net::send(&socket, packet, flags))?;
    Ok(())
}

/// Receives one packet. `None` when the peer is gone, `WouldBlock` when nothing waits.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<&[u8]>> {
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let count = match retry(|| rustix::net::recv(&socket, &mut *buffer, flags)) {
        Ok((_, count)) => count,
        Err(Errno::CONNRESET) => 0,
        Err(error) => return Err(error.into()),
    };
    match count {
        0 => Ok(None),
        _ if count > buffer.len() => Err(io::ErrorKind::InvalidData.into()),
        _ => Ok(Some(&buffer[..count])),
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
