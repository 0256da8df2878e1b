"""``secmon openapi``: the description of the API for tools."""

import json

import click


@click.command(short_help="Print the OpenAPI document of the API.")
def openapi() -> None:
    """Print the OpenAPI document of the API (JSON), generated from the catalogue of operations.

    Example:  secmon openapi > secmon.json

    Exit status: 0 printed, 2 wrong usage.
    """
    from secmon.api.openapi import document  # builds the catalogue, which only this command needs

    click.echo(json.dumps(document(), indent=2, ensure_ascii=False))
