"""A job file with its defaults, and the objects that it describes."""
import json
import os

from .data import Dataset, Walk
from .model import Model
from .training import Loss, Metric, Optimizer


def _set(job, assignment):
    key, _, text = assignment.partition("=")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    *folders, last = key.split(".")
    for folder in folders:
        job = job.setdefault(folder, {})
    job[last] = value


class Job:
    def __init__(self, path, overrides=(), data_dir=None):
        with open(path) as file:
            self.json = json.load(file)
        for assignment in overrides:
            _set(self.json, assignment)
        self.folder, self.data_dir = os.path.dirname(os.path.abspath(path)), data_dir
        fit, compile_ = self.json.get("fit", {}), self.json["compile"]
        self.seed, self.epochs = self.json.get("seed", 0), fit.get("epochs", 1)
        self.fit = fit
        self.loss = Loss(compile_["loss"])
        self.metrics = [Metric(m) for m in compile_.get("metrics", [])]
        self.optimizer = Optimizer(compile_.get("optimizer", "rmsprop"))

    def data(self, which):
        return Dataset(self.json["data"][which], self.folder, self.data_dir)

    def walk(self, samples):
        fit = self.fit
        return Walk(samples, fit.get("batch_size", 32), fit.get("steps_per_epoch"), fit.get("shuffle", True),
                    fit.get("drop_remainder", False), self.seed)

    def model(self, data_shape):
        description = self.json["model"]
        if isinstance(description, str):
            with open(os.path.join(self.folder, description)) as file:
                description = json.load(file)
        return Model(description, data_shape)
