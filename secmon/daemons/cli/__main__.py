"""``python -m secmon.daemons.cli``: the command line without its launcher script."""

from secmon.daemons.cli import main

main(prog_name="secmon")
