"""The default ruleset, compiled once for all tests of a process."""

from functools import cache

from secmon.config.default_ruleset import default_ruleset_folder
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.sources import Sources, collect_folder, compile_sources


def default_sources() -> Sources:
    """A new collection, to which a test may add."""
    return collect_folder(default_ruleset_folder())


@cache
def default_ruleset() -> Ruleset:
    return compile_sources(default_sources())
