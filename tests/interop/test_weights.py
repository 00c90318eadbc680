#!/usr/bin/python3
"""What weir trains is what NumPy trains in float64: weights, losses, metrics and digest, in one process and on a
cluster.

relu and max pooling are not smooth: a rounding error that changes a sign or a maximum is a jump that training then
amplifies. So convolutions are compared with tanh and average pooling over many steps, and with relu and max pooling
over few.
"""
import os
import sys
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))

from case import ClusterCase, harness, jobs, unittest  # noqa: E402

import evaluate  # noqa: E402
import reference_train  # noqa: E402
from reference import weights  # noqa: E402
from reference.job import Job  # noqa: E402

TOLERANCE = 1e-4
OPTIMIZERS = {
    "sgd": {"class_name": "SGD", "config": {"learning_rate": 0.1}},
    "momentum": {"class_name": "SGD", "config": {"learning_rate": 0.02, "momentum": 0.9}},
    "nesterov": {"class_name": "SGD", "config": {"learning_rate": 0.02, "momentum": 0.9, "nesterov": True}},
    "adam": {"class_name": "Adam", "config": {"learning_rate": 0.001}},
    "amsgrad": {"class_name": "Adam", "config": {"learning_rate": 0.001, "amsgrad": True, "epsilon": 1e-4}},
    "adamw": {"class_name": "AdamW", "config": {"learning_rate": 0.001, "weight_decay": 0.01}},
    "adagrad": {"class_name": "Adagrad", "config": {"learning_rate": 0.01}},
    "rmsprop": {"class_name": "RMSprop", "config": {"learning_rate": 0.001, "epsilon": 1e-5}},
    "centered": {"class_name": "RMSprop", "config": {"learning_rate": 0.001, "momentum": 0.5, "centered": True,
                                                     "epsilon": 1e-4}},
    "ftrl": {"class_name": "Ftrl", "config": {"learning_rate": 0.05, "l2_regularization_strength": 0.001}},
}


def smooth_cnn():
    return jobs.sequential(
        jobs.layer("Rescaling", name="rescaling", scale=2.0, offset=-0.5),
        jobs.layer("Reshape", name="reshape", target_shape=[28, 28, 1]),
        jobs.layer("Conv2D", name="first", filters=6, kernel_size=[3, 3], strides=[2, 2], activation="tanh"),
        jobs.layer("AveragePooling2D", name="pool", pool_size=[2, 2]),
        jobs.layer("Conv2D", name="second", filters=8, kernel_size=[3, 3], padding="same", activation="tanh"),
        jobs.layer("GlobalAveragePooling2D", name="global"),
        jobs.layer("Dense", name="logits", units=10))


def sharp_cnn(last):
    return jobs.sequential(
        jobs.layer("Reshape", name="reshape", target_shape=[28, 28, 1]),
        jobs.layer("Conv2D", name="first", filters=6, kernel_size=[3, 3], activation="relu"),
        jobs.layer("MaxPooling2D", name="pool", pool_size=[2, 2]),
        jobs.layer("Conv2D", name="second", filters=8, kernel_size=[3, 3], activation="relu"),
        jobs.layer(last, name="last"),
        jobs.layer("Dense", name="logits", units=10))


class Weights(ClusterCase):
    def compare(self, changes=None, model=None, ps=None, workers=None, tolerance=TOLERANCE):
        """Trains the job with weir and in NumPy, and compares all that both say of it."""
        path = self.job({"fit.epochs": 1, **(changes or {})}, model)
        file = os.path.join(self.folder, "weights.safetensors")
        result = harness.run_job(path, ps, workers, weights=file)
        self.assert_done(result)

        job = Job(path)
        dataset = job.data("train")
        model = job.model(dataset.x.shape[1:])
        model.initialise(job.seed)
        steps, means = reference_train.train(job, model, dataset, None)
        self.assertEqual(result.summary["steps"], steps)
        differences = reference_train.compare(model, file)
        self.assertLessEqual(max(differences.values()), tolerance, differences)
        self.assertAlmostEqual(result.summary["loss"], means[0], delta=tolerance)
        self.assertAlmostEqual(result.summary["metrics"]["accuracy"], means[1], delta=0.002)
        return types.SimpleNamespace(path=path, file=file, summary=result.summary)

    def compare_optimizers(self, *names, **changes):
        for name in names:
            with self.subTest(optimizer=name):
                self.compare({"compile.optimizer": OPTIMIZERS[name], **changes})

    def test_sgd_with_and_without_momentum(self):
        self.compare_optimizers("sgd", "momentum", "nesterov")

    def test_adam_amsgrad_and_adamw(self):
        self.compare_optimizers("adam", "amsgrad", "adamw")

    def test_adagrad_rmsprop_and_ftrl(self):
        self.compare_optimizers("adagrad", "rmsprop", "centered", "ftrl")

    def test_clipping(self):
        for key, value in (("clipnorm", 0.05), ("clipvalue", 0.002)):
            with self.subTest(clip=key):
                optimizer = {"class_name": "SGD", "config": {"learning_rate": 0.5, key: value}}
                self.compare({"compile.optimizer": optimizer})

    def test_a_cluster_with_replicas(self):
        self.compare({"replicas": 3, "fit.epochs": 2}, ps=2, workers=2)

    def test_smooth_convolutions(self):
        self.compare({"compile.optimizer": OPTIMIZERS["momentum"]}, smooth_cnn())

    def test_relu_and_max_pooling(self):
        changes = {"compile.optimizer": OPTIMIZERS["sgd"], "fit.steps_per_epoch": 8}
        for last in ("Flatten", "GlobalMaxPooling2D"):
            with self.subTest(last=last):
                self.compare(changes, sharp_cnn(last))

    def test_order_of_samples(self):
        for changes in ({"fit.shuffle": False}, {"fit.drop_remainder": True, "seed": 5}, {"fit.steps_per_epoch": 40}):
            with self.subTest(**changes):
                self.compare({"compile.optimizer": OPTIMIZERS["sgd"], **changes})

    def test_validation_and_digest_can_be_computed_again(self):
        ran = self.compare()
        again = evaluate.evaluate_file(Job(ran.path), ran.file, "validation")
        self.assertEqual(again["digest"], ran.summary["digest"])
        self.assertAlmostEqual(again["loss"], ran.summary["validation"]["loss"], delta=1e-5)
        self.assertAlmostEqual(again["metrics"]["accuracy"], ran.summary["validation"]["accuracy"], delta=1e-9)
        self.assertEqual(list(weights.read(ran.file)),
                         ["hidden/kernel", "hidden/bias", "logits/kernel", "logits/bias"])


if __name__ == "__main__":
    unittest.main()
