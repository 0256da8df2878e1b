"""The list of slow tests names tests that exist."""

import ast

from tests.folders import REPOSITORY
from tests.slow_tests import slow_tests


def test_every_name_is_that_of_a_test() -> None:
    unknown = []
    known: dict[str, set[str]] = {}
    for name in sorted(slow_tests()):
        file, *_, function = name.split("::")
        if file not in known:
            tree = ast.parse((REPOSITORY / "tests" / file).read_text())
            known[file] = {
                node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        if function not in known[file]:
            unknown.append(name)
    assert unknown == [], "rename or remove these in tests/slow.txt"
