#!/usr/bin/python3
"""Measures weir side by side with TensorFlow and PyTorch in one run, and prints tables for docs/measured.md.

  tests/bench/peers.py step    --peers DIR --python PYTHON [--rounds N] [--models mlp,cnn,big]
  tests/bench/peers.py cluster --peers DIR --python PYTHON [--rounds N]
  tests/bench/peers.py replicas [--rounds N]
  tests/bench/peers.py exchange [--rounds N]

DIR holds train_tf.py and train_torch.py; PYTHON is an interpreter that has tensorflow and torch. `step` compares whole
worker steps on one core, `cluster` two workers and two parameter servers on all cores, `replicas` what it costs a
worker to host four replicas, `exchange` push and pull of one worker and one parameter server with plain TCP. Every
round runs all programs, one after the other, so that a machine whose speed drifts treats them alike; the tables give
medians over the rounds, and the ratio to the best peer of the same round.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEIR = os.path.join(ROOT, "build", "weir")
JOBS = {"mlp": "mlp512", "cnn": "mnist_cnn", "big": "mlp4096"}
STEPS = {"mlp": 3000, "cnn": 6000, "big": 60}
PEER_STEPS = {"mlp": 600, "cnn": 600, "big": 30}
ONE_CORE = ["taskset", "-c", "0"]
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_TOP_PAD_": "67108864", "MALLOC_MMAP_THRESHOLD_": "1073741824"}


def run(command, **env):
    done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False, timeout=1200)
    return done.stdout if done.returncode == 0 else ""


def weir(model, *arguments, prefix=(), program=WEIR):
    """Samples per second of a job, from its summary."""
    with tempfile.TemporaryDirectory() as folder:
        summary = os.path.join(folder, "summary.json")
        run([*prefix, program, "run", os.path.join(ROOT, "examples", JOBS[model], "job.json"), "--quiet",
             "--epochs", "1", "--set", "data.validation=null", "--set", f"fit.steps_per_epoch={STEPS[model]}",
             "--summary", summary, *arguments])
        with open(summary, encoding="utf-8") as file:
            return json.load(file)["samples_per_s"]


def column(text, number):
    """The median of a column over the lines that a peer printed; 0 if it failed."""
    values = [float(line.split()[number]) for line in text.splitlines() if len(line.split()) > number]
    return statistics.median(values) if values else 0.0


class Peers:
    def __init__(self, options):
        self.folder, self.python = options.peers, options.python

    def torch(self, model, **env):
        return column(run([*ONE_CORE, self.python, os.path.join(self.folder, "train_torch.py"), model, "1", "2",
                           str(PEER_STEPS[model])], OMP_NUM_THREADS="1", **env), 4)

    def tf(self, model, *arguments, prefix=ONE_CORE):
        return column(run([*prefix, self.python, os.path.join(self.folder, "train_tf.py"), model, *arguments, "--reps",
                           "2"], TF_CPP_MIN_LOG_LEVEL="3"), 6)


def measure(rounds, programs):
    """{name: [value of each round]} of named functions, taken in turn."""
    values = {name: [] for name in programs}
    for number in range(rounds):
        for name, program in programs.items():
            values[name].append(program())
            print(f"round {number + 1}: {name}: {values[name][-1]:.0f}", file=sys.stderr, flush=True)
    return values


def print_table(title, values):
    peers = [name for name in values if not name.startswith("weir")]
    print(f"\n| {title} | samples/s (median, range) | x the best peer of its round |\n|---|---|---|")
    for name, rates in values.items():
        best = [max([values[peer][i] for peer in peers] or [0]) for i in range(len(rates))]
        ratios = [rate / top for rate, top in zip(rates, best) if top]
        ratio = f"{statistics.median(ratios):.2f}" if ratios and name.startswith("weir") else ""
        print(f"| {name} | {statistics.median(rates):.0f} ({min(rates):.0f}-{max(rates):.0f}) | {ratio} |")


def step(options):
    peers = Peers(options)
    for model in options.models.split(","):
        print_table(f"{model}, one core", measure(options.rounds, {
            "weir": lambda: weir(model, prefix=ONE_CORE),
            "torch": lambda: peers.torch(model),
            "torch, tuned": lambda: peers.torch(model, FTZ="1", WARM="1000" if model != "big" else "5", **MALLOC),
            "TensorFlow": lambda: peers.tf(model, "single"),
            "TensorFlow, XLA": lambda: peers.tf(model, "single", "--xla"),
        }))


def cluster(options):
    peers = Peers(options)
    for model in ("mlp", "big"):
        print_table(f"{model}, 2 workers and 2 ps, 128 samples a step", measure(options.rounds, {
            "weir, sync": lambda: weir(model, "--ps", "2", "--workers", "2", "--batch-size", "128"),
            "TensorFlow, ParameterServerStrategy": lambda: peers.tf(model, "ps", "--workers", "2", "--ps", "2",
                                                                    prefix=()),
        }))


def replicas(options):
    for model in ("mlp", "cnn", "big"):
        print_table(f"{model}, one core", measure(options.rounds, {
            "weir, one replica": lambda: weir(model, prefix=ONE_CORE),
            "weir, four replicas": lambda: weir(model, "--replicas", "4", prefix=ONE_CORE),
        }))


def tcp_gb_per_s():
    """Push and pull of 1 MiB messages, as bench_transport prints it."""
    for line in run([os.path.join(ROOT, "build", "tests", "bench_transport"), "1024"]).splitlines():
        if line.split()[:4] == ["push+pull", "1024", "KiB", "TCP"]:
            return float(line.split()[4])
    return 0.0


def exchange(options):
    """Payload of both ways by the time of a step that computes nothing: the whole program, and what TCP does."""
    parameters = 784 * 4096 + 4096 * 4096 + 4096 * 10 + 4096 + 4096 + 10
    gigabytes, batch = 2 * 4 * parameters / 1e9, 64
    values = measure(options.rounds, {
        "weir, MB/s": lambda: 1e3 * gigabytes / batch * weir(
            "big", "--ps", "1", "--workers", "1", program=os.path.join(ROOT, "build", "tests", "bench_exchange")),
        "TCP, MB/s": lambda: 1e3 * tcp_gb_per_s(),
    })
    print_table("push and pull of 80 MB in chunks of 1 MiB, MB/s", values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "cluster", "replicas", "exchange"])
    parser.add_argument("--peers", default="peers")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="mlp,cnn,big")
    options = parser.parse_args()
    {"step": step, "cluster": cluster, "replicas": replicas, "exchange": exchange}[options.what](options)


if __name__ == "__main__":
    main()
