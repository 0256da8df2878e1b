"""Healthy: the API of this node requires credentials, and no daemon has failed.

A worker whose security lease has ended answers 503 and is unhealthy until it receives a message of the master.
"""

import http.client
import os
import ssl
import sys
from pathlib import Path

failed = sorted(mark.stem for mark in Path(os.environ["SECMON_ROOT"], "var/run").glob("secmon-*.failed"))
if failed:
    sys.exit(f"failed: {', '.join(failed)}")
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE  # the peer is this container
try:
    connection = http.client.HTTPSConnection("127.0.0.1", 55000, timeout=3, context=context)
    connection.request("GET", "/")
    status = connection.getresponse().status
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"no answer: {error!r}")
# 429: alive, with more requests than its limit allows
if status not in (401, 429):
    sys.exit(f"unexpected status {status}")
