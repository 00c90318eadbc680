"""A TCP relay that delays: what goes through arrives whole and in order, but later, each piece by its own random time.

It stands between a cluster's roles: each is told the others' addresses as relays. `break_all` cuts all connections;
`passed_bytes` tells how far the cluster has come.
"""
import random
import selectors
import socket
import threading
import time

PIECE_BYTES = 1 << 16


class Relay:
    """Listens on a free port and passes on to `target`; `delay_s` is the most that a piece waits; may be changed."""

    def __init__(self, target, delay_s, seed):
        self.target, self.delay_s = target, delay_s
        self.random = random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.open, self.closed = set(), False
        self.breaks = 0
        self.passed_bytes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for side in client, server:
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # all that waits, waits here
            with self.lock:
                self.open.add((client, server))
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client, server):
        """Both ways on one thread: pieces wait in order of time, each way keeps its own order."""
        waiting = {client: [], server: []}
        other = {client: server, server: client}
        with selectors.DefaultSelector() as selector:
            for side in other:
                selector.register(side, selectors.EVENT_READ)
            try:
                self._loop(selector, waiting, other)
            except OSError:
                pass
        for side in other:
            side.close()

    def _loop(self, selector, waiting, other):
        while True:
            now = time.monotonic()
            due = [queue[0][0] for queue in waiting.values() if queue]
            for key, _ in selector.select(max(0, min(due) - now) if due else None):
                data = key.fileobj.recv(PIECE_BYTES)
                if not data:
                    return
                queue = waiting[key.fileobj]
                at = time.monotonic() + self.random.uniform(0, self.delay_s)
                queue.append((max(at, queue[-1][0]) if queue else at, data))
            for side, queue in waiting.items():
                while queue and queue[0][0] <= time.monotonic():
                    data = queue.pop(0)[1]
                    other[side].sendall(data)
                    with self.lock:
                        self.passed_bytes += len(data)

    def break_all(self):
        with self.lock:
            pairs, self.open = self.open, set()
        for pair in pairs:
            for side in pair:
                try:
                    side.shutdown(socket.SHUT_RDWR)
                    self.breaks += 1
                except OSError:
                    pass  # over already

    def close(self):
        self.closed = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.break_all()
