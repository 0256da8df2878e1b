"""Accepting connections of strangers: how many there may be, from where, and what each may cost before it is known."""
