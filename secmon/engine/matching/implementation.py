"""The form of the matchers in use: compiled, or plain where secmon was installed without a C compiler."""

import hashlib
import importlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from secmon.engine.matching import matchers

MODULE = "secmon.engine.matching.compiled_matchers"


def source_digest() -> str | None:
    """SHA-256 of the sources that ``setup.py`` compiles; None where they are not installed."""
    source = Path(__file__).with_name("matchers.py")
    try:
        texts = source.read_bytes() + source.with_name("compiled_matchers.pxd").read_bytes()
    except FileNotFoundError:
        return None
    return hashlib.sha256(texts).hexdigest()


def compiled_module(digest: str | None) -> ModuleType | None:
    """The compiled module; None if there is none, or only one of a source with another digest."""
    try:
        module = importlib.import_module(MODULE)
    except ImportError:
        return None
    return module if digest == module.SOURCE_DIGEST else None


compiled = compiled_module(source_digest())
if TYPE_CHECKING or compiled is None:
    RegexMatcher, TextMatcher = matchers.RegexMatcher, matchers.TextMatcher
else:
    RegexMatcher, TextMatcher = compiled.RegexMatcher, compiled.TextMatcher
FORM: Literal["compiled", "plain"] = "plain" if compiled is None else "compiled"
