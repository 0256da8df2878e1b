"""Compiles the matchers of the analysis, if there is a C compiler; everything else is in pyproject.toml."""

from hashlib import sha256
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCES = Path("secmon/engine/matching")
MODULE = "secmon.engine.matching.compiled_matchers"


def generated() -> str:
    """The source with its digest in it, by which ``implementation.py`` recognises a module of another source."""
    text = (SOURCES / "matchers.py").read_bytes()
    digest = sha256(text + (SOURCES / "compiled_matchers.pxd").read_bytes()).hexdigest()
    made = Path("build") / "compiled_matchers.py"
    made.parent.mkdir(exist_ok=True)
    made.write_bytes(text + f'\nSOURCE_DIGEST = "{digest}"\n'.encode())
    return str(made)


(module,) = cythonize(
    [Extension(MODULE, [generated()])],
    build_dir="build",
    compiler_directives={"annotation_typing": False, "wraparound": False},
    language_level=3,
)
module.optional = True  # cythonize does not pass it on

setup(ext_modules=[module])
