"""What services that tests write in a few lines have in common."""

from __future__ import annotations

HANDLER = """
    import http.server, json

    class Answering(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, document, code=200):
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def read(self):
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *_):
            pass

    def serve_at(context, handler, **state):
        server = http.server.ThreadingHTTPServer((context.service_host, context.service_port), handler)
        vars(server).update(state)
        print("listening", flush=True)
        server.serve_forever()
"""
"""The beginning of a modules file: a handler that answers JSON, and a server for it."""
