"""Messages of agents, damaged: the codec refuses them in one way, and never anything else happens."""

import os
from random import Random, SystemRandom

from secmon.agents.wire import keepalive
from secmon.agents.wire.crypto import MAX_INNER, AgentCipher
from secmon.agents.wire.errors import MessageError
from secmon.agents.wire.frames import Unframer, split_id
from secmon.agents.wire.keys import AgentKey
from secmon.agents.wire.location import split
from tests.fuzz.effort import EXAMPLES
from tests.simulator.mutate import Mutator

MESSAGES = 1_000_000 if EXAMPLES else 3_000
SEED = int(os.environ.get("SECMON_FUZZ_SEED", 0)) or (SystemRandom().randrange(1 << 62) if EXAMPLES else 1)
KEY = AgentKey("001", "web-01", "any", "0a1b2c3d" * 8)


def test_damaged_messages_are_refused_or_read() -> None:
    """Set SECMON_FUZZ_SEED to the seed in a failure to see it again."""
    mutator, cipher, seen = (
        Mutator(KEY, Random(SEED)),
        AgentCipher(KEY),
        {"auth": 0, "corrupt": 0, "format": 0, "empty": 0},
    )
    read = 0
    for number in range(MESSAGES):
        payload = mutator.payload()
        try:
            found, sealed = split_id(payload)
            opened = cipher.open(sealed)
        except MessageError as error:
            seen[error.reason] += 1
            continue
        except Exception as error:
            raise AssertionError(f"message {number} of seed {SEED}: {payload[:200]!r}") from error
        read += 1
        assert len(opened.text) <= MAX_INNER
        text = opened.text.decode("utf-8", "replace")
        keepalive.parse(text)
        split(text)
        assert found is None or found.isascii()
    assert read > MESSAGES // 50
    assert min(seen["auth"], seen["corrupt"], seen["format"]) > MESSAGES // 100, seen


def test_good_messages_are_read_after_bad_ones() -> None:
    """The cipher's contexts live on: a refused message must not change how the next one is read."""
    random = Random(SEED)
    mutator, cipher, sender = Mutator(KEY, random), AgentCipher(KEY), Mutator(KEY, random)
    for _ in range(MESSAGES // 10):
        try:
            cipher.open(split_id(mutator.payload())[1])
        except MessageError:
            pass
        assert cipher.open(split_id(sender.valid(b"1:a:b"))[1]).text == b"1:a:b", SEED


def test_damaged_streams_come_apart() -> None:
    """However a stream is cut, the same payloads come out, and what waits is bounded."""
    random = Random(SEED)
    mutator = Mutator(KEY, random)
    for _ in range(MESSAGES // 100):
        stream = b"".join(mutator.frame() for _ in range(20))
        whole, pieces = Unframer(), Unframer()
        expected, got, at = whole.feed(stream), [], 0
        while at < len(stream):
            step = random.choice((1, 3, 100, 5000))
            got += pieces.feed(stream[at : at + step])
            at += step
            assert pieces.buffered <= 65540
        assert got == expected, SEED
        assert pieces.broken == whole.broken, SEED
