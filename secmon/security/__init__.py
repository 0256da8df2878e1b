"""Passwords, tokens, revocation: who is asking."""
