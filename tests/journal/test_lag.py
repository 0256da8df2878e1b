"""How far consumers are behind."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from secmon.journal.journal import JournalReader, JournalWriter
from secmon.journal.lag import consumer_lags
from tests.manual_clock import ManualClock


def writer(folder: Path) -> JournalWriter:
    return JournalWriter(folder, ManualClock(), limit=1 << 20, segment=2000)


def test_nothing_without_consumers(tmp_path: Path) -> None:
    assert consumer_lags_of(writer(tmp_path), tmp_path) == {}


def test_lag_of_each_consumer(tmp_path: Path) -> None:
    journal = writer(tmp_path)
    fast, slow = JournalReader(tmp_path, "fast"), JournalReader(tmp_path, "slow")
    for _ in range(10):
        journal.append([b"x" * 100] * 10)
    slow.commit(40)
    fast.commit(journal.next)
    (events, unread) = consumer_lags_of(journal, tmp_path)["slow"]
    assert events == 60
    assert 60 * 100 <= unread <= journal.size
    assert consumer_lags_of(journal, tmp_path)["fast"] == (0, 0)


def test_a_position_that_cannot_be_read_has_no_lag(tmp_path: Path) -> None:
    journal = writer(tmp_path)
    JournalReader(tmp_path, "slow")
    (tmp_path / "torn.position").write_bytes(b"abc")
    assert list(consumer_lags_of(journal, tmp_path)) == ["slow"]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 400))
def test_bytes_shrink_with_the_position_to_nothing(blocks: list[int], position: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        folder = Path(name)
        journal, reader = writer(folder), JournalReader(folder, "one")
        for count in blocks:
            journal.append([b"y" * 60] * count)
        position = min(position, journal.next)
        whole = consumer_lags_of(journal, folder)["one"]
        reader.commit(position)
        events, unread = consumer_lags_of(journal, folder)["one"]
        assert whole == (journal.next, journal.size)
        assert events == journal.next - position
        assert (unread == 0) == (events == 0)
        assert unread <= whole[1]
        journal.close()
        reader.close()


def consumer_lags_of(journal: JournalWriter, folder: Path) -> dict[str, tuple[int, int]]:
    return {each.consumer: (each.events, each.size_bytes) for each in consumer_lags(folder, journal.next)}
