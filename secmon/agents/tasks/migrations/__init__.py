"""Migrations of the store of tasks, a module for each version of its tables (docs/upgrade-secmon.md)."""
