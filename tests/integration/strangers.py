"""Clients that no node wants: they say nothing, or the wrong thing, or too much."""
import contextlib
import os
import random
import re
import socket
import threading

import grpc

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto", "weir.proto")


def methods():
    """The paths of all methods that the wire has, as /package.Service/Method."""
    with open(PROTO, encoding="utf-8") as file:
        text = file.read()
    package = re.search(r"^package ([\w.]+);", text, re.M).group(1)
    found = []
    for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", text, re.M | re.S):
        found += [f"/{package}.{service}/{method}" for method in re.findall(r"rpc (\w+)", body)]
    return found


def is_listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


def frame(kind, flags, stream, content):
    """An HTTP/2 frame."""
    return (len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content)


def open_stream(stream, method):
    """The frame that opens a gRPC call; its header fields are literals, without compression."""
    fields = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "x",
              "content-type": "application/grpc", "te": "trailers"}
    block = b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
                     for name, value in fields.items())
    return frame(1, 4, stream, block)


def foreign_hello():
    """A message: the Hello of a worker of another job, who is refused with a long reason."""
    canonical = b'{"a":1}\n' * 50
    fields = (b"\x08\x03" + b"\x10\x07" + b"\x18\x01" + b"\x32\x3c" + b"x" * 60
              + b"\x4a" + bytes([len(canonical) & 127 | 128, len(canonical) >> 7]) + canonical)
    body = b"\x0a" + bytes([len(fields) & 127 | 128, len(fields) >> 7]) + fields
    return b"\0" + len(body).to_bytes(4, "big") + body


def is_over(connection):
    """Whether the other side has closed; what it said is dropped."""
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class Silent:
    """Many connections that say nothing: bare ones, some that greet, and some that open a call."""

    def __init__(self, port, count=300):
        self.sockets, self.callers = [], set()
        for number in range(count):
            connection = socket.create_connection(("127.0.0.1", port), 5)
            self.sockets.append(connection)
            if number % 3 > 0:
                connection.sendall(HTTP2_PREFACE + SETTINGS)
            if number % 3 == 2:  # control and a lane: one of them is served at this port
                connection.sendall(open_stream(1, methods()[0]) + open_stream(3, methods()[1]))
                self.callers.add(connection.getsockname()[1])
            connection.setblocking(False)

    def left(self):
        """How many of the connections without a call the other side has not closed."""
        return sum(not is_over(connection) for number, connection in enumerate(self.sockets) if number % 3 != 2)

    def close(self):
        for connection in self.sockets:
            connection.close()


class Deaf:
    """Connections with many calls each, whose Hello is refused and who never let the refusal through: their window for
    answers is 0."""

    def __init__(self, port, count=100, calls=60):
        self.sockets = []
        hello = foreign_hello()
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port), 5)
            self.sockets.append(connection)
            connection.sendall(HTTP2_PREFACE + frame(4, 0, 0, b"\0\4" + bytes(4)))
            connection.sendall(b"".join(open_stream(2 * call + 1, methods()[call % 2])
                                        + frame(0, 0, 2 * call + 1, hello) for call in range(calls)))
            connection.setblocking(False)

    def close(self):
        for connection in self.sockets:
            connection.close()


def send_noise(port, seed, rounds=100):
    """Random bytes, bare and behind a greeting, in pieces of all sizes, until the other side hangs up."""
    source = random.Random(seed)
    for number in range(rounds):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.settimeout(5)
            if number % 2:
                connection.sendall(HTTP2_PREFACE + SETTINGS)
            for _ in range(source.randrange(1, 20)):
                connection.sendall(source.randbytes(source.choice((1, 9, 100, 5000, 100000))))


def call(port, method, messages, guard_s=20):
    """One bidirectional call with these messages (bytes); how it ended, as a grpc.StatusCode."""
    options = [("grpc.max_send_message_length", -1), ("grpc.enable_retries", 0)]
    done = threading.Event()

    def requests():
        yield from messages
        done.wait(1)  # keeps the call open for a while, as a client does that has more to say

    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stream = channel.stream_stream(method, request_serializer=None, response_deserializer=None)
        try:
            for _ in stream(requests(), timeout=guard_s):
                pass
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            return error.code()
        finally:
            done.set()


def send_bad_messages(port, seed):
    """Well-framed calls with senseless messages, to each method."""
    source = random.Random(seed)
    for method in methods():
        for _ in range(10):
            call(port, method, [source.randbytes(source.choice((0, 1, 20, 1000, 100000))) for _ in range(3)])


def send_huge_message(port, count=1 << 30):
    """One message of a GiB, to control and to a lane. It is refused by its length, so its bytes are never held."""
    return [call(port, method, [bytes(count)]) for method in methods()[:2]]
