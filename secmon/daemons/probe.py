"""Asking a node of the demo over its API whether the cluster is complete."""

import base64
import ssl
import urllib.error
import urllib.request

import msgspec

_SECONDS = 5.0


class Probe:
    """A client of one node with a certificate that nobody signed; ``trouble`` is what stood in the way last."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url = url
        self._basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._token = ""
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE  # the node's own certificate on the loopback interface
        self.trouble = ""

    def members(self) -> int:
        """How many nodes the cluster has; 0 while the API does not answer. Blocks for a few seconds at most."""
        try:
            if not self._token:
                login = self._ask("POST", "/security/user/authenticate?raw=true", f"Basic {self._basic}")
                self._token = login.decode().strip()
            reply = msgspec.json.decode(self._ask("GET", "/cluster/nodes", f"Bearer {self._token}"))
            return int(reply["data"]["total_affected_items"])
        except urllib.error.HTTPError as error:
            self.trouble = f"{error.url}: {error.code} {error.read(500).decode('utf-8', 'replace')}"
            self._token = ""
        except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
            self.trouble = f"{self._url}: {error}"
        return 0

    def _ask(self, method: str, path: str, authorization: str) -> bytes:
        request = urllib.request.Request(self._url + path, method=method, headers={"Authorization": authorization})
        with urllib.request.urlopen(request, timeout=_SECONDS, context=self._tls) as response:
            body: bytes = response.read()
        return body
