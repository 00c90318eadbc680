"""A process that stands still is named by those who wait for it, in their logs and on the chief's screen; when it goes
on, so does the job, to the same result."""
import re
import signal

from case import ClusterCase, harness, unittest

LEASE_MS = 60000


class Waits(ClusterCase):
    def setUp(self):
        self.long_lease = self.job({"fit.epochs": 40, "data.validation": None, "replicas": 2,
                                    "cluster.lease_ms": LEASE_MS})

    def one_names(self, cluster, watchers, waited_for, says=""):
        """A line of one of the watchers says for whom it waits: role, index and address. Returns that watcher."""
        wanted = re.compile(rf"waiting for {re.escape(waited_for)} at {re.escape(cluster.address(waited_for))}{says}: ")
        return harness.wait_until(
            lambda: next((name for name in watchers if wanted.search(cluster.stderr(name))), None),
            f"one of {watchers} to say that it waits for {waited_for}", evidence=cluster.told)

    def stop_and_continue(self, cluster, stopped, watchers):
        """In a step: an epoch is over, and many are to come."""
        cluster.kill(stopped, signal.SIGSTOP)
        try:
            watcher = self.one_names(cluster, watchers, stopped)
            self.one_names(cluster, ["chief/0"], stopped, rf" \(says ({'|'.join(watchers)})\)")
        finally:
            cluster.kill(stopped, signal.SIGCONT)
        for name in (watcher, "chief/0"):
            cluster.processes[name].wait_for_line(f"no longer waiting for {stopped} at ")

    def test_who_stands_still_in_a_step_is_named_and_the_result_is_the_same(self):
        undisturbed = harness.run_job(self.long_lease, guard_s=2 * harness.GUARD_S).summary
        with harness.Cluster(self.long_lease, ps=2, workers=2) as cluster:
            cluster.start_all()
            cluster.processes["chief/0"].wait_for_line("epoch 1/")
            self.stop_and_continue(cluster, "ps/1", ["worker/0", "worker/1"])
            self.stop_and_continue(cluster, "worker/1", ["ps/0", "ps/1"])
            self.assertEqual(set(cluster.wait_all(4 * harness.GUARD_S).values()), {0}, cluster.told())
            for digest in ("digest", "state_digest"):
                self.assertEqual(cluster.summary()[digest], undisturbed[digest])

    def test_who_has_joined_says_that_it_waits_for_the_view(self):
        with harness.Cluster(self.job({"fit.epochs": 1}), ps=1, workers=1) as cluster:
            cluster.start("chief/0").wait_for_line("waiting for ps/0")
            cluster.start("ps/0")
            self.one_names(cluster, ["ps/0"], "chief/0")
            cluster.processes["ps/0"].wait_for_line("the view")
            cluster.start("worker/0")
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())


if __name__ == "__main__":
    unittest.main()
