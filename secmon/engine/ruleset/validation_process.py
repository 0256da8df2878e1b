"""Validates the ruleset of an installation once: ``python -m secmon.engine.ruleset.validation_process ROOT``.

For a node whose analysis daemon does not run: its ruleset may be the reason. Reads a :class:`Request` from standard
input and writes findings to standard output, both as MessagePack.
"""

import sys
from pathlib import Path

import msgspec

from secmon.common.paths import Paths
from secmon.engine.ruleset.validation import RulesetValidator


class Request(msgspec.Struct):
    """``changed``: files by path, None: removed. ``blocking``: only the error that blocks the change is asked for."""

    changed: dict[str, bytes | None]
    blocking: bool


def main(root: Path, data: bytes) -> bytes:
    """The answer to the request ``data``."""
    request, validator = msgspec.msgpack.decode(data, type=Request), RulesetValidator(Paths(root))
    if not request.blocking:
        return msgspec.msgpack.encode(validator.findings(request.changed))
    error = validator.blocking_error(request.changed)
    return msgspec.msgpack.encode([] if error is None else [error])


if __name__ == "__main__":
    sys.stdout.buffer.write(main(Path(sys.argv[1]), sys.stdin.buffer.read()))
