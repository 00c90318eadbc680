"""Small jobs for the tests: a folder with model.json, job.json and subsets of Fashion-MNIST."""
import copy
import gzip
import json
import math
import os
import struct

FASHION = "/usr/share/datasets/fashion-mnist"


def layer(class_name, **config):
    return {"module": "keras.layers", "class_name": class_name, "config": config, "registered_name": None}


def sequential(*layers):
    """A Sequential model over 28 x 28 images, as Keras 3 writes it."""
    first = layer("InputLayer", batch_shape=[None, 28, 28], dtype="float32", sparse=False, name="input_layer")
    return {"module": "keras", "class_name": "Sequential", "registered_name": None,
            "config": {"name": "sequential", "trainable": True, "layers": [first, *layers],
                       "build_input_shape": [None, 28, 28]}}


def mlp(width=64, dropout=0.2):
    """784 - width - 10, with Dropout: the random numbers of a step are part of what must be equal."""
    return sequential(
        layer("Flatten", name="flatten"),
        layer("Dense", name="hidden", units=width, activation="relu"),
        layer("Dropout", name="dropout", rate=dropout),
        layer("Dense", name="logits", units=10, activation="linear"))


def endless():
    """Convolutions of which a step takes a minute or more, though they are small in memory."""
    convolutions = [layer("Conv2D", name=f"convolution_{i}", filters=256, kernel_size=[9, 9], padding="same",
                          activation="relu") for i in range(3)]
    return sequential(layer("Reshape", name="reshape", target_shape=[28, 28, 1]), *convolutions,
                      layer("GlobalMaxPooling2D", name="pooling"),
                      layer("Dense", name="logits", units=10, activation="linear"))


def mlp_parameters(width=64):
    return 784 * width + width + width * 10 + 10


def write_idx(path, shape, items):
    """An IDX file of unsigned bytes, not compressed."""
    with open(path, "wb") as file:
        file.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + items)


def write_subset(source, path, count):
    """The first `count` items of a compressed IDX file."""
    with gzip.open(source) as file:
        dims = file.read(4)[3]
        shape = struct.unpack(f">{dims}I", file.read(4 * dims))
        write_idx(path, (count, *shape[1:]), file.read(count * math.prod(shape[1:])))


def write_data(folder, train=2000, validation=500):
    for kind, count in (("train", train), ("t10k", validation)):
        for part in ("images-idx3-ubyte", "labels-idx1-ubyte"):
            write_subset(f"{FASHION}/{kind}-{part}.gz", os.path.join(folder, f"{kind}-{part}"), count)


JOB = {
    "model": "model.json",
    "data": {
        "train": {"format": "idx", "x": "train-images-idx3-ubyte", "y": "train-labels-idx1-ubyte"},
        "validation": {"format": "idx", "x": "t10k-images-idx3-ubyte", "y": "t10k-labels-idx1-ubyte"},
    },
    "compile": {
        "optimizer": {"class_name": "Adam", "config": {"learning_rate": 0.001}},
        "loss": {"class_name": "SparseCategoricalCrossentropy", "config": {"from_logits": True}},
        "metrics": ["accuracy"],
    },
    # 2,000 samples in batches of 64: the last batch of an epoch has 16.
    "fit": {"batch_size": 64, "epochs": 2},
    # Small chunks, so that the small model is spread over all parameter servers.
    "placement": {"chunk_bytes": 16384},
    "cluster": {"start_timeout_s": 20},
}


def merged(base, changes):
    """`base` with the dotted keys of `changes` set; None removes the key."""
    job = copy.deepcopy(base)
    for key, value in changes.items():
        *path, last = key.split(".")
        place = job
        for name in path:
            place = place.setdefault(name, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return job


def write_job(folder, changes=None, model=None, name="job.json"):
    """Writes model and job into the folder (with the data there already); returns the job's path."""
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(model or mlp(), file)
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(merged(JOB, changes or {}), file, indent=1)
    return path
