"""Sealed messages: every vector, round trips, and what no bytes of a peer may do."""

import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.wire.counters import Counter
from secmon.agents.wire.crypto import MAX_TEXT, AgentCipher, Cipher, Opened, seal
from secmon.agents.wire.errors import MessageError
from secmon.agents.wire.frames import Unframer, frame, join_id, split_id
from secmon.agents.wire.keys import AgentKey, derive
from tests.agents.wire import vectors
from tests.offenders import Offenders

SEALED = vectors.section("sealed_messages")
ONE = vectors.agent("A")


def keys_by_id() -> dict[str, AgentKey]:
    return {key.id: key for key in map(vectors.agent, "ABCD")}


def receive(case: dict[str, Any]) -> Opened:
    """As a server does that knows the four agents. Raises MessageError, KeyError for an unknown id."""
    found, rest = split_id(bytes.fromhex(case["datagram_hex"]))
    key = keys_by_id()[found] if found is not None else vectors.agent(case["agent"])
    return AgentCipher(key).open(rest)


def test_sealed_messages_open() -> None:
    with Offenders() as offenders:
        for case in SEALED:
            with offenders.row(case["name"]):
                opened = receive(case)
                assert opened.text == vectors.plaintext(case)
                assert len(opened.text) == case["plaintext_len"]
                assert opened.cipher is Cipher(case["cipher"])
                assert opened.counter == (case["global"], case["local"])


def test_sealed_messages_come_out_of_their_frames() -> None:
    with Offenders() as offenders:
        for case in SEALED:
            with offenders.row(case["name"]):
                datagram = bytes.fromhex(case["datagram_hex"])
                assert frame(datagram) == bytes.fromhex(case["tcp_frame_hex"])
                assert Unframer().feed(bytes.fromhex(case["tcp_frame_hex"])) == [datagram]


def test_sealed_messages_seal_again() -> None:
    with Offenders() as offenders:
        for case in SEALED:
            with offenders.row(case["name"]):
                key, cipher = vectors.agent(case["agent"]), Cipher(case["cipher"])
                counter = Counter(case["global"], case["local"])
                sealed = seal(key, vectors.plaintext(case), cipher, counter)
                assert AgentCipher(key).open(sealed) == (vectors.plaintext(case), cipher, counter)
                if case["direction"] == "agent_to_server" and bytes.fromhex(case["datagram_hex"])[:1] == b"!":
                    assert split_id(join_id(key.id, sealed)) == (key.id, sealed)


@pytest.mark.parametrize("case", vectors.section("accept_only"), ids=lambda case: case["name"])
def test_messages_of_other_encoders_are_accepted(case: dict[str, Any]) -> None:
    opened = receive(case)
    assert opened.text == vectors.plaintext(case)
    assert opened.counter == (case["global"], case["local"])
    assert opened.cipher is Cipher(case["cipher"])


@pytest.mark.parametrize("case", vectors.section("reject"), ids=lambda case: case["name"])
def test_refusals(case: dict[str, Any]) -> None:
    if case["expect"] == "unknown_agent":
        with pytest.raises(KeyError):
            receive(case)
        return
    with pytest.raises(MessageError) as caught:
        receive(case)
    assert caught.value.reason == case["expect"]


def test_many_messages_on_the_same_contexts() -> None:
    sender, receiver = AgentCipher(ONE), AgentCipher(ONE)
    counter = Counter()
    for size in range(1, 400):
        counter = counter.next()
        cipher = Cipher.AES if size % 3 else Cipher.BLOWFISH
        sealed = sender.seal(b"x" * size, cipher, counter)
        assert receiver.open(sealed) == (b"x" * size, cipher, counter)
        # Bytes that are refused in between leave no trace in the contexts.
        with pytest.raises(MessageError):
            receiver.open(sealed[:5] + b"\0" * 32)


@given(
    text=st.binary(min_size=1, max_size=2000),
    cipher=st.sampled_from(Cipher),
    key=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=100),
    name=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=40),
    major=st.integers(0, 9_999_999_999),
    minor=st.integers(0, 9999),
)
@settings(max_examples=150)
def test_round_trip(text: bytes, cipher: Cipher, key: str, name: str, major: int, minor: int) -> None:
    agent = AgentKey("001", name, "any", key)
    assert len(derive(agent)) == 47
    assert AgentCipher(agent).open(seal(agent, text, cipher, Counter(major, minor))) == (text, cipher, (major, minor))


@pytest.mark.parametrize("cipher", Cipher)
def test_longest_and_shortest_text(cipher: Cipher) -> None:
    noise = bytes(zlib.crc32(bytes([n & 255, n >> 8])) & 255 for n in range(MAX_TEXT))
    for text in (b"a", noise, b"a" * MAX_TEXT):
        assert AgentCipher(ONE).open(seal(ONE, text, cipher, Counter(0, 1))).text == text
    for text in (b"", b"a" * (MAX_TEXT + 1)):
        with pytest.raises(ValueError, match="1 to 65408"):
            seal(ONE, text, cipher, Counter(0, 1))


@given(
    case=st.sampled_from([case for case in SEALED if case["plaintext_len"] < 1000]),
    position=st.floats(0, 1, exclude_max=True),
    change=st.integers(1, 255),
    cut=st.integers(0, 40),
    tail=st.binary(max_size=40),
)
@settings(max_examples=200)
def test_mutated_messages_raise_only_the_codecs_error(
    case: dict[str, Any], position: float, change: int, cut: int, tail: bytes
) -> None:
    data = bytearray(bytes.fromhex(case["datagram_hex"]))
    data[int(position * len(data))] ^= change
    mutated = bytes(data[: len(data) - cut]) + tail
    try:
        _, rest = split_id(mutated)
        opened = AgentCipher(vectors.agent(case["agent"])).open(rest)
    except MessageError:
        return
    assert opened.text == vectors.plaintext(case)  # the change hit the id, or what follows the compressed text


@given(st.binary(max_size=300), st.sampled_from([b"", b":", b"#AES:"]))
@settings(max_examples=200)
def test_noise_raises_the_codecs_error(noise: bytes, token: bytes) -> None:
    with pytest.raises(MessageError):
        AgentCipher(ONE).open(token + noise)
