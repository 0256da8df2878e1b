"""Healthy: this node's API answers over TLS. Needs no credentials: 401 is an answer."""

import http.client
import ssl
import sys

context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
try:
    connection = http.client.HTTPSConnection("127.0.0.1", 55000, timeout=3, context=context)
    connection.request("GET", "/")
    status = connection.getresponse().status
except OSError as error:
    sys.exit(f"no answer: {error}")
sys.exit(0 if status == 401 else f"unexpected status {status}")
