"""What the tests with a Python client share: a small smooth job of two replicas, and worker/1 in Python and NumPy."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))

from case import ClusterCase, harness, jobs, unittest  # noqa: E402

from reference.job import Job  # noqa: E402
from weir_worker import Worker, wire  # noqa: E402

STEPS = 6
LEARNING_RATE = 0.1


class Replicas:
    """The job's gradients in NumPy, replica by replica."""

    def __init__(self, path, count):
        self.job, self.count = Job(path), count
        self.data = self.job.data("train")
        self.walk = self.job.walk(len(self.data))
        self.model = self.job.model(self.data.x.shape[1:])

    def initial(self):
        self.model.initialise(self.job.seed)
        return [variable.value.astype(np.float32) for variable in self.model.variables]

    def gradient(self, arrays, step, replica):
        """(gradients by variable, samples, sum of the loss, sums of the metrics): this replica's share of the mean
        over the global batch."""
        index = self.walk.indices(step)
        batch = len(index)
        x, y = self.data.gather(index[replica * batch // self.count:(replica + 1) * batch // self.count])
        for variable, array in zip(self.model.variables, arrays):
            variable.value = array.astype(np.float64)
        prediction, last = self.model.forward(x, (self.job.seed, step))
        values, gradient, of_logits = self.job.loss(y, prediction, last)
        gradients = self.model.backward(gradient / batch, of_logits)
        return gradients, len(x), values.sum(), [metric(y, prediction).sum() for metric in self.job.metrics]


class ClientCase(ClusterCase):
    """`with self.cluster() as cluster, self.worker(cluster) as worker:` all roles of weir but worker/1, and that."""

    lease_ms = int(3000 * harness.SLOWNESS)

    def setUp(self):
        model = jobs.sequential(
            jobs.layer("Flatten", name="flatten"),
            jobs.layer("Dense", name="hidden", units=32, activation="tanh"),
            jobs.layer("Dense", name="logits", units=10))
        self.path = self.job({
            "data.validation": None, "fit.epochs": 2, "fit.steps_per_epoch": STEPS // 2,
            "compile.optimizer": {"class_name": "SGD", "config": {"learning_rate": LEARNING_RATE}},
            "placement.lanes": 2,
            "cluster.lease_ms": self.lease_ms}, model)
        self.replicas = Replicas(self.path, 2)

    def cluster(self, **flags):
        cluster = harness.Cluster(self.path, ps=2, workers=2, **flags)
        try:
            cluster.start_all(["chief/0", "ps/0", "ps/1", "worker/0"])
        except BaseException:
            cluster.__exit__(*sys.exc_info())
            raise
        return cluster

    def worker(self, cluster):
        return Worker(cluster.address("chief/0"), 1, self.train_samples)

    def do_step(self, worker, step, before_seal=None):
        """Pulls version `step`, computes and sends what this worker's replica has to."""
        worker.take(step)
        record = worker.take_record(step)
        self.assertEqual((record.step, record.round, record.order), (step, 0, wire.ORDER_TRAIN))
        self.assertEqual((record.epoch, record.iterations), (step // (STEPS // 2), step))
        self.assertAlmostEqual(record.learning_rate, LEARNING_RATE)
        gradients, samples, loss, metrics = self.replicas.gradient(worker.model.arrays(), step, 1)
        worker.contribute(step, 1, worker.model.flatten(gradients))
        if before_seal:
            before_seal()
        worker.seal(step, 1, samples, loss, metrics)

    def assert_refused(self, ended, *words):
        """A stream that ended like this was refused with a reason in which the words stand."""
        self.assertIn(ended.code, ("OK", "ABORTED"), ended)
        for word in words:
            self.assertIn(word, ended.reason or "", ended)


__all__ = ["ClientCase", "LEARNING_RATE", "Replicas", "STEPS", "harness", "jobs", "np", "unittest", "wire"]
