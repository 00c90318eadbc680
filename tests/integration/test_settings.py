"""Settings at the ends of what the job file allows."""
from case import ClusterCase, harness, jobs, unittest


class Settings(ClusterCase):
    def test_lanes_from_one_to_the_most_give_the_same_result(self):
        changes = {"placement.chunk_bytes": 4096, "replicas": 2, "fit.epochs": 1}
        results = [harness.run_job(self.job({**changes, "placement.lanes": lanes}), ps=2, workers=2)
                   for lanes in (1, 3, 8)]
        for result in results:
            self.assert_done(result)
        self.assertEqual(len({result.summary["digest"] for result in results}), 1)

    def test_a_job_without_a_step_is_refused_by_its_key(self):
        """The batch that is left out because it is not full is the only one."""
        job = self.job({"fit.batch_size": 3000, "fit.drop_remainder": True})
        for cluster in ({}, {"ps": 1, "workers": 2}):
            with self.subTest(cluster=cluster):
                result = harness.run_job(job, **cluster)
                self.assertEqual(result.exit, 1, result.told)
                self.assertIn("fit.batch_size: 3000 samples, but there are only 2000", result.stderr)

    def test_a_hello_that_lists_many_small_chunks_fits(self):
        """14 thousand chunks of 4 KiB in one lane: the list is larger than a chunk."""
        model = jobs.sequential(jobs.layer("Flatten"), jobs.layer("Dense", units=18000, kernel_initializer="zeros"),
                                jobs.layer("Dense", units=10))
        job = self.job({"placement.chunk_bytes": 4096, "data.validation": None, "fit.batch_size": 2,
                        "fit.epochs": 1, "fit.steps_per_epoch": 2, "cluster.lease_ms": 10000}, model, "wide.json")
        result = harness.run_job(job, ps=1, workers=1)
        self.assert_done(result)


if __name__ == "__main__":
    unittest.main()
