"""Cause faults in a cluster of three nodes while clients change it, and check the answers they get.

Kills, pauses, stops and cuts off nodes, daemons and the database, in random order. Without root nothing is cut off:
that needs network namespaces. docs/test-with-faults.md says what is checked.

Exit status: 0 every promise was kept, 1 one was broken.
"""

import argparse
import random
import shutil
import sys
from pathlib import Path

from tests.faults.drill import Drill
from tests.faults.faults import possible
from tests.faults.report import Report
from tests.faults.stage import Stage, staged


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--faults", type=int, default=200, help="how many (200: about an hour)")
    parser.add_argument("--seed", type=int, help="of the order of the faults; default: a new one")
    parser.add_argument("--only", metavar="TEXT", default="", help="kinds of faults whose names begin with this text")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy the logs of the nodes to DIR")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"Seed {seed}. Starting three nodes and a database ...", flush=True)
    with staged() as stage:
        kinds = [name for name in possible(stage) if name.startswith(options.only)]
        drill = Drill(stage, seed=seed, shown=_show)
        try:
            drill.run(order(kinds, options.faults, seed))
        except AssertionError as error:
            drill.report.violations.append(str(error))
        finally:
            if options.keep is not None:
                _keep_logs(stage, options.keep)
            for line in [*drill.report.table(), *drill.report.violations]:
                print(line, flush=True)  # before all is removed, which may fail too
    return 1 if drill.report.violations else 0


def order(kinds: list[str], count: int, seed: int) -> list[str]:
    """Kinds for ``count`` faults: each as often as the others, in random order."""
    choice, found = random.Random(seed), list[str]()
    while len(found) < count:
        found += choice.sample(kinds, len(kinds))
    return found[:count]


def _show(report: Report) -> None:
    print(report.last_line(), flush=True)


def _keep_logs(stage: Stage, folder: Path) -> None:
    for node in stage.cluster.nodes:
        shutil.copytree(node.paths.logs, folder / node.name, dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
