"""Checks over the APIs of the demo's nodes whether the cluster is complete."""

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus

import msgspec

_SECONDS = 5.0


class Probe:
    """A client of all nodes, which have self-signed certificates. ``trouble`` is the last error."""

    def __init__(self, urls: Sequence[str], user: str, password: str) -> None:
        """``urls`` begins with the master's, which issues the token."""
        self._urls = urls
        self._basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._token = ""
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE  # the nodes' own certificates on the loopback interface
        self.trouble = ""

    def complete(self) -> int:
        """How many nodes accept the token and list all nodes. Blocks for seconds at most."""
        return sum(self._members(url) == len(self._urls) for url in self._urls)

    def _members(self, url: str) -> int:
        try:
            if not self._token:
                login = f"{self._urls[0]}/security/user/authenticate?raw=true"
                self._token = self._ask("POST", login, f"Basic {self._basic}").decode().strip()
            reply = msgspec.json.decode(self._ask("GET", f"{url}/cluster/nodes", f"Bearer {self._token}"))
            return int(reply["data"]["total_affected_items"])
        except urllib.error.HTTPError as error:
            with error:
                self.trouble = f"{url}: {error.code} {error.read(500).decode('utf-8', 'replace')}"
            if error.code == HTTPStatus.UNAUTHORIZED:
                self._token = ""
        except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
            self.trouble = f"{url}: {error}"
        return 0

    def _ask(self, method: str, url: str, authorization: str) -> bytes:
        request = urllib.request.Request(url, method=method, headers={"Authorization": authorization})
        with urllib.request.urlopen(request, timeout=_SECONDS, context=self._tls) as response:
            body: bytes = response.read()
        return body
