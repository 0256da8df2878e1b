"""Enrolment: agents ask over TLS for an id and a key, in one line, and get them in one line."""
