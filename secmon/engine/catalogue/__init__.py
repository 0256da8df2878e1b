"""The files of a ruleset as the API shows and changes them (analysis-api.md 2 to 5)."""

from secmon.engine.catalogue.ruleset_catalogue import RulesetCatalogue

__all__ = ["RulesetCatalogue"]
