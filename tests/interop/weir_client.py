"""weir's wire from plain Python: what any gRPC client can do with proto/weir.proto, protoc and a generic call.

    with Client(chief_address) as client:
        hello, view = client.look()          an observer's control stream
        model = client.pull(view, hello)     all chunks from all parameter servers
        model.digest()

Streams read on a thread of gRPC's own and are waited for with a guard time, so a test that hears nothing fails.
"""
import atexit
import contextlib
import hashlib
import importlib
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading

import grpc
import numpy as np

from case import harness

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../proto")
GUARD_S = 20 * harness.SLOWNESS
NEWEST = 2**64 - 1
FETCH_WINDOW = 32  # a lane keeps 64 unanswered fetches of one stream


def generate():
    """protoc's module for the wire, made anew."""
    folder = tempfile.mkdtemp(prefix="weir-proto-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run(["protoc", "-I", PROTO, "--python_out", folder, "weir.proto"], check=True)
    sys.path.insert(0, folder)
    return importlib.import_module("weir_pb2")


wire = generate()


class Ended(Exception):
    """The stream is over: `reason` is the Refused's, or the status's text."""

    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code, self.reason = code, reason


class Stream:
    """One call: frames both ways."""

    def __init__(self, channel, method):
        self.outbox, self.inbox = queue.Queue(), queue.Queue()
        opened = channel.stream_stream("/weir.Weir/" + method,
                                       request_serializer=lambda frame: frame if isinstance(frame, bytes)
                                       else frame.SerializeToString(),
                                       response_deserializer=wire.Frame.FromString)
        self.call = opened(iter(self.outbox.get, None), wait_for_ready=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        refusal = None
        try:
            for frame in self.call:
                if frame.WhichOneof("body") == "refused":
                    refusal = frame.refused.reason
                else:
                    self.inbox.put(frame)
            self.inbox.put(Ended(self.call.code().name, refusal or self.call.details()))
        except grpc.RpcError as error:
            self.inbox.put(Ended(error.code().name, refusal or error.details()))

    def send(self, payload=b"", **body):
        """send(fetch=wire.Fetch(...)): one frame."""
        self.outbox.put(wire.Frame(payload=payload, **body))

    def send_raw(self, message):
        self.outbox.put(message)

    def receive(self, guard_s=GUARD_S):
        """(name of the body, body, payload) of the next frame; raises Ended."""
        try:
            frame = self.inbox.get(timeout=guard_s)
        except queue.Empty:
            raise harness.GuardTimeout(f"nothing came within {guard_s:.0f} s") from None
        if isinstance(frame, Ended):
            self.inbox.put(frame)  # for whoever asks again
            raise frame
        name = frame.WhichOneof("body")
        return name, getattr(frame, name), frame.payload

    def expect(self, wanted):
        """The next frame, which must have that body."""
        name, body, _ = self.receive()
        if name != wanted:
            raise AssertionError(f"{name} came, not {wanted}: {body}")
        return body

    def end(self):
        """Reads to the end: an Ended."""
        with contextlib.suppress(Ended):
            while True:
                self.receive()
        return self.inbox.get()

    def finish(self):
        """No more frames from this side."""
        self.outbox.put(None)


class Model:
    """The flat parameter space, as chunks bring it."""

    def __init__(self, view):
        self.view = view
        self.flat = np.zeros(view.flat_elements, "<f4")
        self.versions = {}

    def span(self, chunk):
        first = chunk * self.view.chunk_elements
        return slice(first, min(first + self.view.chunk_elements, self.view.flat_elements))

    def keep(self, weights, payload):
        self.flat[self.span(weights.chunk)] = np.frombuffer(payload, "<f4")  # another length is an error
        self.versions[weights.chunk] = weights.version

    def holds(self, version):
        return all(self.versions.get(chunk) == version for chunk in range(len(self.view.chunks)))

    def arrays(self):
        """The variables, in Keras's order."""
        return [self.flat[v.offset:v.offset + v.elements].reshape(v.shape) for v in self.view.variables]

    def flatten(self, arrays):
        """The other way round: one flat array."""
        flat = np.zeros(self.view.flat_elements, "<f4")
        for variable, array in zip(self.view.variables, arrays):
            flat[variable.offset:variable.offset + variable.elements] = np.asarray(array, "<f4").reshape(-1)
        return flat

    def digest(self):
        sha = hashlib.sha256()
        for array in self.arrays():
            sha.update(array.tobytes())
        return sha.hexdigest()


def servers(view):
    """Addresses of the parameter servers, as the view counts them: ViewChunk.primary is a place in this list."""
    return [node.address for node in view.nodes if node.role == wire.ROLE_PS]


def places(view):
    """(server, lane) -> its chunks, ascending. The record's stream, (0, 0), is there even without chunks."""
    found = {(0, 0): []}
    for number, chunk in enumerate(view.chunks):
        found.setdefault((chunk.primary, chunk.lane), []).append(number)
    return found


class Client:
    """Channels to the nodes of one cluster; `with` closes them, and with them all streams."""

    def __init__(self, chief):
        self.chief = chief
        self.channels, self.streams = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for stream in self.streams:
            stream.finish()
        for channel in self.channels:
            channel.close()

    def open(self, address, method):
        """A stream on a connection of its own."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                   ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100),
                   ("grpc.min_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100)]
        channel = grpc.insecure_channel(address, options=options)
        self.channels.append(channel)
        self.streams.append(Stream(channel, method))
        return self.streams[-1]

    def watch(self):
        """An observer's control stream, and the chief's Hello."""
        control = self.open(self.chief, "Control")
        control.send(hello=wire.Hello(role=wire.ROLE_OBSERVER, incarnation=random.getrandbits(64)))
        return control, control.expect("hello")

    def look(self):
        """The chief's Hello and its view, as soon as there is one."""
        control, hello = self.watch()
        view = control.expect("view")
        control.finish()
        return hello, view

    def open_lane(self, view, server, lane, hello):
        stream = self.open(servers(view)[server], f"Lane{lane}")
        stream.send(hello=hello)
        return stream

    def pull(self, view, hello, version=NEWEST):
        """All chunks of all servers, as an observer."""
        model = Model(view)
        who = wire.Hello(role=wire.ROLE_OBSERVER, incarnation=random.getrandbits(64), generation=view.generation,
                         view=view.number, job_hash=hello.job_hash)
        for (server, lane), chunks in places(view).items():
            stream = self.open_lane(view, server, lane, who)
            self._pull_chunks(stream, chunks, version, model)
            stream.finish()
        return model

    @staticmethod
    def _pull_chunks(stream, chunks, version, model):
        asked = received = 0
        while received < len(chunks):
            while asked < min(len(chunks), received + FETCH_WINDOW):
                stream.send(fetch=wire.Fetch(chunk=chunks[asked], version=version))
                asked += 1
            name, body, payload = stream.receive()
            if name == "weights":
                model.keep(body, payload)
                received += 1
            elif name not in ("hello", "record"):
                raise AssertionError(f"{name} came for a fetch: {body}")
