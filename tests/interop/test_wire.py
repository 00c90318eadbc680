#!/usr/bin/python3
"""A client that knows no more than proto/weir.proto, with Python's protobuf and gRPC, against weir's wire."""
import importlib
import os
import queue
import random
import struct
import subprocess
import sys
import tempfile
import unittest

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "..", "..", "proto")
ECHO = os.path.join(os.path.dirname(os.environ["WEIR"]), "tests", "wire_echo")
GUARD_S = 60
LIMITS = {"job_hash": 64, "metrics": 8, "shape": 16}


class Call:
    """One bidirectional call: send frames (or bytes), read answers."""

    def __init__(self, channel, method="Control"):
        self.outgoing = queue.Queue()
        self.stream = channel.stream_stream(f"/weir.Weir/{method}")(iter(self.outgoing.get, None), timeout=GUARD_S)

    def send(self, frame):
        self.outgoing.put(frame if isinstance(frame, bytes) else frame.SerializeToString())

    def end(self):
        self.outgoing.put(None)


class Wire(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder.name}", "weir.proto"], check=True)
        sys.path.insert(0, folder.name)
        cls.pb = importlib.import_module("weir_pb2")

    def setUp(self):
        self.echo = subprocess.Popen([ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port = int(self.echo.stdout.readline())
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)])
        self.addCleanup(self.stop)

    def stop(self):
        self.channel.close()
        self.echo.communicate(timeout=GUARD_S)
        self.assertEqual(self.echo.returncode, 0)

    def fill(self, message, source):
        """Random values in all fields, sometimes their extremes; sometimes a field is left out."""
        for field in message.DESCRIPTOR.fields:
            if field.enum_type:
                setattr(message, field.name, source.choice(field.enum_type.values[1:]).number)
            elif field.name in ("replicas", "hosts") or not source.randrange(6):
                continue
            elif field.label == field.LABEL_REPEATED:
                for _ in range(source.randrange(1 + min(9, LIMITS.get(field.name, 9)))):
                    if field.message_type:
                        self.fill(getattr(message, field.name).add(), source)
                    else:
                        getattr(message, field.name).append(self.value(field, source))
            elif field.message_type:
                self.fill(getattr(message, field.name), source)
                if field.name != "record" and not getattr(message, field.name).ByteSize():
                    message.ClearField(field.name)  # to weir, and so in its answers, absent is the same as empty
            else:
                setattr(message, field.name, self.value(field, source))
        if message.DESCRIPTOR.name == "View":
            message.hosts.extend(source.randrange(1 << 32) for _ in range(source.randrange(9)))
            message.replicas = len(message.hosts)

    def value(self, field, source):
        if field.type == field.TYPE_STRING:
            return "".join(source.choice("aZ0 /\u00e9\u4e16") for _ in range(source.randrange(20)))
        if field.type == field.TYPE_DOUBLE:
            return source.choice((0.5, -0.0, 1e308, 5e-324, float("inf"), source.uniform(-9, 9)))
        if field.type == field.TYPE_BOOL:
            return bool(source.randrange(2))
        bits = 32 if field.type == field.TYPE_UINT32 else 64
        return source.choice((0, 1, (1 << bits) - 1, source.getrandbits(bits)))

    def bodies(self):
        return [field.name for field in self.pb.Frame.DESCRIPTOR.oneofs_by_name["body"].fields]

    def test_every_message_comes_back_as_it_went(self):
        call = Call(self.channel, "Lane0")
        for seed in range(40):
            source = random.Random(seed)
            for name in self.bodies():
                frame = self.pb.Frame(payload=source.randbytes(source.choice((0, 1, 4096, 300000))))
                getattr(frame, name).SetInParent()
                self.fill(getattr(frame, name), source)
                call.send(frame)
                answer = next(call.stream)
                self.assertEqual(self.pb.Frame.FromString(answer), frame, f"{name}, seed {seed}")
        call.end()
        self.assertEqual(list(call.stream), [])
        self.assertEqual(call.stream.code(), grpc.StatusCode.OK)
        self.assertEqual(self.echo.stdout.readline(), "closed: finished by the peer\n")

    def test_fields_may_come_in_any_order(self):
        payload = self.pb.Frame(payload=struct.pack("<4f", 1, 2, 3, 4)).SerializeToString()
        body = self.pb.Frame(covered=self.pb.Covered(step=7, chunk=8)).SerializeToString()
        call = Call(self.channel)
        call.send(payload + body)
        self.assertEqual(next(call.stream), body + payload)
        call.end()

    def test_the_server_tells_its_limit_and_keeps_it(self):
        call = Call(self.channel)
        metadata = dict(call.stream.initial_metadata())
        limit = int(metadata["weir-limit"])
        call.send(bytes(limit + 1))
        with self.assertRaises(grpc.RpcError) as caught:
            next(call.stream)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn(str(limit), caught.exception.details())
        self.assertTrue(self.echo.stdout.readline().startswith("closed: "))

    def test_a_bad_message_ends_the_call_with_its_reason(self):
        call = Call(self.channel)
        call.send(self.pb.Frame(hello=self.pb.Hello(role=9)))
        with self.assertRaises(grpc.RpcError) as caught:
            next(call.stream)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.ABORTED)
        self.assertIn("hello: role: 9 is none of its values", caught.exception.details())

    def test_a_client_may_say_why_it_goes(self):
        call = Call(self.channel)
        call.send(self.pb.Frame(closing="the tests are over"))
        self.assertEqual(list(call.stream), [])
        self.assertEqual(self.echo.stdout.readline(), "closed: the tests are over\n")

    def test_what_is_not_served_is_refused(self):
        for method in ("Lane7", "Lane8"):
            with self.assertRaises(grpc.RpcError) as caught:
                next(Call(self.channel, method).stream)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)


if __name__ == "__main__":
    unittest.main()
