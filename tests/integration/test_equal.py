"""The weights do not depend on who computed them: digests are equal for every placement, and work is shared."""
import contextlib
import os

from case import ClusterCase, harness, jobs, unittest

PLACEMENTS = [(ps, workers) for ps in (1, 2, 3) for workers in (1, 2, 3, 4)]
STEPS = 2 * 32  # two epochs of 2,000 samples in batches of 64


class Placements(ClusterCase):
    def digests(self, job, ps=None, workers=None, **flags):
        result = harness.run_job(job, ps, workers, **flags)
        self.assert_done(result)
        self.assertEqual(result.summary["steps"], STEPS)
        return result.summary["digest"], result.summary["state_digest"]

    def check_replicas(self, replicas, repeats):
        """One process, then every placement, as often as repeats(number) says: threads and messages come in any order.
        """
        job = self.job({"replicas": replicas})
        expected = self.digests(job)
        for number, (ps, workers) in enumerate(PLACEMENTS):
            for repeat in range(repeats(number)):
                with self.subTest(replicas=replicas, ps=ps, workers=workers, repeat=repeat):
                    self.assertEqual(self.digests(job, ps, workers), expected)


class Equal(Placements):
    """Some placements run three times; full_equal.py does that with all of them."""

    def check_some_again(self, replicas):
        self.check_replicas(replicas, lambda number: 3 if number % 4 == replicas % 4 else 1)

    def test_one_replica_ends_alike_on_every_placement(self):
        self.check_some_again(1)

    def test_three_replicas_end_alike_on_every_placement(self):
        self.check_some_again(3)

    def test_four_replicas_end_alike_on_every_placement(self):
        self.check_some_again(4)

    def test_six_replicas_end_alike_on_every_placement(self):
        self.check_some_again(6)

    def test_a_run_can_be_repeated(self):
        job = self.job({"replicas": 2})
        self.assertEqual(self.digests(job, 2, 2), self.digests(job, 2, 2))

    def test_another_seed_ends_elsewhere(self):
        job = self.job({"replicas": 2})
        self.assertNotEqual(self.digests(job, 1, 2)[0], self.digests(job, 1, 2, seed=1)[0])

    def test_one_changed_sample_ends_elsewhere(self):
        job = self.job({"replicas": 2})
        before = self.digests(job, 1, 2)
        labels = os.path.join(self.folder, "train-labels-idx1-ubyte")
        with open(labels, "r+b") as file:
            file.seek(8 + 1234)
            label = file.read(1)[0]
            file.seek(8 + 1234)
            file.write(bytes([(label + 1) % 10]))
        try:
            self.assertNotEqual(self.digests(job, 1, 2)[0], before[0])
        finally:
            jobs.write_data(self.folder)


@contextlib.contextmanager
def on_cpus(cpus):
    """What is started inside may use these CPUs only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Threads(ClusterCase):
    """A worker computes its replicas on as many threads as it has CPUs, with the same bits."""

    def setUp(self):
        self.path = self.job({"replicas": 4})
        self.cpus = os.sched_getaffinity(0)

    def assert_computes(self, told, replicas, threads):
        self.assertIn(f"computes {replicas} of 4 replicas on {threads} thread{'s' if threads > 1 else ''}\n", told)

    @staticmethod
    def results_of(summary):
        return {key: summary[key] for key in ("steps", "digest", "state_digest", "loss", "metrics", "validation")}

    def in_one_process(self, cpus):
        with on_cpus(cpus):
            result = harness.run_job(self.path)
        self.assert_done(result)
        self.assert_computes(result.told, 4, min(4, len(cpus)))
        return self.results_of(result.summary)

    def in_cluster(self, workers, cpus, hosts):
        """`hosts`: what stands as the workers' hosts in the cluster's map; nobody connects to them."""
        with harness.Cluster(self.path, ps=1, workers=workers) as cluster:
            for worker, host in enumerate(hosts):
                port = cluster.address(f"worker/{worker}").rpartition(":")[2]
                cluster.map["worker"][worker] = f"{host}:{port}"
            with on_cpus(cpus):
                cluster.start_all()
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            for worker, host in enumerate(hosts):
                share = max(1, len(cpus) // hosts.count(host))
                self.assert_computes(cluster.stderr(f"worker/{worker}"), 4 // workers, min(4 // workers, share))
            return self.results_of(cluster.summary())

    def test_threads_change_no_bit(self):
        one = {min(self.cpus)}
        expected = self.in_one_process(one)
        self.assertEqual(expected["steps"], STEPS)
        for cpus in (one, self.cpus):
            with self.subTest(cpus=cpus):
                self.assertEqual(self.in_one_process(cpus), expected)
                self.assertEqual(self.in_cluster(1, cpus, ["127.0.0.1"]), expected)
                self.assertEqual(self.in_cluster(2, cpus, ["127.0.0.1", "127.0.0.2"]), expected)

    def test_workers_of_one_host_share_its_cpus(self):
        self.in_cluster(2, self.cpus, ["127.0.0.1", "127.0.0.1"])


class Shared(ClusterCase):
    """The summary proves that roles really shared the work."""

    def run_shared(self, ps, workers, replicas):
        result = harness.run_job(self.job({"replicas": replicas}), ps, workers)
        self.assert_done(result)
        self.assertEqual(len(result.roles("ps")), ps)
        self.assertEqual(len(result.roles("worker")), workers)
        return result

    def test_replicas_are_shared_evenly(self):
        for workers, replicas in ((2, 2), (2, 4), (3, 4), (4, 6)):
            with self.subTest(workers=workers, replicas=replicas):
                result = self.run_shared(1, workers, replicas)
                hosted = [entry["replicas_computed"] / STEPS for entry in result.roles("worker")]
                self.assertEqual(sum(hosted), replicas)
                self.assertLessEqual(max(hosted) - min(hosted), 1)

    def test_workers_beyond_the_replicas_stand_by(self):
        result = self.run_shared(1, 3, 2)
        self.assertEqual(sorted(entry["replicas_computed"] for entry in result.roles("worker")), [0, STEPS, STEPS])

    def test_chunks_are_shared_evenly(self):
        chunks = -(-4 * jobs.mlp_parameters() // 16384)
        for ps in (1, 2, 3):
            with self.subTest(ps=ps):
                result = self.run_shared(ps, 2, 2)
                held = [entry["chunks_applied"] / STEPS for entry in result.roles("ps")]
                self.assertEqual(sum(held), chunks)
                self.assertLessEqual(max(held) - min(held), 1)

    def test_sums_are_taken_from_where_messages_were_received(self):
        """Also with clipping by norm, whose sums are taken before the step is decided."""
        for clipping in (None, 1.0):
            with self.subTest(clipping=clipping):
                optimizer = {"class_name": "Adam", "config": {"global_clipnorm": clipping}}
                result = harness.run_job(self.job({"replicas": 4, "compile.optimizer": optimizer}), 2, 3)
                self.assert_done(result)
                for entry in result.summary["roles"]:
                    self.assertEqual(entry["copied_bytes"], 0)

    def test_only_as_many_bytes_move_as_the_sum_tree_needs(self):
        """Where each worker hosts one aligned subtree, it sends one gradient and gets one model per step, and the first
        one. At the end the chief fetches the weights and Adam's two slots."""
        model = 4 * jobs.mlp_parameters()
        for ps, workers, replicas in ((1, 1, 4), (2, 2, 2), (1, 2, 4), (3, 4, 4), (2, 3, 6)):
            with self.subTest(ps=ps, workers=workers, replicas=replicas):
                result = self.run_shared(ps, workers, replicas)
                for worker in result.roles("worker"):
                    self.assert_near(worker["sent_bytes"], STEPS * model)
                    self.assert_near(worker["received_bytes"], (STEPS + 1) * model)
                servers = result.roles("ps")
                self.assert_near(sum(entry["received_bytes"] for entry in servers), STEPS * model * workers)
                self.assert_near(sum(entry["sent_bytes"] for entry in servers), ((STEPS + 1) * workers + 3) * model)

    def assert_near(self, value, expected):
        self.assertLess(abs(value - expected), 0.02 * expected, f"{value} is not within 2 % of {expected}")


if __name__ == "__main__":
    unittest.main()
