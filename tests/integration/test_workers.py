"""Workers go and come in mid-training: killed, killed and started again, silent for longer than the lease, all at once.
The job goes on, and ends with the bits of the undisturbed run."""
import os
import random
import signal
import time

from case import ClusterCase, harness, unittest

SEED = int(os.environ.get("WEIR_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
WORKERS = ("worker/0", "worker/1", "worker/2")


class Workers(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.job(cls, {"fit.epochs": 60, "replicas": 4})
        cls.undisturbed = harness.run_job(cls.path, guard_s=2 * harness.GUARD_S).summary
        cls.random = random.Random(SEED)
        print(f"\nmoments by WEIR_TEST_SEED={SEED}", flush=True)

    def cluster(self):
        return harness.Cluster(self.path, ps=2, workers=len(WORKERS))

    def reach_a_moment(self, cluster):
        """Some way into an epoch after the first."""
        chief = cluster.processes["chief/0"]
        chief.wait_for_line("epoch 1/")
        begun = chief.stderr().count(" info: epoch ")
        more = self.random.randrange(1, 6)
        harness.wait_until(lambda: chief.stderr().count(" info: epoch ") >= begun + more, f"{more} more epochs",
                           evidence=cluster.told)
        moment = time.monotonic() + self.random.random() * .02
        harness.wait_until(lambda: time.monotonic() > moment, "a moment of a step")

    def says(self, cluster, worker, what, there):
        cluster.processes["chief/0"].wait_for_line(f"{worker} at {cluster.address(worker)}{what}; {there} of 3 workers")

    def assert_undisturbed(self, cluster, gone=()):
        codes = cluster.wait_all(2 * harness.GUARD_S)
        for name, code in codes.items():
            self.assertEqual(code, -signal.SIGKILL if name in gone else 0, cluster.processes[name].told())
        for digest in ("digest", "state_digest"):
            self.assertEqual(cluster.summary()[digest], self.undisturbed[digest], cluster.told())

    def test_a_killed_worker_is_replaced_by_the_others(self):
        for worker in WORKERS:
            with self.subTest(worker=worker), self.cluster() as cluster:
                cluster.start_all()
                self.reach_a_moment(cluster)
                cluster.kill(worker)
                chief = cluster.processes["chief/0"]
                chief.wait_for_line(f"lost {worker} at {cluster.address(worker)}: ")
                chief.wait_for_line("2 of 3 workers are there")
                self.assert_undisturbed(cluster, {worker})

    def test_a_worker_that_is_started_again_takes_part_again(self):
        with self.cluster() as cluster:
            cluster.start_all()
            self.reach_a_moment(cluster)
            cluster.kill("worker/1")
            cluster.processes["worker/1"].wait()
            cluster.start("worker/1")
            self.says(cluster, "worker/1", " is back", 3)
            cluster.processes["worker/1"].wait_for_line("of 4 replicas on")
            self.assert_undisturbed(cluster)

    def test_one_that_stood_still_for_longer_than_the_lease_is_taken_back(self):
        with self.cluster() as cluster:
            cluster.start_all()
            self.reach_a_moment(cluster)
            cluster.kill("worker/2", signal.SIGSTOP)
            try:
                cluster.processes["chief/0"].wait_for_line(
                    f"lost worker/2 at {cluster.address('worker/2')}: no heartbeat for")
            finally:
                cluster.kill("worker/2", signal.SIGCONT)
            self.says(cluster, "worker/2", " is back", 3)
            self.assert_undisturbed(cluster)

    def assert_nothing_twice(self, cluster):
        computed = sum(entry["replicas_computed"] for entry in cluster.summary()["roles"] if entry["role"] == "worker")
        self.assertEqual(computed, 4 * self.undisturbed["steps"], cluster.told())

    def test_a_worker_that_is_told_to_go_hands_over_first(self):
        for number, worker in ((signal.SIGTERM, "worker/0"), (signal.SIGTERM, "worker/1"), (signal.SIGINT, "worker/2")):
            with self.subTest(worker=worker), self.cluster() as cluster:
                cluster.start_all()
                self.reach_a_moment(cluster)
                drained = cluster.processes[worker]
                begin = time.monotonic()
                cluster.kill(worker, number)
                self.assertEqual(drained.wait(), 143, cluster.told())
                self.measured(f"{worker} drained", time.monotonic() - begin)
                self.assertIn("; others do its part from now on", drained.stderr())
                self.says(cluster, worker, " is drained", 2)
                codes = cluster.wait_all(2 * harness.GUARD_S)
                self.assertEqual({name: code for name, code in codes.items() if code}, {worker: 143}, cluster.told())
                self.assertNotIn("lost ", cluster.stderr("chief/0"))
                for digest in ("digest", "state_digest"):
                    self.assertEqual(cluster.summary()[digest], self.undisturbed[digest], cluster.told())
                self.assert_nothing_twice(cluster)

    def test_a_drained_worker_may_come_back(self):
        with self.cluster() as cluster:
            cluster.start_all()
            self.reach_a_moment(cluster)
            cluster.kill("worker/1", signal.SIGTERM)
            self.assertEqual(cluster.processes["worker/1"].wait(), 143, cluster.told())
            cluster.start("worker/1")
            self.says(cluster, "worker/1", " is back", 3)
            self.assert_undisturbed(cluster)

    def test_drained_below_the_minimum_the_job_waits(self):
        path = self.job({"fit.epochs": 60, "replicas": 4, "cluster.min_workers": 3})
        with harness.Cluster(path, ps=2, workers=len(WORKERS)) as cluster:
            cluster.start_all()
            self.reach_a_moment(cluster)
            for worker in ("worker/0", "worker/2"): # the second one in a job that stands still
                cluster.kill(worker, signal.SIGTERM)
                self.assertEqual(cluster.processes[worker].wait(), 143, cluster.told())
            cluster.processes["chief/0"].wait_for_line("to come back (1 of at least 3 workers are there)")
            cluster.start("worker/0")
            cluster.start("worker/2")
            self.assert_undisturbed(cluster)

    def test_told_to_go_before_all_are_there_it_goes_at_once(self):
        with self.cluster() as cluster:
            for name in ("chief/0", "ps/0", "worker/1"):
                cluster.start(name)
            cluster.processes["chief/0"].wait_for_line("waiting for")
            cluster.processes["worker/1"].wait_for_line("waiting for chief/0 at " + cluster.address("chief/0") +
                                                        ": the view")
            cluster.kill("worker/1", signal.SIGTERM)
            self.assertEqual(cluster.processes["worker/1"].wait(), 143, cluster.told())
            self.assertIn("before the job began", cluster.stderr("worker/1"))
            cluster.processes["chief/0"].wait_for_line("went before the job began; another may come")
            for name in ("ps/1", *WORKERS):
                cluster.start(name)
            self.assert_undisturbed(cluster)

    def test_weir_run_says_that_a_worker_is_drained_and_is_done(self):
        with harness.Run(self.path, ps=2, workers=3) as run:
            run.process.wait_for_line("epoch 2/")
            os.kill(run.children()["worker/2"], signal.SIGTERM)
            run.process.wait_for_line("worker/2 ended with exit status 143: it is drained, and not started again")
            self.assertEqual(run.process.wait(2 * harness.GUARD_S), 0, run.process.told())
            self.assertIn(self.undisturbed["digest"], run.process.stdout())
            self.assertNotIn("failed", run.process.stderr())

    def test_without_any_worker_the_job_waits_for_one(self):
        with self.cluster() as cluster:
            cluster.start_all()
            self.reach_a_moment(cluster)
            for worker in WORKERS:
                cluster.kill(worker)
            chief = cluster.processes["chief/0"]
            chief.wait_for_line("0 of 3 workers are there")
            chief.wait_for_line("to come back (0 of at least 1 workers are there)")
            cluster.start("worker/1")
            self.assert_undisturbed(cluster, {"worker/0", "worker/2"})

    def test_below_the_minimum_the_job_waits(self):
        path = self.job({"fit.epochs": 60, "replicas": 4, "cluster.min_workers": 3})
        with harness.Cluster(path, ps=2, workers=len(WORKERS)) as cluster:
            cluster.start_all()
            self.reach_a_moment(cluster)
            cluster.kill("worker/0")
            cluster.processes["chief/0"].wait_for_line("to come back (2 of at least 3 workers are there)")
            cluster.processes["worker/1"].wait_for_line("computes nothing: fewer workers are there")
            cluster.start("worker/0")
            self.assert_undisturbed(cluster)

    def test_a_second_process_takes_the_place_of_the_first(self):
        """As when an address is used twice: the one that came later stays, the other is told why it must go."""
        with self.cluster() as cluster:
            cluster.start_all()
            self.reach_a_moment(cluster)
            first = cluster.processes["worker/1"]
            cluster.start("worker/1")
            self.assertEqual(first.wait(), 1, first.told())
            self.assertIn("another process has that role and index already", first.stderr())
            self.assert_undisturbed(cluster)

    def test_weir_run_starts_a_killed_worker_again(self):
        with harness.Run(self.path, ps=2, workers=3) as run:
            run.process.wait_for_line("epoch 2/")
            os.kill(run.children()["worker/2"], signal.SIGKILL)
            run.process.wait_for_line("worker/2 ended with signal 9 (Killed): it is started again in 0.1 s")
            run.process.wait_for_line("is back; 3 of 3 workers are there")
            self.assertEqual(run.process.wait(2 * harness.GUARD_S), 0, run.process.told())
            self.assertIn(self.undisturbed["digest"], run.process.stdout())

    def kill_child(self, run, name):
        """One that has not been killed yet."""
        self.killed = getattr(self, "killed", set())
        harness.wait_until(lambda: run.children().get(name) not in (None, *self.killed), f"{name} to be there",
                           evidence=run.process.told)
        pid = run.children()[name]
        self.killed.add(pid)
        os.kill(pid, signal.SIGKILL)

    def test_weir_run_gives_up_a_worker_that_keeps_dying(self):
        path = self.job({"fit.epochs": 150, "replicas": 4, "cluster.max_restarts": 2, "cluster.restart_window_s": 300})
        with harness.Run(path, ps=2, workers=3) as run:
            run.process.wait_for_line("epoch 2/")
            for _ in range(3):
                self.kill_child(run, "worker/2")
            run.process.wait_for_line("worker/2 ended with signal 9 (Killed), after 2 restarts within 300 s: it is not "
                                      "started again")
            self.assertEqual(run.process.wait(2 * harness.GUARD_S), 0, run.process.told())
            self.assertNotIn("failed", run.process.stderr())

    def test_weir_run_ends_where_too_few_workers_are_left(self):
        path = self.job({"fit.epochs": 100000, "replicas": 4, "cluster.max_restarts": 0, "cluster.min_workers": 3})
        with harness.Run(path, ps=2, workers=3) as run:
            run.process.wait_for_line("epoch 2/")
            self.kill_child(run, "worker/1")
            self.assertEqual(run.process.wait(2 * harness.GUARD_S), 1, run.process.told())
            told = run.process.stderr()
            for line in ("run warning: worker/1 ended with signal 9 (Killed): it is not started again",
                         "run error: the job can't go on: of 3 workers, 2 can still be there, and "
                         "cluster.min_workers is 3",
                         "run error: the job failed: worker/1 ended with signal 9 (Killed)"):
                self.assertIn(line, told)


if __name__ == "__main__":
    unittest.main()
