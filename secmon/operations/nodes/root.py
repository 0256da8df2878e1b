"""``GET /``: what answers here."""

import socket

from msgspec import Struct

from secmon import API_REVISION, API_VERSION
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Pretty
from secmon.common.clock import iso_z
from secmon.common.outcome import Plain


class BasicInfo(Struct):
    """The service (conventions.md 13.1)."""

    title: str
    api_version: str
    revision: int
    license_name: str
    license_url: str
    hostname: str
    timestamp: str


@operation("GET", "/", params=Pretty, place=Place.ANY, open_to_all=True, exempt=True, data=BasicInfo)
async def info(ctx: Context, params: Pretty) -> Plain:
    """Name, version and time of the service."""
    return Plain(
        data={
            "title": "secmon API REST",
            "api_version": API_VERSION,
            "revision": API_REVISION,
            "license_name": "Apache 2.0",
            "license_url": "https://www.apache.org/licenses/LICENSE-2.0",
            "hostname": socket.gethostname(),
            "timestamp": iso_z(ctx.node.clock.now()),
        }
    )
