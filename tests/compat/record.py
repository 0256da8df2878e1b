"""Makes the golden stores and recorded messages: ``python -m tests.compat.record``.

Each folder ``generation_N`` has a program ``recorder.py`` that runs with the code of an earlier release and writes what
that release writes. The repository has the results, so that the tests need no history.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.compat.releases import GENERATION_1, PREVIOUS, extract, with_release

HERE = Path(__file__).parent


def main() -> None:
    for commit, name in ((GENERATION_1, "generation_1"), (PREVIOUS, "generation_2")):
        folder = HERE / name
        for old in [*folder.glob("*.db*"), *folder.glob("*.json")]:
            old.unlink()
        with tempfile.TemporaryDirectory() as temporary:
            release = extract(commit, Path(temporary))
            recorder = release / "recorder.py"
            recorder.write_text((folder / "recorder.py").read_text())
            subprocess.run([*with_release(release), sys.executable, recorder, folder], check=True)


if __name__ == "__main__":
    main()
