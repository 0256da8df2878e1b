"""The store of record: what the master owns, in PostgreSQL, and who is master (docs/high-availability.md)."""
