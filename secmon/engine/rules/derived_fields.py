"""Fields that no decoder gives, made from an event when a plain field of a rule names them (docs/write-rules.md).

A decoder would make them of every event; rules ask for few.
"""

import re
from collections.abc import Callable

from secmon.engine.event import Event

Derivation = Callable[[Event], bytes | None]

_URL = re.compile(
    rb"(?:[A-Za-z][\w+.-]*://(?P<host>[^/?#:]*)(?::\d+)?)?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?", re.DOTALL
)
_TUNNEL = re.compile(rb"([\w.-]+):\d+")
"""What a client asks a proxy for with CONNECT."""
_RECORD = re.compile(rb'\b([A-Za-z_]\w*)=(?:"([^"]*)"|([^\s"]+))')
_HEXADECIMAL = re.compile(rb"(?:[0-9A-F]{2})+")
_ENCODED = frozenset((b"name", b"cwd", b"exe", b"comm", b"proctitle", b"cmd", b"data", b"key"))
"""Fields of audit records that are hexadecimal where they are not quoted."""
_ARGUMENT = re.compile(rb"a(\d{1,4})")
_ARGUMENT_NAME = re.compile(r"audit\.argument\.(\d{1,4})")
_MAX_RECORDS = 2000
_SYSCALLS = {
    b"x86_64": {b"59": b"execve", b"322": b"execveat", b"2": b"open", b"257": b"openat", b"87": b"unlink",
                b"263": b"unlinkat", b"90": b"chmod", b"91": b"fchmod", b"268": b"fchmodat", b"92": b"chown",
                b"165": b"mount", b"101": b"ptrace", b"175": b"init_module", b"313": b"finit_module",
                b"176": b"delete_module", b"41": b"socket", b"42": b"connect", b"49": b"bind", b"62": b"kill",
                b"82": b"rename", b"264": b"renameat", b"161": b"chroot", b"105": b"setuid", b"319": b"memfd_create",
                b"310": b"process_vm_readv", b"311": b"process_vm_writev", b"246": b"kexec_load", b"85": b"creat",
                b"86": b"link", b"88": b"symlink", b"84": b"rmdir", b"83": b"mkdir", b"169": b"reboot",
                b"227": b"clock_settime", b"164": b"settimeofday", b"159": b"adjtimex", b"170": b"sethostname"},
}  # fmt: skip
_MACHINES = {b"c000003e": b"x86_64"}


def derivation(name: str) -> Derivation | None:
    """How the field ``name``, in lower case, is made; None: it is not one of these."""
    found = _ARGUMENT_NAME.fullmatch(name)
    if found:
        return _argument(int(found[1]))
    return _DERIVATIONS.get(name)


def _part_of_url(part: str) -> Derivation:
    def get(event: Event) -> bytes | None:
        url = event.static.get("url")
        found = None if url is None else _URL.match(url)
        return found[part] or None if found else None

    return get


def _host(event: Event) -> bytes | None:
    tunnel = _TUNNEL.fullmatch(event.static.get("url", b""))
    return tunnel[1] if tunnel else _part_of_url("host")(event)


def _extension(event: Event) -> bytes | None:
    path = _part_of_url("path")(event)
    name = path.rpartition(b"/")[2] if path else b""
    return name.rpartition(b".")[2] if b"." in name else None


def _records(event: Event) -> list[tuple[bytes, bytes]]:
    """Names and values of the audit records of a log, the first ones if there are very many."""
    found = []
    for one in _RECORD.finditer(event.log):
        name, quoted, bare = one.groups()
        value = quoted if quoted is not None else bare
        encoded = quoted is None and (name in _ENCODED or _ARGUMENT.fullmatch(name))
        if encoded and len(bare) > 1 and _HEXADECIMAL.fullmatch(bare):
            value = bytes.fromhex(bare.decode("ascii")).replace(b"\0", b" ")
        found.append((name, value))
        if len(found) == _MAX_RECORDS:
            break
    return found


def _executed(event: Event) -> dict[int, bytes]:
    """The arguments of the record EXECVE. The fields a0 to a3 of SYSCALL are others."""
    at = event.log.find(b"type=EXECVE")
    if at < 0:
        return {}
    part = event.log[at:]
    end = part.find(b" type=", 1)
    made: dict[int, bytes] = {}
    for one in _RECORD.finditer(part if end < 0 else part[:end]):
        name, quoted, bare = one.groups()
        number = _ARGUMENT.fullmatch(name)
        if number and len(made) < _MAX_RECORDS:
            hexadecimal = quoted is None and _HEXADECIMAL.fullmatch(bare)
            made[int(number[1])] = bytes.fromhex(bare.decode("ascii")) if hexadecimal else quoted or bare or b""
    return made


def _argument(number: int) -> Derivation:
    return lambda event: _executed(event).get(number)


def _command_line(event: Event) -> bytes | None:
    found = _executed(event)
    return b" ".join(found[number] for number in sorted(found)) if found else None


def _every(name: bytes) -> Derivation:
    def get(event: Event) -> bytes | None:
        values = [value for key, value in _records(event) if key == name]
        return b"\n".join(dict.fromkeys(values)) if values else None

    return get


def _first(name: bytes) -> Derivation:
    return lambda event: next((value for key, value in _records(event) if key == name), None)


def _syscall_name(event: Event) -> bytes | None:
    """The name that auditd adds when it resolves numbers, else that of the number on x86-64."""
    found = dict(reversed(_records(event)))
    named = found.get(b"SYSCALL")
    if named is not None:
        return named
    machine = _MACHINES.get(found.get(b"arch", b""), b"")
    return _SYSCALLS.get(machine, {}).get(found.get(b"syscall", b""))


_DERIVATIONS: dict[str, Derivation] = {
    "url.path": _part_of_url("path"),
    "url.query": _part_of_url("query"),
    "url.host": _host,
    "url.extension": _extension,
    "audit.command_line": _command_line,
    "audit.types": _every(b"type"),
    "audit.names": _every(b"name"),
    "audit.cwd": _first(b"cwd"),
    "audit.proctitle": _first(b"proctitle"),
    "audit.syscall_name": _syscall_name,
}
