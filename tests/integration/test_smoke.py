"""One small job on a cluster, to its end; also under the sanitizers."""
from case import ClusterCase, harness, unittest


class Smoke(ClusterCase):
    def test_a_cluster_ends_as_one_process_does(self):
        job = self.job({"replicas": 2, "fit.epochs": 1})
        alone = harness.run_job(job)
        self.assert_done(alone)
        together = harness.run_job(job, ps=2, workers=2)
        self.assert_done(together)
        for digest in ("digest", "state_digest"):
            self.assertEqual(together.summary[digest], alone.summary[digest])
        self.assertEqual(together.summary["steps"], 32)
        self.assertEqual(together.summary["validation"], alone.summary["validation"])

    def test_every_role_ends_by_itself_with_exit_0(self):
        with harness.Cluster(self.job({"fit.epochs": 1}), ps=2, workers=2) as cluster:
            cluster.start_all()
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            self.assertEqual(cluster.summary()["workers"], 2)

    def test_the_summary_tells_what_the_interface_promises(self):
        result = harness.run_job(self.job({"fit.epochs": 1}), ps=1, workers=2)
        self.assert_done(result)
        summary = result.summary
        for key, kind in (("job", str), ("hash", str), ("strategy", str), ("replicas", int), ("workers", int),
                          ("ps", int), ("steps", int), ("epochs", int), ("loss", float), ("metrics", dict),
                          ("validation", dict), ("seconds", float), ("samples_per_s", (int, float)), ("digest", str),
                          ("state_digest", str), ("reproducible", bool), ("generation", int), ("views", int),
                          ("roles", list)):
            self.assertIsInstance(summary.get(key), kind, key)
        for entry in summary["roles"]:
            self.assertEqual(set(entry) - {"role"}, {"index", "pid", "cpu_s", "peak_rss_bytes", "sent_bytes",
                                                     "received_bytes", "replicas_computed", "chunks_applied",
                                                     "copied_bytes"})
        self.assertEqual(sorted(entry["role"] for entry in summary["roles"]), ["chief", "ps", "worker", "worker"])
        self.assertEqual(set(summary["validation"]), {"loss", "accuracy"})


if __name__ == "__main__":
    unittest.main()
