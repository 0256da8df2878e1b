"""Migrations of the security store, a module for each version of its tables (docs/upgrade-secmon.md)."""
