"""Migrations of the store of record, a module for each version of its tables (docs/upgrade-secmon.md)."""
