"""A process that looks ahead for the engine: ``python -m secmon.engine.lookahead.process DESCRIPTOR``.

It gets a ruleset, then batches of messages, and answers each batch with what it has found out. It writes no files and
no log, and ends with the process that started it. Its socket has frames (``common.ipc``) of MessagePack.
"""

import ctypes
import gc
import signal
import socket
import sys
from collections.abc import Iterator
from datetime import datetime

import msgspec

from secmon.common.ipc.framing import frame, take_frames
from secmon.engine.analysis import Engine
from secmon.engine.lookahead.codec import Packer
from secmon.engine.lookahead.prepare import look_ahead, stateless
from secmon.engine.rules.loader import DraftCache
from secmon.engine.ruleset.compiled import Settings, compile_ruleset
from secmon.engine.ruleset.diagnostics import RulesetError

_CHUNK = 1 << 16
_PR_SET_PDEATHSIG = 1


class Rules(msgspec.Struct, tag=True, array_like=True):
    """Sources of the ruleset that the batches after this one are for. ``generation`` is only handed back."""

    generation: int
    decoders: list[tuple[str, bytes]]
    lists: dict[str, bytes]
    rules: list[tuple[str, bytes]]
    settings: Settings
    host: bytes
    everything: bool


class Batch(msgspec.Struct, tag=True, array_like=True):
    """Messages that were received at ``moment``, local time in ISO 8601."""

    number: int
    moment: str
    messages: list[bytes]


class Ready(msgspec.Struct, tag=True, array_like=True):
    """Rules were compiled."""

    generation: int


class Failed(msgspec.Struct, tag=True, array_like=True):
    """Rules could not be compiled; the process ends."""

    generation: int
    reason: str


class Done(msgspec.Struct, tag=True, array_like=True):
    """A batch was looked at: what was packed of each message; empty where that was not possible."""

    number: int
    answers: list[bytes]


def encoded(message: Rules | Batch | Ready | Failed | Done) -> bytes:
    """``message`` as a frame."""
    return frame(msgspec.msgpack.encode(message))


class Helper:
    """What the process does."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._cache = DraftCache()
        self._engine: Engine | None = None
        self._packer: Packer | None = None
        self._everything = False

    def run(self) -> None:
        """Until the other side closes. Raises RulesetError when its rules cannot be compiled, OSError."""
        decoder = msgspec.msgpack.Decoder(Rules | Batch)
        received = bytearray()
        while chunk := self._link.recv(_CHUNK):
            received += chunk
            for data in take_frames(received):
                message = decoder.decode(data)
                if isinstance(message, Rules):
                    self._take(message)
                else:
                    self._link.sendall(encoded(Done(message.number, list(self._answers(message)))))

    def _take(self, new: Rules) -> None:
        self._engine = self._packer = None  # the old ones are not needed any more: room for the new ones
        gc.unfreeze()
        try:
            ruleset = compile_ruleset(new.decoders, new.lists, new.rules, new.settings, cache=self._cache)
        except RulesetError as error:
            self._link.sendall(encoded(Failed(new.generation, str(error.message))))
            raise
        self._engine, self._packer = stateless(ruleset, new.host), Packer(ruleset)
        self._everything = new.everything
        gc.collect()
        gc.freeze()  # a ruleset is large and stays: the collector need not walk through it
        self._link.sendall(encoded(Ready(new.generation)))

    def _answers(self, batch: Batch) -> Iterator[bytes]:
        assert self._engine is not None, "rules come first"
        assert self._packer is not None, "rules come first"
        moment = datetime.fromisoformat(batch.moment)
        for data in batch.messages:
            try:
                yield self._packer.pack(look_ahead(self._engine, data, moment, everything=self._everything))
            except Exception:  # noqa: BLE001 - whatever it is, it comes again where it is logged and counted
                yield b""


def main(descriptor: int) -> int:
    """Status 1: the rules could not be compiled; who started this has been told why."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # terminals and service managers send these to all: the daemon decides
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with socket.socket(fileno=descriptor) as link:
        try:
            Helper(link).run()
        except RulesetError:
            return 1
        except OSError:
            return 0  # the other side is gone
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
