#!/usr/bin/env python3
"""Runs a command where no network but loopback exists: `loopback_only.py COMMAND [ARGUMENT ...]`.

As root it makes a network namespace of its own and brings up `lo` in it. Who may not do that gets the command
run as it is, and a line that says so. OSTLER_AGENTS_NETWORK tells the command which of the two it is.
"""
import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1


def enter():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return os.strerror(ctypes.get_errno())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    return None


def main():
    refused = enter()
    if refused:
        sys.stderr.write("no network namespace (%s): the agents are kept on loopback by their settings alone\n" % refused)
    os.environ["OSTLER_AGENTS_NETWORK"] = "as it is" if refused else "loopback"
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
