"""The pattern languages of the ruleset (ruleset.md 3). All match bytes; only ASCII letters are folded."""

from secmon.engine.matching.expression import Expression, PatternError, compile_expression
from secmon.engine.matching.results import Found, MatchLimit

__all__ = ["Expression", "Found", "MatchLimit", "PatternError", "compile_expression"]
