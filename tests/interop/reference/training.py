"""Losses, metrics and optimizers as Keras defines them, and the loop over steps."""
import numpy as np

from .layers import sigmoid, softmax
from .model import _snake

EPSILON = 1e-7  # Keras's backend.epsilon(): probabilities are kept this far from 0 and 1


def _named(value):
    """(snake name, config) of a name or {class_name, config}."""
    if isinstance(value, str):
        return _snake(value), {}
    return _snake(value["class_name"]), value.get("config") or {}


# ---- losses: the value per sample, and its gradient with respect to what it was taken from


class Loss:
    LAST = {
        "sparse_categorical_crossentropy": "softmax",
        "categorical_crossentropy": "softmax",
        "binary_crossentropy": "sigmoid",
    }

    def __init__(self, description):
        self.name, config = _named(description)
        self.from_logits = config.get("from_logits", False)
        self.smoothing = config.get("label_smoothing", 0.0)
        if not hasattr(self, "_" + self.name):
            raise ValueError(f"loss {self.name} is not known here")

    def __call__(self, labels, prediction, last=(None, None)):
        """`last`: the model's last activation, softmax or sigmoid, and what it read: a loss of its probabilities is
        taken from there. Returns (values of shape (batch,), gradient, whether that is the gradient of what it read)."""
        activation, logits = last
        from_last = not self.from_logits and activation is not None and self.LAST.get(self.name) == activation
        x = logits if from_last else prediction
        values, gradient = getattr(self, "_" + self.name)(labels, x, from_last or self.from_logits)
        per_sample = values.reshape(len(x), -1)
        return per_sample.mean(axis=1), gradient / per_sample.shape[1], from_last

    def _sparse_categorical_crossentropy(self, labels, x, is_logits):
        classes = labels.reshape(x.shape[:-1]).astype(int)
        return self._crossentropy(np.eye(x.shape[-1])[classes], x, is_logits)

    def _categorical_crossentropy(self, labels, x, is_logits):
        target = labels.reshape(x.shape) * (1 - self.smoothing) + self.smoothing / x.shape[-1]
        return self._crossentropy(target, x, is_logits)

    @staticmethod
    def _crossentropy(target, x, is_logits):
        if is_logits:
            shifted = x - x.max(axis=-1, keepdims=True)
            log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
            return -(target * log_p).sum(axis=-1), np.exp(log_p) * target.sum(axis=-1, keepdims=True) - target
        total = x.sum(axis=-1, keepdims=True)
        p = np.clip(x / total, EPSILON, 1 - EPSILON)
        dp = -target / p * (p == x / total)
        return -(target * np.log(p)).sum(axis=-1), (dp - (dp * x / total).sum(axis=-1, keepdims=True)) / total

    def _binary_crossentropy(self, labels, x, is_logits):
        target = labels.reshape(x.shape) * (1 - self.smoothing) + 0.5 * self.smoothing
        width = x.shape[-1]
        if is_logits:
            values = np.maximum(x, 0) - x * target + np.log1p(np.exp(-np.abs(x)))
            return values.mean(axis=-1), (sigmoid(x) - target) / width
        p = np.clip(x, EPSILON, 1 - EPSILON)
        values = -(target * np.log(p) + (1 - target) * np.log(1 - p))
        return values.mean(axis=-1), ((1 - target) / (1 - p) - target / p) * (p == x) / width

    def _mean_squared_error(self, labels, x, is_logits):
        difference = x - labels.reshape(x.shape)
        return (difference**2).mean(axis=-1), 2 * difference / x.shape[-1]

    _mse = _mean_squared_error


# ---- metrics: the value per sample


class Metric:
    def __init__(self, description):
        self.key, config = _named(description)
        self.name = config.get("name", description if isinstance(description, str) else self.key)
        self.threshold = config.get("threshold", 0.5)
        self.loss = Loss(description) if hasattr(Loss, "_" + self.key) else None

    def __call__(self, labels, prediction):
        kind, batch, width = self.key, len(prediction), prediction.shape[-1]
        if self.loss:
            return self.loss(labels, prediction)[0]
        if kind in ("accuracy", "acc"):
            if width == 1:
                kind = "binary_accuracy"
            else:
                kind = ("sparse_" if labels.size < prediction.size else "") + "categorical_accuracy"
        if kind == "sparse_categorical_accuracy":
            values = prediction.argmax(axis=-1) == labels.reshape(prediction.shape[:-1])
        elif kind == "categorical_accuracy":
            values = prediction.argmax(axis=-1) == labels.reshape(prediction.shape).argmax(axis=-1)
        elif kind == "binary_accuracy":
            values = ((prediction > self.threshold) == labels.reshape(prediction.shape)).mean(axis=-1)
        elif kind in ("mean_absolute_error", "mae"):
            values = np.abs(prediction - labels.reshape(prediction.shape)).mean(axis=-1)
        else:
            raise ValueError(f"metric {kind} is not known here")
        return values.reshape(batch, -1).mean(axis=1)


# ---- optimizers


class Optimizer:
    DEFAULTS = {
        "sgd": {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False},
        "adam": {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "amsgrad": False},
        "adagrad": {"learning_rate": 0.001, "initial_accumulator_value": 0.1, "epsilon": 1e-7},
        "rmsprop": {"learning_rate": 0.001, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False},
        "ftrl": {"learning_rate": 0.001, "learning_rate_power": -0.5, "initial_accumulator_value": 0.1,
                 "l1_regularization_strength": 0.0, "l2_regularization_strength": 0.0,
                 "l2_shrinkage_regularization_strength": 0.0, "beta": 0.0},
    }
    DEFAULTS["adamw"] = {**DEFAULTS["adam"], "weight_decay": 0.004}

    def __init__(self, description):
        named = {"class_name": description} if isinstance(description, str) else description
        name, config = named["class_name"], named.get("config") or {}
        self.kind = name.lower()
        if self.kind not in self.DEFAULTS:
            raise ValueError(f"optimizer {name} is not known here")
        unset = {key: value for key, value in config.items() if value is not None}
        self.config = {**self.DEFAULTS[self.kind], **unset}
        self.iterations, self.slots = 0, {}

    def _slot(self, name, index, like, value=0.0):
        return self.slots.setdefault((name, index), np.full(like.shape, value))

    def clip(self, gradients):
        c = self.config
        if c.get("clipnorm"):
            return [g * (c["clipnorm"] / max(np.linalg.norm(g), c["clipnorm"])) for g in gradients]
        if c.get("global_clipnorm"):
            norm = np.sqrt(sum((g**2).sum() for g in gradients))
            return [g * (c["global_clipnorm"] / max(norm, c["global_clipnorm"])) for g in gradients]
        if c.get("clipvalue"):
            return [np.clip(g, -c["clipvalue"], c["clipvalue"]) for g in gradients]
        return gradients

    def apply(self, variables, gradients):
        self.iterations += 1
        rule = getattr(self, "_" + {"adamw": "adam"}.get(self.kind, self.kind))
        for index, (variable, g) in enumerate(zip(variables, self.clip(gradients))):
            w = variable.value
            w = w - w * (self.config.get("weight_decay") or 0.0) * self.config["learning_rate"]
            variable.value = rule(index, w, g)

    def _sgd(self, index, w, g):
        c = self.config
        if not c["momentum"]:
            return w - c["learning_rate"] * g
        m = self._slot("m", index, w)
        m[...] = c["momentum"] * m - c["learning_rate"] * g
        return w + (c["momentum"] * m - c["learning_rate"] * g if c["nesterov"] else m)

    def _adam(self, index, w, g):
        c, t = self.config, self.iterations
        rate = c["learning_rate"] * np.sqrt(1 - c["beta_2"] ** t) / (1 - c["beta_1"] ** t)
        m, v = self._slot("m", index, w), self._slot("v", index, w)
        m += (g - m) * (1 - c["beta_1"])
        v += (g * g - v) * (1 - c["beta_2"])
        if c["amsgrad"]:
            largest = self._slot("largest", index, w)
            v = np.maximum(largest, v, out=largest)
        return w - rate * m / (np.sqrt(v) + c["epsilon"])

    def _adagrad(self, index, w, g):
        c = self.config
        total = self._slot("total", index, w, c["initial_accumulator_value"])
        total += g * g
        return w - c["learning_rate"] * g / np.sqrt(total + c["epsilon"])

    def _rmsprop(self, index, w, g):
        c = self.config
        v = self._slot("v", index, w)
        v += (g * g - v) * (1 - c["rho"])
        spread = v
        if c["centered"]:
            mean = self._slot("mean", index, w)
            mean += (g - mean) * (1 - c["rho"])
            spread = v - mean * mean
        change = c["learning_rate"] * g / np.sqrt(spread + c["epsilon"])
        if c["momentum"]:
            m = self._slot("m", index, w)
            m[...] = c["momentum"] * m + change
            change = m
        return w - change

    def _ftrl(self, index, w, g):
        c = self.config
        rate, power = c["learning_rate"], -c["learning_rate_power"]
        l1, l2 = c["l1_regularization_strength"], c["l2_regularization_strength"] + c["beta"] / (2 * rate)
        total = self._slot("total", index, w, c["initial_accumulator_value"])
        linear = self._slot("linear", index, w)
        before = total.copy()
        total += g * g
        linear += g + 2 * c["l2_shrinkage_regularization_strength"] * w - (total**power - before**power) / rate * w
        return (np.clip(linear, -l1, l1) - linear) / (total**power / rate + 2 * l2)


# ---- steps


def train_step(model, loss, metrics, optimizer, batch, seed, step):
    """One step on the whole global batch. Returns the sums over its samples: of the loss, and of each metric."""
    x, y = batch
    prediction, last = model.forward(x, (seed, step))
    values, gradient, of_logits = loss(y, prediction, last)
    gradients = model.backward(gradient / len(x), of_logits)
    optimizer.apply(model.variables, gradients)
    return np.array([values.sum(), *(m(y, prediction).sum() for m in metrics)])


def evaluate(model, loss, metrics, dataset, batch_size=250):
    """The means over a data set: of the loss, and of each metric."""
    sums = np.zeros(1 + len(metrics))
    for first in range(0, len(dataset), batch_size):
        x, y = dataset.gather(np.arange(first, min(first + batch_size, len(dataset))))
        prediction, last = model.forward(x)
        sums += [loss(y, prediction, last)[0].sum(), *(m(y, prediction).sum() for m in metrics)]
    return sums / len(dataset)
