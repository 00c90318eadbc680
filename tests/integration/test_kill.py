"""kill -9 at any role and moment: every survivor says who is gone, by role, index and address, and exits 1."""
import os
import signal
import time

from case import ClusterCase, harness, unittest

VICTIMS = ("chief/0", "ps/1", "worker/1")


class Kill(ClusterCase):
    def check_survivors(self, cluster, victim, since, moment):
        """All others end by themselves, in time, each naming the victim."""
        codes = cluster.wait_all()
        self.measured(f"kill {victim} {moment}: until all had ended", time.monotonic() - since)
        self.assertEqual(codes.pop(victim), -signal.SIGKILL)
        for name, code in codes.items():
            self.assertEqual(code, 1, cluster.processes[name].told())
            self.assert_names(cluster.stderr(name), cluster, victim)

    def kill_when(self, job, victim, moment, ready, started=None):
        with self.subTest(victim=victim), harness.Cluster(job, ps=2, workers=2) as cluster:
            cluster.start_all(started and started(cluster))
            ready(cluster)
            since = time.monotonic()
            cluster.kill(victim)
            self.check_survivors(cluster, victim, since, moment)

    def test_before_all_have_joined(self):
        """worker/0 never comes; the chief has said that it waits for it alone."""
        job = self.job({"fit.epochs": 1, "cluster.start_timeout_s": 10})
        for victim in ("ps/1", "worker/1", "chief/0"):
            self.kill_when(job, victim, "before all had joined",
                           lambda cluster: self.wait_for_all_but(cluster, "worker/0"),
                           lambda cluster: [name for name in cluster.names if name != "worker/0"])

    @staticmethod
    def wait_for_all_but(cluster, missing):
        cluster.processes["chief/0"].wait_for_line(missing)

    def test_in_a_step(self):
        """Without validation, a run that has ended an epoch and has many before it is in a step."""
        job = self.job({"fit.epochs": 100000, "data.validation": None})
        for victim in VICTIMS:
            self.kill_when(job, victim, "in a step", self.wait_for_an_epoch)

    def test_in_validation(self):
        """An epoch of one step, and a validation of thousands of samples: nearly all the time is validation."""
        job = self.job({"fit.epochs": 100000, "fit.steps_per_epoch": 1, "data.validation": {
            "format": "idx", "x": "train-images-idx3-ubyte", "y": "train-labels-idx1-ubyte"}})
        for victim in VICTIMS:
            self.kill_when(job, victim, "in validation", self.wait_for_an_epoch)

    @staticmethod
    def wait_for_an_epoch(cluster):
        cluster.processes["chief/0"].wait_for_line("epoch")

    def test_at_the_end(self):
        """When the summary is there the job is done: who is still there leaves with 0, or says who is gone."""
        for victim in VICTIMS:
            job = self.job({"fit.epochs": 1, "data.validation": None})
            with self.subTest(victim=victim), harness.Cluster(job, ps=2, workers=2) as cluster:
                cluster.start_all()
                harness.wait_until(lambda: os.path.exists(cluster.summary_path), "the summary", evidence=cluster.told)
                since = time.monotonic()
                cluster.kill(victim)
                codes = cluster.wait_all()
                self.measured(f"kill {victim} at the end: until all had ended", time.monotonic() - since)
                for name in set(codes) - {victim}:
                    self.assertIn(codes[name], (0, 1), cluster.processes[name].told())
                    if codes[name] == 1:
                        self.assert_names(cluster.stderr(name), cluster, victim)
                self.assertEqual(len(cluster.summary()["digest"]), 64)


class KillRun(ClusterCase):
    """`weir run` and its children."""

    def long(self):
        return self.job({"fit.epochs": 100000})

    def test_when_the_run_itself_is_killed_nothing_stays(self):
        with harness.Run(self.long(), ps=2, workers=2) as run:
            run.process.wait_for_line("epoch")
            self.assertEqual(len(run.children()), 5, run.children())
            since = time.monotonic()
            run.process.signal(signal.SIGKILL)
            run.process.wait()
            run.wait_for_processes()
            self.measured("kill weir run: until all had ended", time.monotonic() - since)

    def test_when_the_run_is_killed_as_it_starts_nothing_stays(self):
        with harness.Run(self.long(), ps=2, workers=2) as run:
            harness.wait_until(run.children, "the first child", evidence=run.process.told)
            run.process.signal(signal.SIGKILL)
            run.process.wait()
            run.wait_for_processes()

    def test_when_a_child_is_killed_the_run_names_it_and_exits_1(self):
        for victim in VICTIMS:
            with self.subTest(victim=victim), harness.Run(self.long(), ps=2, workers=2) as run:
                run.process.wait_for_line("epoch")
                children = run.children()
                self.assertIn(victim, children)
                since = time.monotonic()
                os.kill(children[victim], signal.SIGKILL)
                self.assertEqual(run.process.wait(2 * harness.GUARD_S), 1, run.process.told())
                self.measured(f"kill {victim} of weir run: until it had ended", time.monotonic() - since)
                self.assertIn(victim, run.process.stderr())


if __name__ == "__main__":
    unittest.main()
