"""Keras layers in float64: each op has forward(x, train) and backward(dy), which fills op.gradients.

Images are (batch, height, width, channels). Backward belongs to the last forward.
"""
import math

import numpy as np

from . import philox


class Op:
    variables = ()  # of Variable
    gradients = ()

    def backward(self, dy):
        raise NotImplementedError


class Variable:
    def __init__(self, name, shape, initializer):
        self.name, self.shape, self.initializer = name, tuple(shape), initializer
        self.value = None


# ---- activations: name -> (f(x), f'(x, y))

_erf = np.vectorize(math.erf, otypes=[float])
SELU_SCALE, SELU_ALPHA = 1.05070098735548049342, 1.67326324235437728481


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _leaky(slope):
    return lambda x: np.where(x > 0, x, slope * x), lambda x, y: np.where(x > 0, 1.0, slope)


def _elu(alpha, scale=1.0):
    return (
        lambda x: scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
        lambda x, y: scale * np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0))),
    )


def _gelu(approximate):
    if not approximate:
        return (
            lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
            lambda x, y: 0.5 * (1 + _erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
        )
    root = math.sqrt(2 / math.pi)

    def slope(x, y):
        t = np.tanh(root * (x + 0.044715 * x**3))
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)

    return lambda x: 0.5 * x * (1 + np.tanh(root * (x + 0.044715 * x**3))), slope


ACTIVATIONS = {
    "linear": (lambda x: x, lambda x, y: np.ones_like(x)),
    "relu": (lambda x: np.maximum(x, 0), lambda x, y: (x > 0) * 1.0),
    "relu6": (lambda x: np.clip(x, 0, 6), lambda x, y: ((x > 0) & (x < 6)) * 1.0),
    "leaky_relu": _leaky(0.2),
    "sigmoid": (sigmoid, lambda x, y: y * (1 - y)),
    "tanh": (np.tanh, lambda x, y: 1 - y * y),
    "elu": _elu(1.0),
    "selu": _elu(SELU_ALPHA, SELU_SCALE),
    "gelu": _gelu(False),
    "softplus": (lambda x: np.logaddexp(0, x), lambda x, y: sigmoid(x)),
    "softsign": (lambda x: x / (1 + np.abs(x)), lambda x, y: 1 / (1 + np.abs(x)) ** 2),
    "silu": (lambda x: x * sigmoid(x), lambda x, y: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    "exponential": (np.exp, lambda x, y: y),
}
ACTIVATIONS["swish"] = ACTIVATIONS["silu"]


class Activation(Op):
    def __init__(self, name, functions=None):
        self.name = name
        self.f, self.slope = functions or ACTIVATIONS[name]

    def forward(self, x, train):
        self.x, self.y = x, self.f(x)
        return self.y

    def backward(self, dy):
        return dy * self.slope(self.x, self.y)


class Softmax(Op):
    name = "softmax"

    def forward(self, x, train):
        self.y = softmax(x)
        return self.y

    def backward(self, dy):
        return self.y * (dy - (dy * self.y).sum(axis=-1, keepdims=True))


# ---- layers with weights


def product(a, b):
    """a @ b: Debian's plain BLAS is twice as fast without transposed arguments."""
    return np.ascontiguousarray(a) @ np.ascontiguousarray(b)


class Dense(Op):
    def forward(self, x, train):
        self.x = x
        y = x @ self.variables[0].value
        return y + self.variables[1].value if len(self.variables) > 1 else y

    def backward(self, dy):
        flat_x, flat_dy = self.x.reshape(-1, self.x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.gradients = [product(flat_x.T, flat_dy), flat_dy.sum(axis=0)][: len(self.variables)]
        return product(dy, self.variables[0].value.T)


class Windows:
    """The windows that a kernel sees: output sizes and TensorFlow's padding, and scattering back."""

    def __init__(self, size, kernel, strides, padding, dilation=(1, 1)):
        self.kernel, self.strides, self.dilation, self.size = kernel, strides, dilation, size
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        if padding == "same":
            self.out = [-(-n // s) for n, s in zip(size, strides)]
            total = [max((o - 1) * s + r - n, 0) for o, s, r, n in zip(self.out, strides, reach, size)]
        else:
            self.out = [(n - r) // s + 1 for n, r, s in zip(size, reach, strides)]
            total = [0, 0]
        self.pads = [(t // 2, t - t // 2) for t in total]

    def places(self):
        """For each place in the kernel, the slices of the padded image that its windows touch."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                rows, columns = (
                    slice(at * d, at * d + (o - 1) * s + 1, s)
                    for at, d, o, s in zip((i, j), self.dilation, self.out, self.strides)
                )
                yield rows, columns

    def take(self, x, fill=0.0):
        """(batch, out height, out width, places, channels)"""
        padded = np.pad(x, [(0, 0), *self.pads, (0, 0)], constant_values=fill)
        return np.stack([padded[:, r, c] for r, c in self.places()], axis=3)

    def put(self, windows):
        """Adds windows up where they overlap: the transpose of take."""
        (top, bottom), (left, right) = self.pads
        shape = (self.size[0] + top + bottom, self.size[1] + left + right)
        padded = np.zeros((windows.shape[0], *shape, windows.shape[4]))
        for place, (r, c) in enumerate(self.places()):
            padded[:, r, c] += windows[:, :, :, place]
        return padded[:, top : top + self.size[0], left : left + self.size[1]]


class Conv2D(Op):
    first = False  # nothing before it wants a gradient

    def __init__(self, windows):
        self.windows = windows

    def forward(self, x, train):
        taken = self.windows.take(x)
        self.columns = taken.reshape(-1, taken.shape[3] * taken.shape[4])
        self.shape = taken.shape
        kernel = self.variables[0].value
        y = (self.columns @ kernel.reshape(-1, kernel.shape[3])).reshape(*taken.shape[:3], -1)
        return y + self.variables[1].value if len(self.variables) > 1 else y

    def backward(self, dy):
        kernel, flat_dy = self.variables[0].value, dy.reshape(-1, dy.shape[3])
        self.gradients = [product(self.columns.T, flat_dy).reshape(kernel.shape), flat_dy.sum(axis=0)]
        self.gradients = self.gradients[: len(self.variables)]
        if self.first:
            return None
        return self.windows.put(product(flat_dy, kernel.reshape(-1, kernel.shape[3]).T).reshape(self.shape))


# ---- layers without weights


class MaxPooling2D(Op):
    def __init__(self, windows):
        self.windows = windows

    def forward(self, x, train):
        taken = self.windows.take(x, -np.inf)
        self.first_maximum = taken.argmax(axis=3)[:, :, :, None]
        self.shape = taken.shape
        return np.take_along_axis(taken, self.first_maximum, axis=3)[:, :, :, 0]

    def backward(self, dy):
        windows = np.zeros(self.shape)
        np.put_along_axis(windows, self.first_maximum, dy[:, :, :, None], axis=3)
        return self.windows.put(windows)


class AveragePooling2D(Op):
    """What lies in the padding does not count."""

    def __init__(self, windows):
        self.windows = windows
        self.counts = windows.take(np.ones((1, *windows.size, 1))).sum(axis=3)

    def forward(self, x, train):
        return self.windows.take(x).sum(axis=3) / self.counts

    def backward(self, dy):
        places = self.windows.kernel[0] * self.windows.kernel[1]
        return self.windows.put(np.repeat((dy / self.counts)[:, :, :, None], places, axis=3))


class GlobalMaxPooling2D(Op):
    """The gradient is split evenly among equal maxima."""

    def __init__(self, keepdims):
        self.keepdims = keepdims

    def forward(self, x, train):
        y = x.max(axis=(1, 2), keepdims=True)
        self.maxima = x == y
        return y if self.keepdims else y[:, 0, 0]

    def backward(self, dy):
        return self.maxima * (dy.reshape(len(dy), 1, 1, -1) / self.maxima.sum(axis=(1, 2), keepdims=True))


class GlobalAveragePooling2D(Op):
    def __init__(self, keepdims):
        self.keepdims = keepdims

    def forward(self, x, train):
        self.shape = x.shape
        return x.mean(axis=(1, 2), keepdims=self.keepdims)

    def backward(self, dy):
        return np.broadcast_to(dy.reshape(len(dy), 1, 1, -1) / (self.shape[1] * self.shape[2]), self.shape)


class Reshape(Op):
    def __init__(self, shape):
        self.target = tuple(shape)

    def forward(self, x, train):
        self.shape = x.shape
        return x.reshape(len(x), *self.target)

    def backward(self, dy):
        return dy.reshape(self.shape)


class Rescaling(Op):
    def __init__(self, scale, offset):
        self.scale, self.offset = scale, offset

    def forward(self, x, train):
        return x * self.scale + self.offset

    def backward(self, dy):
        return dy * self.scale


class Dropout(Op):
    """An element stays if its random number is not below the rate. Numbers are keyed by (seed, layer, step), and
    counted by (row of the global batch, element)."""

    def __init__(self, rate, layer):
        self.rate, self.layer = rate, layer

    def forward(self, x, train):
        if train is None or self.rate == 0:
            self.factor = 1.0
            return x
        seed, step = train
        key, elements = philox.stream(seed, philox.DROPOUT, self.layer, step), x[0].size
        blocks = (elements + 3) // 4
        row, block = np.divmod(np.arange(len(x) * blocks), blocks)
        u = philox.unit(philox.block(key, row, block)).reshape(len(x), -1)[:, :elements]
        self.factor = ((u >= np.float32(self.rate)) / (1 - self.rate)).reshape(x.shape)
        return x * self.factor

    def backward(self, dy):
        return dy * self.factor
