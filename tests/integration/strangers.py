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


class Silent:
    """Many connections that are opened and say nothing, or no more than a greeting."""

    def __init__(self, port, count=64):
        self.sockets = []
        for number in range(count):
            connection = socket.create_connection(("127.0.0.1", port), 5)
            self.sockets.append(connection)
            if number % 2:
                connection.sendall(HTTP2_PREFACE + SETTINGS)

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
