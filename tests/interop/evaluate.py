#!/usr/bin/python3
"""Evaluates weights that a weir job wrote, in NumPy and float64, and hashes them.

usage: evaluate.py JOB WEIGHTS.safetensors [--data DIR] [--set KEY=VALUE]... [--train]
Prints JSON: loss and metrics over the validation set (--train: the training set), the number of samples and
parameters, and `digest`: SHA-256 over the weights in the order of Keras's get_weights().
"""
import argparse
import json
import sys

from reference import training, weights
from reference.job import Job


def evaluate_file(job, path, which):
    """What is printed."""
    dataset = job.data(which)
    model = job.model(dataset.x.shape[1:])
    tensors = weights.read(path)
    if set(tensors) != {v.name for v in model.variables}:
        sys.exit(f"{path}: has {sorted(tensors)}, the model has {[v.name for v in model.variables]}")
    for variable in model.variables:
        if tensors[variable.name].shape != variable.shape:
            sys.exit(f"{path}: {variable.name} is {tensors[variable.name].shape}, not {variable.shape}")
        variable.value = tensors[variable.name].astype(float)
    loss, *metrics = training.evaluate(model, job.loss, job.metrics, dataset).tolist()
    return {
        "samples": len(dataset),
        "loss": loss,
        "metrics": dict(zip((m.name for m in job.metrics), metrics)),
        "parameters": sum(v.value.size for v in model.variables),
        "digest": weights.digest(tensors[v.name] for v in model.variables),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("weights")
    parser.add_argument("--data")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--train", action="store_true")
    args = parser.parse_args()
    job = Job(args.job, args.set, args.data)
    print(json.dumps(evaluate_file(job, args.weights, "train" if args.train else "validation"), indent=2))


if __name__ == "__main__":
    main()
