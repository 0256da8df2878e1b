"""Migrations of the store of the inventory, a module for each version of its tables (docs/upgrade-secmon.md)."""
