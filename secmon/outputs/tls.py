"""TLS towards receivers: certificates are always checked."""

import ssl
from pathlib import Path

from secmon.common.errors import ConfigError, Fault
from secmon.config.outputs import TlsFiles


def client_context(files: TlsFiles, root: Path, section: str) -> ssl.SSLContext:
    """Trust in the authorities of ``files``, or in those of the system. Names are relative to ``root``.

    Raises ConfigError 2000 for a file that cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=str(root / files.ca_store) if files.ca_store else None)
        if files.certificate:
            context.load_cert_chain(root / files.certificate, root / files.key if files.key else None)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(one for one in (files.ca_store, files.certificate, files.key) if one)
        raise ConfigError(f"{section}: {named}", "file", Fault(str(error)), "files in PEM form", code=2000) from None
    return context
