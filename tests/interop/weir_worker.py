"""A worker of a weir cluster in Python: membership, pulls, gradients and seals. One thread, besides the heartbeats'.

Its replicas are sent one by one (level 0 of the sum tree), a whole step at a time; a real worker sends the largest
nodes that it can make, chunk by chunk, while it still computes.
"""
import collections
import os
import random
import threading

from weir_client import Client, Model, places, wire


CREDIT = 2  # chunks that may be on their way beyond the lowest that is not covered: few, so that tests come to it


class Worker(Client):
    def __init__(self, chief, index, samples, heartbeat_s=0.1):
        super().__init__(chief)
        self.index, self.heartbeat_s = index, heartbeat_s
        self.incarnation = random.getrandbits(64)
        self.samples = samples
        self.heartbeats_end = threading.Event()
        self.lanes = {}
        self.covered = collections.defaultdict(lambda: -1)  # by chunk: the newest step whose sum is complete
        self.record = None

    def __exit__(self, *args):
        self.heartbeats_end.set()
        super().__exit__(*args)

    def join(self):
        """Says Hello to the chief with the job that an observer is told of, and lives from then on."""
        _, theirs = self.watch()
        self.job_hash = theirs.job_hash
        self.control = self.open(self.chief, "Control")
        self.control.send(hello=wire.Hello(
            role=wire.ROLE_WORKER, index=self.index, incarnation=self.incarnation, job_hash=theirs.job_hash,
            canonical=theirs.canonical, numerics=theirs.numerics, train_samples=self.samples))
        self.control.expect("hello")
        threading.Thread(target=self._live, daemon=True).start()
        return self.control

    def _live(self):
        while not self.heartbeats_end.wait(self.heartbeat_s):
            self.control.send(heartbeat=self.heartbeat())

    def heartbeat(self, **changes):
        return wire.Heartbeat(incarnation=self.incarnation, pid=os.getpid(), **changes)

    def hello(self):
        """What it says of itself on its lanes: it holds nothing yet, so it is sent everything."""
        return wire.Hello(role=wire.ROLE_WORKER, index=self.index, incarnation=self.incarnation,
                          generation=self.view.generation, view=self.view.number, job_hash=self.job_hash)

    def connect(self):
        """Waits for the view and opens the lanes."""
        self.view = self.control.expect("view")
        self.model = Model(self.view)
        for place in places(self.view):
            self.lanes[place] = self.open_lane(self.view, *place, self.hello())
            self.lanes[place].expect("hello")
        self.recorder = self.lanes[0, 0]

    def take(self, version):
        """Reads until it holds every chunk at that version. Records, which come in between, are kept."""
        for place, chunks in places(self.view).items():
            while any(self.model.versions.get(chunk) != version for chunk in chunks):
                self.take_one(self.lanes[place])

    def take_one(self, stream):
        name, body, payload = stream.receive()
        if name == "weights":
            self.model.keep(body, payload)
            self.covered[body.chunk] = max(self.covered[body.chunk], body.version - 1)
        elif name == "covered":
            self.covered[body.chunk] = max(self.covered[body.chunk], body.step)
        elif name == "record":
            self.record = wire.Record()
            self.record.CopyFrom(body)
        else:
            raise AssertionError(f"{name} came: {body}")

    def take_record(self, step):
        while self.record is None or self.record.step < step:
            self.take_one(self.recorder)
        return self.record

    def contribute(self, step, replica, flat):
        """The gradient of a replica, chunk by chunk, last layer first, as far as credit goes."""
        for place, chunks in places(self.view).items():
            order, lowest = chunks[::-1], 0
            for position, chunk in enumerate(order):
                while position >= lowest + CREDIT:
                    self.take_one(self.lanes[place])
                    while lowest < position and self.covered[order[lowest]] >= step:
                        lowest += 1
                self.lanes[place].send(flat[self.model.span(chunk)].tobytes(), contribution=wire.Contribution(
                    generation=self.view.generation, step=step, chunk=chunk, level=0, index=replica))

    def seal(self, step, replica, samples, loss, metrics=()):
        self.recorder.send(seal=wire.Seal(generation=self.view.generation, step=step, replica=replica,
                                          samples=samples, loss=loss, metrics=metrics))

    def leave(self):
        """The last heartbeat, once the view says that the job is over; returns that view."""
        view = self.last_view()
        self.heartbeats_end.set()
        self.control.send(heartbeat=self.heartbeat(leaving=True))
        self.control.finish()
        return view

    def last_view(self):
        while True:
            name, body, _ = self.control.receive()
            if name == "view" and body.state != wire.VIEW_STATE_RUNNING:
                return body


__all__ = ["Worker", "wire"]
