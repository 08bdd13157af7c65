"""A small web application: it answers with the root file system that it runs from."""
import json
import os
import platform
import sys
import urllib.parse
from wsgiref.simple_server import WSGIRequestHandler, make_server


def mounts():
    if not os.path.exists("/proc/self/mounts"):
        return
    with open("/proc/self/mounts", encoding="utf-8") as f:
        for line in f:
            source, point, kind, *_ = line.split()
            if point == "/":
                yield {"source": source, "type": kind}


def application(environ, start_response):
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    body = json.dumps({"root": list(mounts()), "python": platform.python_version(), "query": query}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


make_server("", int(sys.argv[1]), application, handler_class=Quiet).serve_forever()
