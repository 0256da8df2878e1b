"""The grammar of the key file: what is written can be read, unreadable lines are reported."""

from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.registry.entries import Entry, Tombstone
from secmon.agents.registry.key_lines import KeyLine, KeyLines, parse_keys, parse_times, render_keys, render_times
from tests.agents.wire.vectors import section

KEY = "0123456789abcdef" * 4


def entry(agent: int, name: str = "", address: str = "any") -> Entry:
    return Entry(agent, name or f"a{agent}", address, KEY, 1_700_000_000 + agent, None, None, 1)


def test_known_lines() -> None:
    found = parse_keys("\n".join(case["client_keys_line"] for case in section("key_derivation")))
    assert [(agent, line.name) for agent, line in found.active.items()] == [
        (1, "web-01"),
        (2, "db.server_2"),
        (1024, "WIN-LAB-7"),
        (17, "x-long_name.with-dots"),
    ]
    assert not found.faults


def test_other_entries_in_the_folder() -> None:
    text = f"""# a comment
 and another
001 a1 any {KEY}
002 !a2 10.0.0.1 {KEY}
003 #a3 any {KEY}
004 a4 10.0.0.0/255.0.0.0 {KEY}\r
"""
    assert parse_keys(text) == KeyLines(
        active={1: KeyLine("a1", "any", KEY), 4: KeyLine("a4", "10.0.0.0/8", KEY)},
        removed={2: KeyLine("a2", "10.0.0.1", KEY), 3: KeyLine("a3", "any", KEY)},
    )


def test_faults_are_reported_and_the_rest_is_read() -> None:
    bad = ["001 a1 any", "x a1 any k", "000 a1 any k", "001 ! any k", "001 a1 10.0.0 k", "001 a\udcff any k"]
    text = "\n".join([*bad, "001 a1 any k", "001 a2 any k", "002 a1 any k", "002 a2 any k"])
    found = parse_keys(text)
    assert found.active == {1: KeyLine("a1", "any", "k"), 2: KeyLine("a2", "any", "k")}
    assert [fault.partition(":")[0] for fault in found.faults] == [f"line {n}" for n in (1, 2, 3, 4, 5, 6, 8, 9)]


def test_removed_lines_follow_without_prefix_length() -> None:
    stones = [Tombstone(3, "a3", "10.0.0.0/8", KEY, 0, 1), Tombstone(4, "a4", "any", KEY, 1, 1)]
    assert render_keys([entry(1), entry(5)], stones) == f"001 a1 any {KEY}\n005 a5 any {KEY}\n003 !a3 10.0.0.0 {KEY}\n"


def test_times_are_local_and_parsed_again() -> None:
    rows = [entry(1), entry(2, address="10.0.0.0/8")]
    text = render_times(rows)
    assert text.splitlines()[1].startswith("002 a2 10.0.0.0 2023-11-1")
    assert parse_times(f"{text}nonsense\n003 a3 any 2023-99-99 00:00:00\n") == {1: 1_700_000_001, 2: 1_700_000_002}


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(["001", "2", "a1", "!a2", "any", "::1", KEY, " ", "\n", "#", "\r", "é", "\0"]), max_size=30
    )
)
def test_any_text_can_be_read(pieces: list[str]) -> None:
    found = parse_keys(" ".join(pieces))
    rows = [Entry(agent, line.name, line.address, line.key, 0, None, None, 1) for agent, line in found.active.items()]
    assert parse_keys(render_keys(rows, [])).active == found.active
