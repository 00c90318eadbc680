"""The quick start's job learns what it promises, with three seeds, as a program that is not weir finds."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import harness  # pylint: disable=wrong-import-position

JOB = os.path.join(HERE, "..", "..", "examples", "fashion_mnist", "job.json")
GUARD_S = 1200


class Accuracy(unittest.TestCase):
    def check_seed(self, seed):
        folder = tempfile.mkdtemp(prefix="weir-accuracy-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        weights = os.path.join(folder, "final.safetensors")
        result = harness.run_job(JOB, 2, 2, GUARD_S, seed=seed, weights=weights)
        self.assertEqual(result.exit, 0, result.told)
        told = subprocess.run(["/usr/bin/python3", "-B", os.path.join(HERE, "evaluate.py"), JOB, weights],
                              stdout=subprocess.PIPE, check=True, timeout=GUARD_S).stdout
        found = json.loads(told)
        print(f"\nmeasured: seed {seed}: val_accuracy {found['metrics']['accuracy']:.4f}", file=sys.stderr)
        self.assertEqual(found["digest"], result.summary["digest"])
        self.assertEqual(found["samples"], 10000)
        self.assertGreaterEqual(found["metrics"]["accuracy"], 0.88)

    def test_seed_0(self):
        self.check_seed(0)

    def test_seed_1(self):
        self.check_seed(1)

    def test_seed_2(self):
        self.check_seed(2)


if __name__ == "__main__":
    unittest.main()
