#!/usr/bin/python3
"""Writes tests/unit/model/fixtures: what Keras itself says of models and of compile's arguments.

usage: keras_fixtures.py keras|tf_keras FOLDER
Needs TensorFlow and the named package: keras for Keras 3, tf_keras for Keras 2. The tests need neither: they read the
files, each of which begins with the version that wrote it. A line is a case: a model with its variables, and its
outputs for some inputs and weights; an initializer with mean and deviation of what it gives; or compile's arguments,
with the figures that evaluate() reports under their names.
"""
import importlib
import json
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
import numpy as np  # pylint: disable=wrong-import-position

ACTIVATIONS = ["linear", "relu", "sigmoid", "tanh", "softmax", "elu", "selu", "gelu", "softplus", "softsign", "silu",
               "swish", "exponential", "leaky_relu", "relu6"]
ROWS = 3


def numbers(array):
    """Floats short enough to read, exact enough to compare."""
    return [float(f"{value:.7g}") for value in np.asarray(array, "float64").ravel()]


class Writer:
    def __init__(self, package):
        self.keras = importlib.import_module(package)
        self.three = package == "keras"
        self.random = np.random.default_rng(3)
        self.lines = []

    def add(self, **case):
        self.lines.append(json.dumps(case))

    def fresh(self):
        """Automatic names begin anew."""
        self.keras.backend.clear_session()

    # ---- models

    def model(self, name, shape, make, built=False):
        """make() gives the layers; with `built` there is no Input, but build() is called."""
        self.fresh()
        layers = self.keras.layers
        model = self.keras.Sequential(make() if built else [layers.Input(shape), *make()])
        if built:
            model.build((None, *shape))
        weights = [np.round(self.random.uniform(-1, 1, w.shape), 2) for w in model.get_weights()]
        model.set_weights(weights)
        x = np.round(self.random.uniform(-2, 2, (ROWS, *shape)), 2).astype("float32")
        y = np.asarray(model(x, training=False))
        variables = [[f"{layer.name}/{w.name.split('/')[-1].split(':')[0]}", list(w.shape)]
                     for layer in model.layers for w in layer.weights]
        self.add(name=name, model=json.loads(model.to_json()), variables=variables, parameters=model.count_params(),
                 output=list(y.shape[1:]), x=numbers(x), weights=[numbers(w) for w in weights], y=numbers(y))

    def layer_models(self):
        k = self.keras.layers
        old, image = {} if self.three else {"alpha": 0.1}, (6, 5, 2)
        leaky = {"negative_slope": 0.1} if self.three else old
        self.model("conv2d", image, lambda: [k.Conv2D(2, 3, activation="relu"), k.Conv2D(1, (1, 2), use_bias=False)])
        self.model("conv2d same", image, lambda: [k.Conv2D(2, (3, 2), strides=2, padding="same", name="first")])
        self.model("max pooling", image, lambda: [k.Conv2D(2, 1), k.MaxPooling2D(),
                                                  k.MaxPooling2D((2, 1), strides=1, padding="same")])
        self.model("average pooling", image, lambda: [k.Conv2D(2, 1), k.AveragePooling2D((3, 2), padding="same"),
                                                      k.AveragePooling2D(2, strides=(1, 2))])
        self.model("global max", image, lambda: [k.Conv2D(3, 1), k.GlobalMaxPooling2D()])
        self.model("global average", image, lambda: [k.Conv2D(3, 1), k.GlobalAveragePooling2D(keepdims=True)])
        self.model("shapes", (4, 3), lambda: [k.Reshape((2, 3, 2)), k.Flatten(), k.Reshape((-1, 4)), k.Dense(3),
                                              k.Flatten(), k.Dense(2)])
        self.model("dropout", (4,), lambda: [k.Dropout(0.5), k.Dense(3), k.Dropout(0.25, seed=7)])
        self.model("rescaling", (4,), lambda: [k.Rescaling(1 / 255), k.Rescaling(300, offset=-0.5), k.Dense(3)])
        self.model("activation layers", (5,), lambda: [
            k.Dense(8), k.Activation("elu"), k.ReLU(), k.Dense(8), k.ReLU(6, 0.1, 0.5), k.Dense(8), k.LeakyReLU(),
            k.Dense(8), k.LeakyReLU(**leaky), k.Dense(8), k.ELU(), k.Dense(8), k.ELU(alpha=0.7), k.Dense(8),
            k.Softmax()])
        self.model("built", (4,), lambda: [k.Dense(3, name="a", kernel_regularizer=None), k.Dense(2)], built=True)
        self.model("objects", (4,), lambda: [k.Dense(3, activation=k.ReLU(1)), k.Activation(k.LeakyReLU()),
                                             k.Dense(2, activation=k.Softmax())])
        if not self.three:
            self.model("input_shape", (4,), lambda: [k.Dense(3, input_shape=(4,)), k.Dense(2)], built=True)

    def activation_models(self):
        known = self.keras.activations
        for name in ACTIVATIONS:
            if hasattr(known, name):
                self.model(name, (5,), lambda name=name: [self.keras.layers.Dense(4, activation=name)])
                self.model(f"{name}()", (5,), lambda name=name: [
                    self.keras.layers.Dense(4), self.keras.layers.Activation(getattr(known, name))])

    def initializers(self):
        of = self.keras.initializers
        given = [of.GlorotUniform(), of.GlorotNormal(seed=3), of.HeUniform(), of.HeNormal(), of.LecunUniform(),
                 of.LecunNormal(), of.VarianceScaling(), of.VarianceScaling(2.0, "fan_out", "uniform"),
                 of.VarianceScaling(0.5, "fan_avg", "untruncated_normal", seed=1), of.RandomUniform(),
                 of.RandomUniform(-1, 3), of.RandomNormal(), of.RandomNormal(1.0, 0.5), of.TruncatedNormal(),
                 of.TruncatedNormal(mean=-1.0, stddev=2.0), of.Zeros(), of.Ones(), of.Constant(0.25)]
        names = ["glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform", "lecun_normal",
                 "random_uniform", "random_normal", "truncated_normal", "zeros", "ones"]
        for initializer in [*given, *names]:
            self.fresh()
            layer = self.keras.layers.Dense(300, kernel_initializer=initializer, use_bias=False)
            model = self.keras.Sequential([self.keras.layers.Input((400,)), layer])
            values = np.asarray(model.get_weights()[0], "float64")
            self.add(name=f"initializer {initializer if isinstance(initializer, str) else type(initializer).__name__}",
                     model=json.loads(model.to_json()), mean=float(f"{values.mean():.6g}"),
                     deviation=float(f"{values.std():.6g}"))

    # ---- compile

    def compiled(self, name, width, loss, metrics, labels, probabilities=True):
        """The outputs are the inputs: the model's only layer has the unit matrix."""
        self.fresh()
        layers = self.keras.layers
        model = self.keras.Sequential([layers.Input((width,)), layers.Dense(width, use_bias=False)])
        model.set_weights([np.eye(width)])
        x = np.round(self.random.uniform(0.01, 0.99, (5, width)), 2).astype("float32")
        if probabilities and width > 1:
            x = np.round(x / x.sum(1, keepdims=True), 6)
        optimizer = self.keras.optimizers.Adam(0.002)
        model.compile(optimizer, loss, metrics=metrics)
        figures = model.evaluate(x, labels, batch_size=5, verbose=0, return_dict=True)
        written = {"optimizer": self.keras.optimizers.serialize(optimizer), "loss": self.serialised("losses", loss),
                   "metrics": [self.serialised("metrics", metric) for metric in metrics]}
        self.add(name=name, compile=written, model=json.loads(model.to_json()), x=numbers(x), y=numbers(labels),
                 labels=list(labels.shape[1:]), figures=figures)

    def serialised(self, family, value):
        return value if isinstance(value, str) else getattr(self.keras, family).serialize(value)

    def compile_cases(self):
        loss, metric = self.keras.losses, self.keras.metrics
        classes = np.array([0, 3, 1, 1, 2])
        one_hot, bits = np.eye(4)[classes], np.array([[0.], [1.], [1.], [0.], [1.]])
        soft = np.round(self.random.uniform(0, 1, (5, 4)), 2)
        sparse, dense, binary = (getattr(metric, name) for name in (
            "SparseCategoricalCrossentropy", "CategoricalCrossentropy", "BinaryCrossentropy"))
        for probabilities in (True, False):
            kind = "probabilities" if probabilities else "any numbers"
            self.compiled(f"classes, {kind}", 4, loss.SparseCategoricalCrossentropy(from_logits=not probabilities), [
                "accuracy", "sparse_categorical_crossentropy", sparse(from_logits=True, name="logits"),
                metric.SparseCategoricalAccuracy()], classes, probabilities)
            self.compiled(f"one-hot, {kind}", 4, loss.CategoricalCrossentropy(not probabilities, 0.1), [
                "acc", "categorical_crossentropy", dense(from_logits=True, label_smoothing=0.2, name="logits"),
                "mse", "mae", metric.CategoricalAccuracy()], one_hot, probabilities)
        self.compiled("names", 4, "sparse_categorical_crossentropy", ["acc", "sparse_categorical_accuracy", sparse()],
                      classes)
        self.compiled("one-hot names", 4, "categorical_crossentropy", ["accuracy", "categorical_accuracy", dense()],
                      one_hot)
        self.compiled("numbers", 4, loss.MeanSquaredError(), ["mean_squared_error", "mean_absolute_error", "MSE", "MAE",
                                                              metric.MeanAbsoluteError(name="distance")], soft)
        self.compiled("number objects", 4, "mse", [metric.MeanSquaredError(), metric.MeanAbsoluteError()], soft)
        self.compiled("bits", 1, loss.BinaryCrossentropy(), [
            "accuracy", "binary_crossentropy", binary(from_logits=True, label_smoothing=0.1, name="logits"),
            metric.BinaryAccuracy(threshold=0.3), "mse"], bits)
        self.compiled("bit names", 1, "binary_crossentropy", [
            "acc", *(["bce"] if self.three else []), "binary_accuracy", binary()], bits)
        self.compiled("several bits", 4, loss.BinaryCrossentropy(from_logits=True, label_smoothing=0.3), [
            "binary_accuracy", binary(), "mae"], np.round(soft))

    def optimizers(self):
        of = self.keras.optimizers
        for make in (of.SGD, of.Adam, of.AdamW, of.Adagrad, of.RMSprop, of.Ftrl):
            self.add(name=f"{make.__name__} by itself", optimizer=of.serialize(make()), class_name=make.__name__)
        for optimizer in (of.SGD(0.1, momentum=0.9, nesterov=True, clipvalue=0.5), of.Adam(0.01, clipnorm=1.0),
                          of.Adam(amsgrad=True, epsilon=1e-5), of.AdamW(weight_decay=0.01, global_clipnorm=2.0),
                          of.Adagrad(0.1, initial_accumulator_value=0.2), of.RMSprop(rho=0.8, centered=True),
                          of.Ftrl(l1_regularization_strength=0.1, beta=0.2)):
            self.add(name=f"{type(optimizer).__name__} with settings", optimizer=of.serialize(optimizer),
                     class_name=type(optimizer).__name__)

    def write(self, folder):
        for part in ("layer_models", "activation_models", "initializers", "compile_cases", "optimizers"):
            getattr(self, part)()
        version = self.keras.__version__
        path = os.path.join(folder, f"keras_{version.split('.')[0]}.json")
        with open(path, "w", encoding="ascii") as file:
            lines = ",\n".join(self.lines)
            file.write(f'{{"written_by": "keras_fixtures.py", "version": "{version}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("keras", "tf_keras"):
        sys.exit(__doc__)
    Writer(sys.argv[1]).write(sys.argv[2])
