"""Which form of the matchers is in use."""

import pytest

from secmon.engine.matching import implementation, matchers
from secmon.engine.matching.implementation import FORM, RegexMatcher, compiled, compiled_module, source_digest


def test_the_form_is_that_of_the_module_in_use() -> None:
    assert ("plain" if RegexMatcher.__module__ == matchers.__name__ else "compiled") == FORM
    assert (FORM == "compiled") is (compiled is not None)


def test_a_module_of_another_source_is_not_used() -> None:
    assert compiled_module("0" * 64) is None
    assert compiled_module(None) is None
    assert compiled is compiled_module(source_digest())


def test_without_a_compiled_module_the_plain_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementation, "MODULE", "secmon.engine.matching.absent")
    assert compiled_module(source_digest()) is None
