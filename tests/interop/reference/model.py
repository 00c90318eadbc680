"""A Keras Sequential model (JSON of Keras 2 or 3) as a row of ops, its initial weights, forward and backward."""
import math
import re
from statistics import NormalDist

import numpy as np

from . import layers, philox


def _pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def _snake(name):
    """As Keras names a layer after its class: Conv2D -> conv2d, MaxPooling2D -> max_pooling2d."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _activation_ops(config):
    activation = config.get("activation") or "linear"
    name = activation if isinstance(activation, str) else activation.get("config", activation.get("class_name"))
    if name == "linear":
        return []
    return [layers.Softmax() if name == "softmax" else layers.Activation(name)]


class _Builder:
    """Turns one layer after the other into ops, and knows the shape of a sample in between."""

    def __init__(self, shape):
        self.shape, self.ops, self.index = tuple(shape), [], 0

    def add(self, class_name, name, config):
        method = getattr(self, "_" + class_name, None)
        if method is None:
            raise ValueError(f"layer {self.index} ({name}): {class_name} is not known here")
        self.name = name
        method(config)
        self.index += 1

    def _weighted(self, op, shape, config):
        use_bias = config.get("use_bias", True)
        kernel = layers.Variable(self.name + "/kernel", shape, config.get("kernel_initializer", "glorot_uniform"))
        bias = layers.Variable(self.name + "/bias", shape[-1:], config.get("bias_initializer", "zeros"))
        op.variables = [kernel, bias] if use_bias else [kernel]
        self.ops += [op, *_activation_ops(config)]

    def _windows(self, kernel, config, strides=None, dilation=(1, 1)):
        if config.get("data_format") == "channels_first":
            raise ValueError(f"layer {self.index} ({self.name}): channels_first is not known here")
        strides = _pair(config.get("strides") or strides or (1, 1))
        windows = layers.Windows(self.shape[:2], kernel, strides, config.get("padding", "valid"), _pair(dilation))
        self.shape = (*windows.out, self.shape[2])
        return windows

    def _Dense(self, config):
        shape = (self.shape[-1], config["units"])
        self.shape = (*self.shape[:-1], config["units"])
        self._weighted(layers.Dense(), shape, config)

    def _Conv2D(self, config):
        kernel, channels = _pair(config["kernel_size"]), self.shape[2]
        op = layers.Conv2D(self._windows(kernel, config, dilation=config.get("dilation_rate", (1, 1))))
        op.first = not any(before.variables for before in self.ops)
        self.shape = (*self.shape[:2], config["filters"])
        self._weighted(op, (*kernel, channels, config["filters"]), config)

    def _MaxPooling2D(self, config):
        size = _pair(config.get("pool_size", 2))
        self.ops.append(layers.MaxPooling2D(self._windows(size, config, size)))

    def _AveragePooling2D(self, config):
        size = _pair(config.get("pool_size", 2))
        self.ops.append(layers.AveragePooling2D(self._windows(size, config, size)))

    def _global(self, op, config):
        keepdims = config.get("keepdims", False)
        self.shape = (1, 1, self.shape[2]) if keepdims else self.shape[2:]
        self.ops.append(op(keepdims))

    def _GlobalMaxPooling2D(self, config):
        self._global(layers.GlobalMaxPooling2D, config)

    def _GlobalAveragePooling2D(self, config):
        self._global(layers.GlobalAveragePooling2D, config)

    def _Flatten(self, config):
        self.shape = (math.prod(self.shape),)
        self.ops.append(layers.Reshape(self.shape))

    def _Reshape(self, config):
        target = list(config["target_shape"])
        if -1 in target:
            target[target.index(-1)] = -math.prod(self.shape) // math.prod(target)
        self.shape = tuple(target)
        self.ops.append(layers.Reshape(target))

    def _Activation(self, config):
        self.ops += _activation_ops(config)

    def _Softmax(self, config):
        self.ops.append(layers.Softmax())

    def _Rescaling(self, config):
        self.ops.append(layers.Rescaling(config["scale"], config.get("offset", 0.0)))

    def _Dropout(self, config):
        self.ops.append(layers.Dropout(config["rate"], self.index))

    def _InputLayer(self, config):
        pass


class Model:
    def __init__(self, description, input_shape):
        config = description["config"]
        entries = config["layers"] if isinstance(config, dict) else config
        self.input_shape = self._input(entries, config, input_shape)
        builder, used = _Builder(self.input_shape), {}
        for entry in entries:
            base = _snake(entry["class_name"])
            name = entry["config"].get("name") or base + (f"_{used[base]}" if used.get(base) else "")
            used[base] = used.get(base, 0) + 1
            if entry["class_name"] == "InputLayer":
                continue  # has no number of its own
            builder.add(entry["class_name"], name, entry["config"])
        self.output_shape, self.ops = builder.shape, builder.ops
        self.variables = [v for op in self.ops for v in op.variables]

    @staticmethod
    def _input(entries, config, data_shape):
        """The shape of a sample as the model wants it; the data's, if the model does not say."""
        first = entries[0].get("config", {})
        shape = first.get("batch_shape") or first.get("batch_input_shape")
        if not shape and isinstance(config, dict):
            shape = config.get("build_input_shape") or config.get("build_config", {}).get("input_shape")
        return tuple(shape[1:]) if shape else tuple(data_shape)

    def initialise(self, seed):
        for number, variable in enumerate(self.variables):
            variable.value = initial(variable, seed, number).astype(np.float64)

    def forward(self, x, train=None):
        """`train`: (seed, step), or None. Returns the prediction and (name, input) of a last softmax or sigmoid."""
        x = x.reshape(len(x), *self.input_shape)
        for op in self.ops:
            read, x = x, op.forward(x, train)
        name = getattr(self.ops[-1], "name", None)
        return x, (name, read) if name in ("softmax", "sigmoid") else (None, None)

    def backward(self, dy, from_logits):
        """The gradients of all variables, in order. `from_logits`: dy is that of the last op's input."""
        ops = self.ops[:-1] if from_logits else self.ops
        for op in reversed(ops):
            dy = op.backward(dy)
            if dy is None:
                break
        return [g for op in self.ops for g in op.gradients]


# ---- initial weights

_SCALED = {
    "glorot_uniform": (1.0, "fan_avg", "uniform"),
    "glorot_normal": (1.0, "fan_avg", "truncated_normal"),
    "he_uniform": (2.0, "fan_in", "uniform"),
    "he_normal": (2.0, "fan_in", "truncated_normal"),
    "lecun_uniform": (1.0, "fan_in", "uniform"),
    "lecun_normal": (1.0, "fan_in", "truncated_normal"),
}


def _fans(shape):
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    field = math.prod(shape[:-2])
    return field * shape[-2], field * shape[-1]


def _resolve(initializer, shape):
    """(kind, a, b): bounds, mean and deviation, or the constant."""
    if isinstance(initializer, dict):
        name, config = _snake(initializer["class_name"]), initializer.get("config") or {}
    else:
        name, config = _snake(initializer), {}
    if name in ("zeros", "ones"):
        return "constant", float(name == "ones"), 0.0
    if name == "constant":
        return "constant", config.get("value", 0.0), 0.0
    if name == "random_uniform":
        return "uniform", config.get("minval", -0.05), config.get("maxval", 0.05)
    if name in ("random_normal", "truncated_normal"):
        return name.replace("random_", ""), config.get("mean", 0.0), config.get("stddev", 0.05)
    if name == "variance_scaling":
        scaling = config.get("scale", 1.0), config.get("mode", "fan_in"), config.get("distribution", "truncated_normal")
    else:
        scaling = _SCALED[name]
    scale, mode, distribution = scaling
    fan_in, fan_out = _fans(shape)
    variance = scale / max(1.0, {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode])
    if distribution == "uniform":
        return "uniform", -math.sqrt(3 * variance), math.sqrt(3 * variance)
    if distribution == "truncated_normal":  # the deviation of what is left when 2 deviations are kept
        return "truncated_normal", 0.0, math.sqrt(variance) / 0.87962566103423978
    return "normal", 0.0, math.sqrt(variance)


_normal_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def initial(variable, seed, number):
    """The fp32 values of a variable before the first step; `number` counts variables over the whole model."""
    kind, a, b = _resolve(variable.initializer, variable.shape)
    count = math.prod(variable.shape)
    a, b = float(np.float32(a)), float(np.float32(b))
    if kind == "constant":
        return np.full(variable.shape, a, np.float32)
    words = philox.words(philox.stream(seed, philox.INIT, number), count)
    if kind == "uniform":
        values = (a + (b - a) * philox.unit(words).astype(np.float64)).astype(np.float32)
        values[values >= np.float32(b)] = a  # rounded up to the open end
    else:
        below_two = NormalDist().cdf(-2) if kind == "truncated_normal" else 0.0
        p = below_two + (words + 0.5) * 2.0**-32 * (1 - 2 * below_two)
        values = (a + b * _normal_quantile(p)).astype(np.float32)
    return values.reshape(variable.shape)
