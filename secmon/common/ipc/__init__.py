"""Calls between the processes of a node: frames over unix sockets.

``framing``: the bytes of a frame; ``server`` and ``client``: a socket and its callers; ``commands``: JSON commands on
top of them. ``docs/architecture.md`` lists all sockets of a node, those with a public protocol too.
"""
