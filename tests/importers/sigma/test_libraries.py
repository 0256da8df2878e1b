"""pySigma requires more packages than secmon needs: none of them is loaded where it is not used."""

import subprocess
import sys

_UNUSED = {"requests", "urllib3", "jinja2", "diskcache", "jq"}


def loaded(program: str) -> set[str]:
    code = f"{program}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_an_import_loads_the_parser_alone() -> None:
    found = loaded("import secmon.cli.import_sigma")
    assert "pyparsing" in found
    assert not found & _UNUSED


def test_other_commands_and_daemons_load_nothing_of_it() -> None:
    found = loaded("import secmon.cli, secmon.cli.logtest, secmon.cli.import_, secmon.daemons.fork_server")
    assert not found & (_UNUSED | {"sigma", "pyparsing"})
