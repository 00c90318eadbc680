#!/usr/bin/python3
"""Trains a weir job in NumPy and float64, one process, the whole global batch at once, and compares the weights.

usage: reference_train.py JOB [--steps N] [--compare FILE.safetensors] [--tolerance 1e-4] [--weights OUT.safetensors]
                          [--epochs N] [--batch-size N] [--seed S] [--data DIR] [--set KEY=VALUE]... [--validate]
Prints JSON: steps; loss and metrics of the last epoch begun; the largest difference of each variable. Exit 1 if one is
above the tolerance, or if names or shapes differ.
"""
import argparse
import json
import sys
import time

import numpy as np

from reference import training, weights
from reference.job import Job


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("--steps", type=int, help="the whole job if not given; 0: the initial weights")
    parser.add_argument("--compare")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--weights")
    parser.add_argument("--data")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--validate", action="store_true")
    for flag, key in (("--epochs", "fit.epochs"), ("--batch-size", "fit.batch_size"), ("--seed", "seed")):
        parser.add_argument(flag, dest="set", action="append", type=lambda value, key=key: f"{key}={value}")
    return parser.parse_args()


def train(job, model, dataset, steps):
    walk = job.walk(len(dataset))
    steps = job.epochs * walk.steps_per_epoch if steps is None else steps
    sums, samples = np.zeros(1 + len(job.metrics)), 0
    for step in range(steps):
        if step % walk.steps_per_epoch == 0:
            sums, samples = np.zeros(1 + len(job.metrics)), 0
        index = walk.indices(step)
        batch = dataset.gather(index)
        sums += training.train_step(model, job.loss, job.metrics, job.optimizer, batch, job.seed, step)
        samples += len(index)
    return steps, sums / max(samples, 1)


def difference(ours, theirs):
    """The largest; infinite where shapes differ or a value is missing or not finite."""
    if ours is None or theirs is None or ours.shape != theirs.shape or not np.isfinite(theirs).all():
        return float("inf")
    return float(np.abs(ours - theirs).max())


def compare(model, path):
    """The largest difference of each variable, by name."""
    theirs = weights.read(path)
    ours = {v.name: v.value for v in model.variables}
    return {name: difference(ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}


def named(job, values):
    return {"loss": values[0], "metrics": dict(zip((m.name for m in job.metrics), values[1:]))}


def main():
    args = options()
    job = Job(args.job, args.set, args.data)
    dataset = job.data("train")
    model = job.model(dataset.x.shape[1:])
    model.initialise(job.seed)
    start = time.monotonic()
    steps, means = train(job, model, dataset, args.steps)
    result = {"steps": steps, **named(job, means.tolist()), "seconds": round(time.monotonic() - start, 3)}
    result["digest"] = weights.digest(v.value for v in model.variables)
    if args.validate:
        validation = training.evaluate(model, job.loss, job.metrics, job.data("validation"))
        result["validation"] = named(job, validation.tolist())
    if args.weights:
        weights.write(args.weights, {v.name: v.value for v in model.variables})
    failed = False
    if args.compare:
        result["differences"] = compare(model, args.compare)
        result["max_difference"] = max(result["differences"].values())
        failed = not result["max_difference"] <= args.tolerance
    print(json.dumps(result, indent=2))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
