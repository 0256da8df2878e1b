"""What every host logs on a quiet day is information at most: an alarm that is always there hides the others."""

import tempfile
from pathlib import Path

import pytest

from secmon.engine.engine import Engine
from secmon.engine.input.predecode import Message
from secmon.engine.memory.state import State
from secmon.engine.ruleset.case_files import NOON
from tests.ruleset.default import default_ruleset

FILES = sorted((Path(__file__).parent / "ordinary").glob("*.log"))
INFORMATION = 3
"""The highest level of information."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_ordinary_events_are_information(file: Path) -> None:
    """Each in a session of its own, so that the order of the lines means nothing."""
    loud = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        with tempfile.TemporaryDirectory(prefix="secmon-case-") as folder:
            engine = Engine(default_ruleset(), State.private(Path(folder)), host=b"host")
            rule = engine.process(Message("1", b"stdin", line), NOON).rule
        if rule is not None and rule.level > INFORMATION:
            loud.append(f"{file.name}:{number}: {rule.id}, level {rule.level}: {rule.description.decode()}")
    assert loud == []
