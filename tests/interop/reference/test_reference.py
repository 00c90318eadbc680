"""Tests of the NumPy program itself: known answers, and every gradient against finite differences.

In tests/interop: python3 -m unittest reference.test_reference
"""
import os
import tempfile
import unittest

import numpy as np

from . import data, job, layers, model, philox, training, weights

PROBE = 1e-6
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")


def layer(class_name, **config):
    return {"class_name": class_name, "config": config}


def build(shape, *entries):
    first = layer("InputLayer", batch_shape=[None, *shape])
    built = model.Model({"class_name": "Sequential", "config": {"layers": [first, *entries]}}, shape)
    built.initialise(3)
    return built


def dense(units, activation="linear"):
    return layer("Dense", units=units, activation=activation)


def conv(filters, **config):
    return layer("Conv2D", filters=filters, **{"kernel_size": [3, 3], **config})


class Philox(unittest.TestCase):
    def test_gives_the_published_answers(self):
        self.assertEqual(list(philox.block((0, 0), 0)[0]), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
        ones = philox.block((2**32 - 1, 2**32 - 1), 2**64 - 1, 2**64 - 1)[0]
        self.assertEqual(list(ones), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD])

    def test_a_long_stream_begins_like_a_short_one(self):
        key = philox.stream(5, philox.INIT, 2)
        np.testing.assert_array_equal(philox.words(key, 1000)[:7], philox.words(key, 7))


class Data(unittest.TestCase):
    def test_the_order_is_a_permutation(self):
        for n in (1, 2, 3, 4, 5, 63, 64, 65, 1000):
            self.assertEqual(sorted(data.permutation(n, 7, 2, np.arange(n))), list(range(n)))

    def test_an_epoch_reads_every_sample_once(self):
        walk = data.Walk(100, 16, seed=4)
        for epoch in range(3):
            steps = range(epoch * walk.steps_per_epoch, (epoch + 1) * walk.steps_per_epoch)
            self.assertEqual(sorted(np.concatenate([walk.indices(s) for s in steps])), list(range(100)))

    def test_idx_files_come_back(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("u1", "i1", "i2", "i4", "f4", "f8"):
                for suffix in ("", ".gz"):
                    array = np.arange(24).reshape(2, 3, 4).astype(kind)
                    path = os.path.join(folder, kind + suffix)
                    data.write_idx(path, array)
                    np.testing.assert_array_equal(data.read_idx(path), array)


class Weights(unittest.TestCase):
    def test_safetensors_come_back_and_a_torn_file_is_refused(self):
        tensors = {"b": np.arange(6, dtype="f4").reshape(2, 3), "a": np.float32([7])}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "w.safetensors")
            weights.write(path, tensors)
            back = weights.read(path)
            self.assertEqual(list(back), ["b", "a"])
            np.testing.assert_array_equal(back["b"], tensors["b"])
            with open(path, "r+b") as file:
                file.truncate(os.path.getsize(path) - 4)
            with self.assertRaises(ValueError):
                weights.read(path)


class Layers(unittest.TestCase):
    def test_max_pooling_sends_ties_to_the_first(self):
        pool = layers.MaxPooling2D(layers.Windows((2, 2), (2, 2), (2, 2), "valid"))
        pool.forward(np.ones((1, 2, 2, 1)), None)
        np.testing.assert_array_equal(pool.backward(np.ones((1, 1, 1, 1))).ravel(), [1, 0, 0, 0])

    def test_global_max_pooling_splits_ties(self):
        pool = layers.GlobalMaxPooling2D(False)
        pool.forward(np.array([1.0, 3, 3, 0]).reshape(1, 2, 2, 1), None)
        np.testing.assert_array_equal(pool.backward(np.ones((1, 1))).ravel(), [0, 0.5, 0.5, 0])

    def test_average_pooling_does_not_count_the_padding(self):
        pool = layers.AveragePooling2D(layers.Windows((3, 3), (2, 2), (2, 2), "same"))
        np.testing.assert_array_equal(pool.forward(np.ones((1, 3, 3, 1)), None).ravel(), np.ones(4))

    def test_dropout_keeps_the_mean_and_depends_on_rows_by_number(self):
        drop = layers.Dropout(0.25, 1)
        x = np.ones((500, 33))
        y = drop.forward(x, (0, 9))
        self.assertAlmostEqual(y.mean(), 1, delta=0.02)
        self.assertAlmostEqual((y == 0).mean(), 0.25, delta=0.01)
        np.testing.assert_array_equal(drop.forward(x[:10], (0, 9)), y[:10])
        np.testing.assert_array_equal(drop.forward(x, None), x)

    def test_initial_weights_fill_their_bounds(self):
        built = build((300,), dense(200))
        kernel, bias = (v.value for v in built.variables)
        bound = np.sqrt(6 / 500)
        self.assertTrue(0.99 * bound < np.abs(kernel).max() <= bound)
        self.assertAlmostEqual(kernel.std(), bound / np.sqrt(3), delta=0.001)
        self.assertFalse(bias.any())


class Gradients(unittest.TestCase):
    """The gradient of the batch's mean loss, each variable's in a few elements."""

    def check(self, built, loss, labels, shape):
        rng = np.random.default_rng(1)
        x, loss = rng.normal(size=(5, *shape)), training.Loss(loss)
        for v in built.variables:
            v.value = v.value + rng.normal(size=v.shape) * 0.05

        def value():
            prediction, last = built.forward(x, (2, 6))
            return loss(labels, prediction, last)[0].mean()

        prediction, last = built.forward(x, (2, 6))
        _, gradient, of_last = loss(labels, prediction, last)
        gradients = built.backward(gradient / len(x), of_last)
        self.assertEqual(len(gradients), len(built.variables))
        for v, g in zip(built.variables, gradients):
            flat = v.value.reshape(-1)
            for i in rng.integers(0, flat.size, 6):
                keep, sides = flat[i], []
                for sign in (1, -1):
                    flat[i] = keep + sign * PROBE
                    sides.append(value())
                flat[i] = keep
                slope = (sides[0] - sides[1]) / (2 * PROBE)
                self.assertAlmostEqual(slope, g.reshape(-1)[i], delta=1e-7 + 1e-5 * abs(slope), msg=v.name)

    CLASSES = np.array([0.0, 2, 1, 3, 3])
    LOGITS = {"class_name": "SparseCategoricalCrossentropy", "config": {"from_logits": True}}

    def test_convolutions_and_pools(self):
        for padding in ("valid", "same"):
            for pool in ("MaxPooling2D", "AveragePooling2D"):
                built = build(
                    (9, 8, 2),
                    conv(3, padding=padding, activation="tanh"),
                    layer(pool, pool_size=[3, 2], strides=[2, 2], padding=padding),
                    conv(4, kernel_size=[2, 2], padding="same", strides=[2, 1], use_bias=False),
                    layer("Flatten"),
                    dense(4),
                )
                self.check(built, self.LOGITS, self.CLASSES, (9, 8, 2))

    def test_global_pools_reshape_rescaling_and_dropout(self):
        for pool in ("GlobalMaxPooling2D", "GlobalAveragePooling2D"):
            built = build(
                (6, 6),
                layer("Rescaling", scale=0.5, offset=0.1),
                layer("Reshape", target_shape=[6, 6, -1]),
                conv(5, dilation_rate=[2, 1], activation="relu"),
                layer("Dropout", rate=0.3),
                layer(pool),
                dense(4),
            )
            self.check(built, self.LOGITS, self.CLASSES, (6, 6))

    def test_activations(self):
        for name in layers.ACTIVATIONS:
            self.check(build((7,), dense(6, name), dense(4)), self.LOGITS, self.CLASSES, (7,))
        self.check(build((7,), dense(6, "softmax"), dense(4)), self.LOGITS, self.CLASSES, (7,))

    def test_losses(self):
        hot = np.eye(4)[self.CLASSES.astype(int)]
        smooth = {"from_logits": False, "label_smoothing": 0.1}
        for activation in ("softmax", "sigmoid"):
            for loss in ("sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy", "mse"):
                labels = self.CLASSES if loss.startswith("sparse") else hot
                self.check(build((7,), dense(4, activation)), loss, labels, (7,))
            for loss in ("CategoricalCrossentropy", "BinaryCrossentropy"):
                self.check(build((7,), dense(4, activation)), {"class_name": loss, "config": smooth}, hot, (7,))
        for loss in ("CategoricalCrossentropy", "BinaryCrossentropy"):
            config = {"from_logits": True, "label_smoothing": 0.1}
            self.check(build((7,), dense(4)), {"class_name": loss, "config": config}, hot, (7,))


class Optimizers(unittest.TestCase):
    """The first step from a weight of 1 and a gradient of 0.5, by hand."""

    def step(self, name, **config):
        optimizer = training.Optimizer({"class_name": name, "config": config})
        variable = layers.Variable("w", (1,), "zeros")
        variable.value = np.ones(1)
        optimizer.apply([variable], [np.full(1, 0.5)])
        return float(variable.value[0])

    def test_first_steps(self):
        self.assertAlmostEqual(self.step("SGD", learning_rate=0.1), 0.95)
        self.assertAlmostEqual(self.step("SGD", learning_rate=0.1, momentum=0.9), 0.95)
        self.assertAlmostEqual(self.step("SGD", learning_rate=0.1, momentum=0.9, nesterov=True), 0.905)
        self.assertAlmostEqual(self.step("Adam", learning_rate=0.1), 0.9, places=5)
        self.assertAlmostEqual(self.step("AdamW", learning_rate=0.1), 0.9 - 0.0004, places=5)
        self.assertAlmostEqual(self.step("Adagrad", learning_rate=0.1), 1 - 0.05 / np.sqrt(0.35), places=6)
        self.assertAlmostEqual(self.step("RMSprop", learning_rate=0.1), 1 - 0.05 / np.sqrt(0.025), places=5)
        linear = 0.5 - (np.sqrt(0.35) - np.sqrt(0.1)) / 0.1
        self.assertAlmostEqual(self.step("Ftrl", learning_rate=0.1), -linear / (np.sqrt(0.35) / 0.1))

    def test_clipping(self):
        self.assertAlmostEqual(self.step("SGD", learning_rate=1, clipnorm=0.1), 0.9)
        self.assertAlmostEqual(self.step("SGD", learning_rate=1, global_clipnorm=0.2), 0.8)
        self.assertAlmostEqual(self.step("SGD", learning_rate=1, clipvalue=0.3), 0.7)
        self.assertAlmostEqual(self.step("SGD", learning_rate=1, clipnorm=5), 0.5)


class Examples(unittest.TestCase):
    PARAMETERS = {
        "examples/fashion_mnist": 56714,
        "examples/mnist_cnn": 650,
        "examples/mlp512": 669706,
        "examples/mlp4096": 20037642,
    }

    def test_every_example_can_be_read_and_has_its_size(self):
        others = {"README.md", "chaos"}  # chaos: scenarios, which bring no job of their own
        folders = {"examples/" + name for name in os.listdir(os.path.join(ROOT, "examples")) if name not in others}
        self.assertEqual(folders, set(self.PARAMETERS))
        for name, parameters in self.PARAMETERS.items():
            example = job.Job(os.path.join(ROOT, name, "job.json"))
            built = example.model((28, 28))
            self.assertEqual(sum(int(np.prod(v.shape)) for v in built.variables), parameters, name)
            self.assertEqual(built.output_shape, (10,))
