"""Enrolment: an agent sends a line over TLS, and gets its id and key in a line."""
