"""SQLite stores, built with SQLAlchemy Core."""
