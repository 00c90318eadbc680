"""Every key of the job at both ends of what it allows: the job is done, or refused by the key's name, never a crash."""
import json
import os
import signal
import subprocess

from case import ClusterCase, harness, unittest

ROWS = os.path.join(os.path.dirname(harness.WEIR), "tests", "job_rows")
# What would train for days is interrupted once it computes.
ENDLESS = {"fit.epochs": 1000000, "fit.steps_per_epoch": 2 ** 31 - 1}
# Silence of minutes is legal, but the other key must follow.
TOGETHER = {"cluster.heartbeat_ms": {"cluster.lease_ms": 600000}, "cluster.lease_ms": {"cluster.heartbeat_ms": 10}}
# A lease of 50 ms is legal, but a busy machine may be silent for longer.
MAY_END_WITH = {"cluster.lease_ms": "no heartbeat for"}
SMALL = {"fit.batch_size": 64, "fit.epochs": 1, "replicas": 2}


def rows():
    """(key, value) for each end of each key."""
    told = subprocess.run([ROWS], stdout=subprocess.PIPE, check=True, timeout=harness.GUARD_S).stdout.decode()
    for line in told.splitlines():
        row = json.loads(line)
        for value in row["ends"] or ():
            yield row["key"], value


class Limits(ClusterCase):
    train_samples = 200
    validation_samples = 50

    def check(self, **cluster):
        tried = 0
        for key, value in rows():
            with self.subTest(key=key, value=value):
                job = self.job({**SMALL, **TOGETHER.get(key, {}), key: value})
                if ENDLESS.get(key) == value:
                    self.interrupt(job, **cluster)
                else:
                    self.run_to_its_end(job, key, **cluster)
                tried += 1
        self.assertGreater(tried, 30)

    def run_to_its_end(self, job, key, **cluster):
        result = harness.run_job(job, **cluster)
        if result.exit != 0:
            self.assertIn(result.exit, (1, 2), result.told)
            self.assertTrue(key in result.stderr or MAY_END_WITH.get(key, key) in result.stderr, result.told)
        else:
            self.assertIsNotNone(result.summary, result.told)

    def interrupt(self, job, **cluster):
        with harness.Run(job, **cluster) as run:
            run.process.wait_for_line("1/")
            run.process.signal(signal.SIGINT)
            self.assertNotIn(run.process.wait(), (0, None), run.process.told())
            run.wait_for_processes()

    def test_a_cluster_lives_with_every_legal_setting(self):
        self.check(ps=2, workers=2)

    def test_one_process_lives_with_every_legal_setting(self):
        self.check()


if __name__ == "__main__":
    unittest.main()
