"""``python -m secmon.cli``: the command line without its launcher script."""

from secmon.cli import main

main(prog_name="secmon")
