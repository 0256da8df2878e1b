"""gRPC writes no lines of its own."""

import os
import subprocess
import sys

from secmon.daemons.supervisor_settings import STANDARD
from tests.waiting import LIMIT_SECONDS

_WATCH = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get("GRPC_VERBOSITY"))

sys.meta_path.insert(0, Watch())
"""


def test_grpc_is_loaded_quiet() -> None:
    """In the order in which the process that forks daemons loads them."""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    modules = sorted(spec.factory.partition(":")[0] for spec in STANDARD)
    command = [sys.executable, "-c", f"{_WATCH}\nimport {', '.join(modules)}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "NONE\n")
