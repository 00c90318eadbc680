#!/usr/bin/python3
"""A client in Python, made from proto/weir.proto alone: it looks on, pulls the model, and takes a worker's place."""
import os
import re
import subprocess
import sys

from client_case import LEARNING_RATE, STEPS, ClientCase, harness, np, unittest, wire

import reference_train
from reference import weights
from reference.job import Job
from weir_client import NEWEST, PROTO, Client, places


class Observer(ClientCase):
    def test_the_chief_tells_an_observer_job_members_and_layout(self):
        with self.cluster() as cluster, self.worker(cluster) as worker:
            with Client(cluster.address("chief/0")) as client:
                control, hello = client.watch()  # the cluster still waits for worker/1
                self.assertEqual((hello.role, hello.index), (wire.ROLE_CHIEF, 0))
                self.assertEqual(len(hello.job_hash), 64)
                worker.join()
                view = control.expect("view")
                self.check_view(cluster, worker, hello, view)
                worker.connect()
                worker.control.send(heartbeat=worker.heartbeat(error="enough seen"))
                without = control.expect("view")
                self.assertEqual((without.state, list(without.hosts)), (wire.VIEW_STATE_RUNNING, [0, 0]))
                self.assertGreater(without.number, view.number)
                gone = [node for node in without.nodes if (node.role, node.index) == (wire.ROLE_WORKER, 1)]
                self.assertEqual(gone[0].incarnation, 0)
                self.assertEqual(control.expect("view").state, wire.VIEW_STATE_FINISHED)
                self.assertIn("enough seen", str(worker.control.end()))
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())

    def check_view(self, cluster, worker, hello, view):
        self.assertEqual((view.state, view.generation, view.replicas), (wire.VIEW_STATE_RUNNING, 0, 2))
        self.assertEqual((view.train_samples, view.validation_samples), (self.train_samples, 0))
        self.assertEqual(list(view.hosts), [0, 1])
        nodes = {(node.role, node.index): node for node in view.nodes}
        for role, name in ((wire.ROLE_CHIEF, "chief"), (wire.ROLE_PS, "ps"), (wire.ROLE_WORKER, "worker")):
            for index, address in enumerate(cluster.map[name]):
                self.assertEqual(nodes[role, index].address, address)
        self.assertEqual(len(nodes), 5)
        self.assertEqual(nodes[wire.ROLE_CHIEF, 0].incarnation, hello.incarnation)
        self.assertEqual(nodes[wire.ROLE_WORKER, 1].incarnation, worker.incarnation)
        self.assertEqual([(v.name, list(v.shape)) for v in view.variables], [
            ("hidden/kernel", [784, 32]), ("hidden/bias", [32]), ("logits/kernel", [32, 10]), ("logits/bias", [10])])
        end = 0
        for variable in view.variables:
            self.assertGreaterEqual(variable.offset, end)
            self.assertEqual(variable.elements, np.prod(list(variable.shape)))
            end = variable.offset + variable.elements
        self.assertLessEqual(end, view.flat_elements)
        self.assertEqual(view.chunk_elements, 16384 // 4)
        self.assertEqual(len(view.chunks), -(-view.flat_elements // view.chunk_elements))
        self.assertEqual(view.lanes, 2)
        self.assertEqual({(chunk.primary, chunk.lane) for chunk in view.chunks}, {(0, 0), (0, 1), (1, 0), (1, 1)})

    def test_the_first_version_is_the_one_that_numpy_makes(self):
        with self.cluster() as cluster, self.worker(cluster) as worker:
            worker.join()
            worker.connect()
            with Client(cluster.address("chief/0")) as client:
                hello, view = client.look()
                for version in (0, NEWEST):
                    model = client.pull(view, hello, version)
                    self.assertTrue(model.holds(0))
                    self.assertEqual(model.digest(), weights.digest(self.replicas.initial()))
            self.assertEqual(self.run_example(cluster), weights.digest(self.replicas.initial()))
            worker.control.send(heartbeat=worker.heartbeat(error="enough seen"))
            worker.leave()
            cluster.wait_all()

    def run_example(self, cluster):
        """What the program in docs/protocol.md prints."""
        with open(os.path.join(PROTO, "../docs/protocol.md"), encoding="utf-8") as file:
            program = re.search(r"^```python\n(.*?)^```", file.read(), re.M | re.S).group(1)
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(wire.__file__)}
        ran = subprocess.run([sys.executable, "-B", "-c", program, cluster.address("chief/0")], env=environment,
                             check=True, capture_output=True, text=True, timeout=60 * harness.SLOWNESS)
        return ran.stdout.strip()


class InWorkersPlace(ClientCase):
    def test_a_job_with_a_python_worker_ends_as_numpy_does(self):
        """Through to the last step: weights, losses, the observer's digest and the summary's."""
        with self.cluster() as cluster, self.worker(cluster) as worker:
            worker.join()
            worker.connect()
            pulled = []

            def pull():  # every contribution to the last step is there, and the record waits for our Seal
                with Client(cluster.address("chief/0")) as client:
                    hello, view = client.look()
                    pulled.append(client.pull(view, hello, STEPS))
                    self.assert_gone(client, view, hello)

            for step in range(STEPS):
                self.do_step(worker, step, pull if step == STEPS - 1 else None)
            worker.take(STEPS)
            self.assertEqual(worker.take_record(STEPS).order, wire.ORDER_STOP)
            self.assertEqual(worker.leave().state, wire.VIEW_STATE_FINISHED)
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            self.assertEqual(pulled[0].digest(), cluster.summary()["digest"])
            self.assertEqual(worker.model.digest(), cluster.summary()["digest"])
            self.compare(worker.model, cluster.summary())

    def assert_gone(self, client, view, hello):
        """Versions before the last two are not kept."""
        (server, lane), chunks = max(places(view).items())
        who = wire.Hello(role=wire.ROLE_OBSERVER, incarnation=1, job_hash=hello.job_hash)
        stream = client.open_lane(view, server, lane, who)
        stream.expect("hello")
        stream.send(fetch=wire.Fetch(chunk=chunks[0], version=1))
        gone = stream.expect("gone")
        self.assertEqual((gone.chunk, gone.newest), (chunks[0], STEPS))

    def compare(self, model, summary):
        job = Job(self.path)
        data = job.data("train")
        ours = job.model(data.x.shape[1:])
        ours.initialise(job.seed)
        steps, means = reference_train.train(job, ours, data, None)
        self.assertEqual((summary["steps"], summary["replicas"]), (steps, 2))
        for variable, theirs in zip(ours.variables, model.arrays()):
            np.testing.assert_allclose(theirs, variable.value, rtol=0, atol=1e-5, err_msg=variable.name)
        self.assertAlmostEqual(summary["loss"], means[0], delta=1e-5)
        self.assertAlmostEqual(summary["metrics"]["accuracy"], means[1], delta=1e-9)

    def first_step(self, worker):
        """A gradient that no computation gives: what is applied is the sum of both replicas'."""
        worker.join()
        worker.connect()
        worker.take(0)
        before = worker.model.arrays()
        known = [np.cos(np.arange(array.size) % 1000).reshape(array.shape) for array in before]
        theirs = self.replicas.gradient(before, 0, 0)[0]
        expected = [w - LEARNING_RATE * (a + b) for w, a, b in zip(before, theirs, known)]
        worker.contribute(0, 1, worker.model.flatten(known))
        worker.seal(0, 1, 32, 3.0)
        worker.take(1)
        self.assertTrue(worker.model.holds(1))
        for name, array, value in zip((v.name for v in worker.view.variables), worker.model.arrays(), expected):
            np.testing.assert_allclose(array, value, rtol=0, atol=1e-5, err_msg=name)

    def leave_after_first_step(self, leave, *words):
        """The chief says why, naming worker/1; worker/0 does the rest alone."""
        with self.cluster() as cluster, self.worker(cluster) as worker:
            self.first_step(worker)
            leave(worker)
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            self.assertEqual(cluster.summary()["steps"], STEPS)
            for word in ("worker/1", "1 of 2 workers are there", *words):
                self.assertIn(word, cluster.stderr("chief/0"))

    def test_a_worker_that_says_why_it_cannot_go_on_may_go(self):
        def leave(worker):
            worker.control.send(heartbeat=worker.heartbeat(error="worker/1 in Python: the disk is full"))
            worker.heartbeats_end.set()
            self.assertIn("the disk is full", str(worker.control.end()))
        self.leave_after_first_step(leave, "lost worker/1 in Python: the disk is full")

    def test_a_worker_may_leave(self):
        def leave(worker):
            worker.heartbeats_end.set()
            worker.control.send(heartbeat=worker.heartbeat(leaving=True))
        self.leave_after_first_step(leave, "it left")

    def test_a_worker_that_is_gone_is_lost(self):
        self.leave_after_first_step(lambda worker: worker.__exit__(None, None, None), "lost worker/1")

    def test_a_worker_that_falls_silent_is_lost(self):
        self.leave_after_first_step(lambda worker: worker.heartbeats_end.set(), "lost worker/1", "no heartbeat")


if __name__ == "__main__":
    unittest.main()
