#!/usr/bin/python3
"""Hellos and messages that don't belong: each is refused with a reason, and the job beside it ends with the digest that
it has when nobody disturbs it."""
import random

from client_case import STEPS, ClientCase, unittest, wire
from weir_client import Client, places, servers


class Refusals(ClientCase):
    lease_ms = 20000  # loaded cores may keep Python from its heartbeats for some seconds

    def train(self, disturb=None):
        """The whole job with worker/1 in Python; at step 1, before its Seal, others disturb. Returns the digest."""
        with self.cluster() as cluster, self.worker(cluster) as worker:
            if disturb:
                self.disturb_chief_early(cluster)
            worker.join()
            worker.connect()
            for step in range(STEPS):
                meddle = disturb if step == 1 else None
                self.do_step(worker, step, meddle and (lambda: meddle(cluster, worker)))
            self.assertEqual(worker.leave().state, wire.VIEW_STATE_FINISHED)
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            return cluster.summary()["digest"]

    def disturb_chief_early(self, cluster):
        """While it gathers, the chief turns away whoever is not of this job."""
        with Client(cluster.address("chief/0")) as client:
            _, theirs = client.watch()
            worker = dict(role=wire.ROLE_WORKER, index=1, incarnation=5, job_hash=theirs.job_hash)
            self.refused(client, {**worker, "job_hash": "0" * 64, "canonical": "{}"}, "worker/1", "job differs")
            self.refused(client, {**worker, "index": 7}, "worker/7", "TF_CONFIG")
            self.refused(client, {**worker, "role": wire.ROLE_PS, "index": 2}, "ps/2", "TF_CONFIG")
            self.refused(client, {**worker, "role": wire.ROLE_CHIEF, "index": 0})

    def refused(self, client, hello, *words, place=None, view=None):
        """A stream that begins with this Hello ends, with a reason; nothing but that is told."""
        stream = client.open_lane(view, *place, wire.Hello(**hello)) if place else client.open(client.chief, "Control")
        if not place:
            stream.send(hello=wire.Hello(**hello))
        self.assert_refused(stream.end(), *words)

    def test_a_job_goes_on_beside_all_of_them(self):
        self.assertEqual(self.train(self.disturb), self.train())

    def disturb(self, cluster, worker):
        with Client(cluster.address("chief/0")) as client:
            hello, view = client.look()
            observer = dict(role=wire.ROLE_OBSERVER, incarnation=3, generation=view.generation,
                            job_hash=hello.job_hash)
            self.wrong_hellos(client, view, observer, worker)
            self.wrong_control(client, hello)
            for place, chunks in places(view).items():
                self.wrong_messages(client, view, place, chunks, observer)
            self.no_place_for_more(client, view, observer)

    def wrong_hellos(self, client, view, observer, worker):
        member = {**observer, "role": wire.ROLE_WORKER, "index": 1, "incarnation": worker.incarnation}
        for place in places(view):
            def refused(hello, *words):
                self.refused(client, hello, *words, place=place, view=view)
            for hello in (observer, member):
                refused({**hello, "generation": 1}, "generation")
                refused({**hello, "job_hash": "0" * 64}, "hash")
                refused({**hello, "job_hash": ""}, "hash")
            refused({**member, "incarnation": worker.incarnation ^ 1}, "another process")
            refused({**member, "index": 2}, "index")
            records = place == (0, 0)  # the only lane to which servers open streams
            refused({**member, "role": wire.ROLE_PS, "index": 1 - place[0], "incarnation": 9},
                    "another process" if records else "record's holder")
            refused({**member, "role": wire.ROLE_PS, "index": place[0], "incarnation": 9},
                    "index" if records else "record's holder")
            refused({**member, "role": wire.ROLE_CHIEF, "index": 0, "incarnation": 9}, "another process")
            refused({**observer, "role": wire.ROLE_UNSPECIFIED}, "role")
            refused({**observer, "role": 9}, "role")

    def wrong_control(self, client, hello):
        worker = dict(role=wire.ROLE_WORKER, index=0, incarnation=4, job_hash=hello.job_hash)
        self.refused(client, worker, "worker/0", "data set")  # as if it had been started again, elsewhere
        for role in (wire.ROLE_UNSPECIFIED, 9):
            self.refused(client, {**worker, "role": role}, "role")
        for words, body in (
                (["Hello"], dict(hello=wire.Hello(role=wire.ROLE_OBSERVER))),
                (["observer"], dict(heartbeat=wire.Heartbeat(error="nobody may believe this"))),
                (["observer"], dict(fetch=wire.Fetch())),
                (["observer"], dict(contribution=wire.Contribution(), payload=bytes(4)))):
            control, _ = client.watch()
            control.send(**body)
            self.assert_refused(control.end(), *words)
        self.first_message_is_no_hello(lambda: client.open(client.chief, "Control"))

    def first_message_is_no_hello(self, opened):
        for body in (dict(fetch=wire.Fetch()), dict(heartbeat=wire.Heartbeat(leaving=True)),
                     dict(contribution=wire.Contribution(), payload=bytes(16384))):
            stream = opened()
            stream.send(**body)
            self.assert_refused(stream.end(), "Hello")
        for message in (b"", b"\xff" * 20, random.Random(1).randbytes(1000)):
            stream = opened()
            stream.send_raw(message)
            ended = stream.end()
            self.assertEqual(ended.code, "ABORTED", ended)
            self.assertTrue(ended.reason, ended)

    def wrong_messages(self, client, view, place, chunks, observer):
        foreign = next(c for c in range(len(view.chunks) + 1) if c not in chunks)
        gradient = dict(contribution=wire.Contribution(step=1, chunk=chunks[0], index=1), payload=bytes(16384))
        for words, body in (
                (["second Hello"], dict(hello=wire.Hello(**observer))),
                (["no worker"], gradient),
                (["not hold"], dict(fetch=wire.Fetch(chunk=foreign))),
                (["not hold"], dict(fetch=wire.Fetch(chunk=2**32 - 1))),
                (["part"], dict(fetch=wire.Fetch(chunk=chunks[0], part=1))),
                (["not belong"], dict(seal=wire.Seal(step=1, replica=1, samples=1e9, loss=1e9))),
                (["not belong"], dict(seal=wire.Seal(step=1, replica=0))),
                (["not belong"], dict(partial=wire.Partial(step=1, chunk=chunks[0], squares=[1.0]))),
                (["not belong"], dict(record=wire.Record(step=9, order=wire.ORDER_STOP))),
                (["order"], dict(record=wire.Record(step=9, order=7))),
                (["not belong"], dict(view=wire.View(state=wire.VIEW_STATE_FINISHED))),
                (["not belong"], dict(covered=wire.Covered(step=1, chunk=chunks[0]))),
                (["not belong"], dict(heartbeat=wire.Heartbeat(leaving=True)))):
            with self.subTest(place=place, body=str(body)[:60]):
                stream = client.open_lane(view, *place, wire.Hello(**observer))
                stream.expect("hello")
                stream.send(**body)
                self.assert_refused(stream.end(), *words)
        with self.subTest("too many fetches", place=place):
            stream = client.open_lane(view, *place, wire.Hello(**observer))
            for _ in range(65):
                stream.send(fetch=wire.Fetch(chunk=chunks[0], version=STEPS))
            self.assert_refused(stream.end(), "fetches")
        self.first_message_is_no_hello(lambda: self.opened(client, view, place))

    @staticmethod
    def opened(client, view, place):
        return client.open(servers(view)[place[0]], f"Lane{place[1]}")

    def no_place_for_more(self, client, view, observer):
        """Eight observers at one time; when one has gone, another may come."""
        place = max(places(view))
        streams = []
        for _ in range(8):
            streams.append(client.open_lane(view, *place, wire.Hello(**observer)))
            streams[-1].expect("hello")
        self.refused(client, observer, "observers", place=place, view=view)
        streams[0].finish()
        streams[0].end()
        client.open_lane(view, *place, wire.Hello(**observer)).expect("hello")


if __name__ == "__main__":
    unittest.main()
