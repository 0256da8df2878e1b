"""Answers that are remembered: by question and version, within a bound."""

from hypothesis import given
from hypothesis import strategies as st

from secmon.cluster.answers import _OVERHEAD_BYTES, Answers
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome


def answer(text: bytes = b"[1]") -> Outcome:
    return Outcome(text=text, total=1)


def test_an_answer_is_found_by_its_question_and_version() -> None:
    answers = Answers()
    answers.keep("all", 1, answer())
    assert answers.find("all", 1) == answer()
    assert answers.find("all", 2) is None
    assert answers.find("some", 1) is None
    answers.keep("all", 2, answer(b"[2]"))
    assert answers.find("all", 1) is None
    assert answers.find("all", 2) == answer(b"[2]")


def test_failures_that_one_caller_adds_are_not_for_the_next() -> None:
    answers, made = Answers(), answer()
    answers.keep("all", 1, made)
    made.fail(SecmonError(4000), "001")
    for _ in range(2):
        found = answers.find("all", 1)
        assert found is not None
        assert found.failures == []
        found.fail(SecmonError(4000), "002")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30_000)), max_size=40))
def test_memory_is_bounded(kept: list[tuple[int, int]]) -> None:
    answers = Answers(capacity=64_000)
    sizes: dict[int, int] = {}
    for number, (question, size) in enumerate(kept):
        answers.keep(question, number, answer(b"x" * size))
        if size + _OVERHEAD_BYTES <= 16_000:
            sizes[question] = size + _OVERHEAD_BYTES
            assert answers.find(question, number) is not None  # the newest one stays
        assert answers.held <= 64_000
    assert answers.held <= sum(sizes.values())
