"""Fetching files over HTTP and HTTPS for all that downloads: bounded in size and time, without a thread.

``download`` gives the content, ``fetch`` writes it to a file of any size. Redirects are followed from HTTPS to HTTPS
only, and never from a public server into private networks, or from one of these to the host itself; addresses are
checked before they are connected to. Certificates are checked against the system's authorities.
"""

from secmon.common.download.addresses import DownloadError, check_url, without_query
from secmon.common.download.fetching import MAX_REDIRECTS, Fetched, Validators, download, fetch
from secmon.common.download.unpacking import open_unpacked

__all__ = [
    "MAX_REDIRECTS",
    "DownloadError",
    "Fetched",
    "Validators",
    "check_url",
    "download",
    "fetch",
    "open_unpacked",
    "without_query",
]
