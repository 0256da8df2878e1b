"""The pass phrase of the API's TLS key, asked for on the terminal and checked against the key."""

import sys
from pathlib import Path

import click
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from secmon.common.privileges import read_protected
from secmon.daemons.daemon import StartError

_ATTEMPTS = 3


def ask_passphrase(root: Path, key: Path) -> str:
    """Ask until it opens ``key`` of the installation ``root``, three times at most.

    Raises StartError 2003; never echoes or stores it.
    """
    if not sys.stdin.isatty():
        raise StartError(2003, f"{key} has a pass phrase: start secmon on a terminal, or remove the pass phrase")
    data = read_protected(root, key)
    for _ in range(_ATTEMPTS):
        phrase: str = click.prompt(f"Pass phrase of {key}", hide_input=True, err=True)
        try:
            load_pem_private_key(data, phrase.encode())
        except ValueError:
            click.echo("That pass phrase does not open the key.", err=True)
        else:
            return phrase
    raise StartError(2003, f"wrong pass phrase for {key}")
