"""A receiver for Python 3.9 or newer: WEBHOOK_SECRET=whsec_… PORT=9000 python3 receiver.py"""
import base64
import hashlib
import hmac
import os
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))


def is_from_dq(headers, body):
    sent_id = headers.get("webhook-id", "")
    sent_time = headers.get("webhook-timestamp", "")
    if not re.fullmatch(r"[0-9]{1,12}", sent_time) or abs(time.time() - int(sent_time)) > 300:
        return False
    digest = hmac.new(KEY, f"{sent_id}.{sent_time}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    given = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(one, expected) for one in given)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not is_from_dq(self.headers, body):
            return self.answer(401, b"")
        # A job can arrive twice: store its webhook-id together with the result, and skip a known one.
        print(self.headers["dq-topic"], self.headers["webhook-id"], body.decode(), flush=True)
        return self.answer(200, b'{"code":200}')

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()
