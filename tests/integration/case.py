"""What the integration tests have in common: a folder with data and a job, made once per test class."""
import shutil
import sys
import tempfile
import unittest

import harness
import jobs


class ClusterCase(unittest.TestCase):
    """`self.job(changes)` writes a job of jobs.py into the class's folder and returns its path."""

    train_samples = 2000
    validation_samples = 500

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weir-jobs-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        jobs.write_data(cls.folder, cls.train_samples, cls.validation_samples)

    def job(self, changes=None, model=None, name="job.json"):
        return jobs.write_job(self.folder, changes, model, name)

    def assert_done(self, result):
        self.assertEqual(result.exit, 0, result.told)
        self.assertIsNotNone(result.summary, f"no summary\n{result.told}")

    def assert_names(self, text, cluster, name):
        """The text says which role it speaks of: role, index and address."""
        self.assertIn(name, text)
        self.assertIn(cluster.address(name), text)

    @staticmethod
    def measured(what, seconds):
        """A figure for the log of the test run."""
        print(f"\nmeasured: {what}: {seconds:.3f} s", file=sys.stderr)


__all__ = ["ClusterCase", "harness", "jobs", "unittest"]
