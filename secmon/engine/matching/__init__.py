"""The pattern languages of the ruleset (ruleset.md 3). All match bytes; only ASCII letters are folded."""

from secmon.engine.matching.expression import Expression, Found, PatternError, compile_expression

__all__ = ["Expression", "Found", "PatternError", "compile_expression"]
