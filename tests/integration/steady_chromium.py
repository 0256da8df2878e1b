#!/usr/bin/env python3
"""Starts Chromium so that it does not learn of network interfaces that come and go; arguments are passed on.

Chromium drops its connections (ERR_NETWORK_CHANGED) when any interface of the host changes, as it does whenever a test
beside this one makes network namespaces. It learns of that by a netlink socket. Where it can have none, which a seccomp
filter sees to, it takes the network for one that never changes.
"""

import ctypes
import errno
import os
import platform
import shutil
import struct
import sys

CHROMIUM = shutil.which("chromium")

_SOCKET_CALLS = {"x86_64": 41, "aarch64": 198}
_AF_NETLINK = 16
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def refuse_netlink(socket_call: int) -> None:
    """``socket(AF_NETLINK, ...)`` fails from now on, in this process and in those that it starts."""
    instructions = (
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        (_JUMP_IF_EQUAL, 0, 3, socket_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_JUMP_IF_EQUAL, 0, 1, _AF_NETLINK),
        (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    )
    packed = b"".join(struct.pack("HBBI", *each) for each in instructions)
    text = ctypes.create_string_buffer(packed, len(packed))
    program = _Program(len(instructions), ctypes.cast(text, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


def main() -> None:
    if CHROMIUM is None:
        raise SystemExit("there is no Chromium")
    if platform.machine() in _SOCKET_CALLS:
        refuse_netlink(_SOCKET_CALLS[platform.machine()])
    os.execv(CHROMIUM, [CHROMIUM, *sys.argv[1:]])


if __name__ == "__main__":
    main()
