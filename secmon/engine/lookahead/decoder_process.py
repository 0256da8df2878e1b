"""A decoder process: ``python -m secmon.engine.lookahead.decoder_process DESCRIPTOR``.

It receives a ruleset, then batches of messages, and answers each batch with the results of :func:`look_ahead`. It
writes no files and no log, and ends with the process that started it. Its socket carries frames (``common.ipc``) of
MessagePack.
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
from secmon.engine.engine import Engine
from secmon.engine.lookahead.codec import LookaheadCodec
from secmon.engine.lookahead.stateless import look_ahead, stateless_engine
from secmon.engine.ruleset.compiled import RulesetSettings, compile_ruleset
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.load_cache import LoadCache

_CHUNK = 1 << 16
_PR_SET_PDEATHSIG = 1


class LoadRuleset(msgspec.Struct, tag=True, array_like=True):
    """Sources of the ruleset for the batches that follow. ``generation`` comes back with the answer."""

    generation: int
    decoders: list[tuple[str, bytes]]
    lists: dict[str, bytes]
    rules: list[tuple[str, bytes]]
    settings: RulesetSettings
    host: bytes
    archiving: bool


class Batch(msgspec.Struct, tag=True, array_like=True):
    """Messages that were received at ``moment``, local time in ISO 8601."""

    number: int
    moment: str
    messages: list[bytes]


class Loaded(msgspec.Struct, tag=True, array_like=True):
    """The ruleset is compiled."""

    generation: int


class LoadFailed(msgspec.Struct, tag=True, array_like=True):
    """The ruleset does not compile; the process ends."""

    generation: int
    reason: str


class BatchResult(msgspec.Struct, tag=True, array_like=True):
    """The encoded lookahead of each message of a batch; empty where that failed."""

    number: int
    results: list[bytes]


def encode_frame(message: LoadRuleset | Batch | Loaded | LoadFailed | BatchResult) -> bytes:
    """``message`` as a frame."""
    return frame(msgspec.msgpack.encode(message))


class DecoderProcess:
    """The loop of the process."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._cache = LoadCache()
        self._engine: Engine | None = None
        self._codec: LookaheadCodec | None = None
        self._archiving = False

    def run(self) -> None:
        """Serve until the other side closes. Raises RulesetError when a ruleset does not compile, OSError."""
        decoder = msgspec.msgpack.Decoder(LoadRuleset | Batch)
        received = bytearray()
        while chunk := self._link.recv(_CHUNK):
            received += chunk
            for data in take_frames(received):
                message = decoder.decode(data)
                if isinstance(message, LoadRuleset):
                    self._load(message)
                else:
                    self._link.sendall(encode_frame(BatchResult(message.number, list(self._results(message)))))

    def _load(self, new: LoadRuleset) -> None:
        self._engine = self._codec = None  # frees the old ruleset before the new one is built
        gc.unfreeze()
        try:
            ruleset = compile_ruleset(new.decoders, new.lists, new.rules, new.settings, cache=self._cache)
        except RulesetError as error:
            self._link.sendall(encode_frame(LoadFailed(new.generation, str(error.message))))
            raise
        self._engine, self._codec = stateless_engine(ruleset, new.host), LookaheadCodec(ruleset)
        self._archiving = new.archiving
        gc.collect()
        gc.freeze()  # a ruleset is large and stays: the collector need not walk through it
        self._link.sendall(encode_frame(Loaded(new.generation)))

    def _results(self, batch: Batch) -> Iterator[bytes]:
        assert self._engine is not None, "a ruleset comes first"
        assert self._codec is not None, "a ruleset comes first"
        moment = datetime.fromisoformat(batch.moment)
        for data in batch.messages:
            try:
                yield self._codec.encode(look_ahead(self._engine, data, moment, archiving=self._archiving))
            except Exception:  # noqa: BLE001 - the analysis thread meets the same error, where it is logged and counted
                yield b""


def main(descriptor: int) -> int:
    """Status 1: a ruleset did not compile; the pool has received the reason."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(
            number, signal.SIG_IGN
        )  # terminals and service managers signal the whole group: the daemon decides
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with socket.socket(fileno=descriptor) as link:
        try:
            DecoderProcess(link).run()
        except RulesetError:
            return 1
        except OSError:
            return 0  # the other side is gone
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
