"""The row of the term, on PostgreSQL."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from secmon.cluster.leadership import candidates, terms
from secmon.cluster.leadership.candidates import Candidate
from secmon.cluster.leadership.term import Term, TermRow
from secmon.cluster.record.engine import APPLICATION, RecordAddress, open_record
from tests.cluster.leadership.kit import A, B, C, run_out, set_up
from tests.waiting import LIMIT_SECONDS, wait_until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def engine(record: RecordAddress) -> Iterator[Engine]:
    made = set_up(record)
    yield made
    made.dispose()


def row(engine: Engine) -> TermRow:
    with engine.begin() as connection:
        found = terms.look(connection)
    assert found is not None
    return found


def claimed(engine: Engine, by: Candidate, *, above: int = 0) -> Term:
    with engine.begin() as connection:
        seen = terms.look(connection)
        assert seen is not None
        new = terms.claim(connection, seen.term, by, "because", above=above)
    assert new is not None
    return new


def lock_waits(engine: Engine) -> bool:
    with engine.begin() as connection:
        return bool(connection.execute(text(WAITING)).scalar_one())


def test_a_store_that_was_not_set_up_has_no_term(record: RecordAddress) -> None:
    engine = set_up(record)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM secmon.term"))
        assert terms.look(connection) is None


def test_the_first_term(engine: Engine) -> None:
    assert row(engine).term.holder == ""
    term = claimed(engine, A)
    assert (term.number, term.holder, term.address, term.port) == (1, "a", "10.0.0.1", 1516)
    found = row(engine)
    assert found.term == term
    assert (found.expired, found.resigned, found.reason) == (False, False, "because")


def test_setting_up_again_keeps_the_term(engine: Engine) -> None:
    term = claimed(engine, A)
    with engine.begin() as connection:
        terms.create_row(connection)
    assert row(engine).term == term


def test_only_a_term_that_is_over_can_be_followed(engine: Engine) -> None:
    term = claimed(engine, A)
    with engine.begin() as connection:
        assert terms.claim(connection, term, B, "too early") is None
    run_out(engine)
    assert row(engine).expired
    assert claimed(engine, B).number == 2


def test_a_node_follows_its_own_term_at_once(engine: Engine) -> None:
    first = claimed(engine, A)
    second = claimed(engine, A)
    assert (second.number, second.id != first.id) == (2, True)


def test_a_renewal_extends_the_term_and_changes_its_mark(engine: Engine) -> None:
    term = claimed(engine, A)
    run_out(engine)
    before = row(engine)
    with engine.begin() as connection:
        assert terms.renew(connection, term)
    after = row(engine)
    assert (before.expired, after.expired) == (True, False)
    assert after.renewed != before.renewed


def test_a_clock_of_the_database_that_was_set_back_keeps_no_term_alive(engine: Engine) -> None:
    claimed(engine, A)
    with engine.begin() as connection:
        connection.execute(text("UPDATE secmon.term SET renewed = renewed + interval '1 hour'"))
    assert row(engine).expired


def test_what_has_ended_is_neither_renewed_nor_resigned_nor_proved(engine: Engine) -> None:
    old = claimed(engine, A)
    run_out(engine)
    new = claimed(engine, B)
    with engine.begin() as connection:
        assert not terms.renew(connection, old)
        assert not terms.resign(connection, old, "", "late")
        assert not terms.prove(connection, old)
        assert terms.prove(connection, new)


def test_a_resigned_term_is_free_at_once_and_not_renewed(engine: Engine) -> None:
    term = claimed(engine, A)
    with engine.begin() as connection:
        assert terms.resign(connection, term, "c", "switchover")
        assert not terms.renew(connection, term)
        assert terms.prove(connection, term), "writes go on until another node has taken over"
    found = row(engine)
    assert (found.resigned, found.successor, found.reason) == (True, "c", "switchover")
    assert claimed(engine, C).number == 2
    assert not row(engine).resigned


def test_one_of_two_claimers_wins(engine: Engine) -> None:
    seen = claimed(engine, A)
    run_out(engine)
    start = threading.Barrier(4)

    def run(by: Candidate) -> Term | None:
        with engine.begin() as connection:
            connection.execute(text("SELECT 1"))
            start.wait()
            return terms.claim(connection, seen, by, "race")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, [B, C, B, C]))
    winners = [each for each in found if each is not None]
    assert [each.number for each in winners] == [2]
    assert row(engine).term == winners[0]


class RunningWrite:
    """A transaction that has proved ``term`` and is not over."""

    def __init__(self, engine: Engine, term: Term) -> None:
        self.connection: Connection = engine.connect()
        self.began = self.connection.begin()
        assert terms.prove(self.connection, term)


def claim_in(pool: ThreadPoolExecutor, engine: Engine, seen: Term, by: Candidate) -> Future[Term | None]:
    def run() -> Term | None:
        with engine.begin() as connection:
            return terms.claim(connection, seen, by, "takeover")

    return pool.submit(run)


def test_a_claim_waits_for_a_running_write_and_renewals_pass_it(engine: Engine) -> None:
    term = claimed(engine, A)
    write = RunningWrite(engine, term)
    with engine.begin() as connection:
        assert terms.renew(connection, term)
    run_out(engine)
    with ThreadPoolExecutor(1) as pool:
        claim = claim_in(pool, engine, term, B)
        wait_until(lambda: lock_waits(engine), "the claim waits")
        assert not claim.done()
        write.began.commit()
        write.connection.close()
        new = claim.result(LIMIT_SECONDS)
    assert new is not None
    assert row(engine).term == new


def test_a_write_that_waited_for_a_claim_finds_its_term_ended(engine: Engine) -> None:
    term = claimed(engine, A)
    run_out(engine)
    with ThreadPoolExecutor(1) as pool, engine.connect() as claiming:
        began = claiming.begin()
        assert terms.claim(claiming, term, B, "takeover") is not None

        def write() -> bool:
            with engine.begin() as connection:
                return terms.prove(connection, term)

        proved = pool.submit(write)
        wait_until(lambda: lock_waits(engine), "the write waits")
        began.commit()
        assert proved.result(LIMIT_SECONDS) is False


def test_a_claim_gives_up_on_a_write_that_does_not_end(engine: Engine, record: RecordAddress) -> None:
    term = claimed(engine, A)
    write = RunningWrite(engine, term)
    run_out(engine)
    hurried = open_record(record, connections=0, statement_seconds=0.2)
    with pytest.raises(DBAPIError, match="timeout"), hurried.begin() as connection:
        terms.claim(connection, term, B, "takeover")
    write.connection.close()
    assert claimed(engine, B).number == 2


def test_a_database_that_lost_its_last_second_issues_no_term_twice(engine: Engine) -> None:
    kept = claimed(engine, A)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE secmon.kept AS SELECT * FROM secmon.term"))
    run_out(engine)
    lost = claimed(engine, B)
    with engine.begin() as connection:  # a standby that had not received the last commit becomes the primary
        connection.execute(text("DELETE FROM secmon.term"))
        connection.execute(text("INSERT INTO secmon.term SELECT * FROM secmon.kept"))
    assert row(engine).term == kept
    run_out(engine)
    again = claimed(engine, C)
    assert again.number == lost.number
    with engine.begin() as connection:
        assert not terms.prove(connection, lost)
        assert not terms.renew(connection, lost)
    assert claimed(engine, B, above=7).number == 8, "a node that knows of a term never issues its number again"


def test_candidates_are_those_that_state_it_now(engine: Engine) -> None:
    with engine.begin() as connection:
        for node in (B, A, A._replace(missing=7)):
            candidates.announce(connection, node, 10)
        assert candidates.announced(connection, 10) == [A._replace(missing=7), B]
        candidates.withdraw(connection, A)
        assert candidates.announced(connection, 10) == [B]
        connection.execute(text("UPDATE secmon.candidates SET seen = seen - interval '1 minute'"))
        assert candidates.announced(connection, 10) == []


def test_changes_of_master_are_notified_and_renewals_are_not(engine: Engine, record: RecordAddress) -> None:
    with psycopg.connect(record.url, autocommit=True) as listening:
        listening.execute(f"LISTEN {terms.CHANNEL}")
        term = claimed(engine, A)
        with engine.begin() as connection:
            terms.renew(connection, term)
            terms.resign(connection, term, "", "stop")
        heard = [each.payload for each in listening.notifies(timeout=LIMIT_SECONDS, stop_after=2)]
    assert heard == ["1", "1"]


def test_a_claim_ends_the_session_of_a_master_that_was_paused_in_a_pipeline(
    engine: Engine, record: RecordAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not end it: a message such as a flush stops its clock for idle transactions."""
    monkeypatch.setattr(terms, "STALLED_SECONDS", 0.0)
    held = claimed(engine, A)
    with psycopg.connect(record.url, application_name=APPLICATION) as paused:
        paused.execute("SET idle_in_transaction_session_timeout = 500")
        paused.execute("SELECT 1 FROM secmon.term WHERE number = %s FOR KEY SHARE", [held.number])
        paused.pgconn.send_flush_request()
        paused.pgconn.flush()
        wait_until(lambda: _idle(engine, paused.info.backend_pid), what="the transaction is idle")
        run_out(engine)
        assert claimed(engine, B).number == held.number + 1
        with pytest.raises(psycopg.OperationalError):
            paused.execute("SELECT 1")


def _idle(engine: Engine, pid: int) -> bool:
    state = text("SELECT state LIKE 'idle in transaction%' FROM pg_stat_activity WHERE pid = :pid")
    with engine.begin() as connection:
        return bool(connection.execute(state, {"pid": pid}).scalar_one())
