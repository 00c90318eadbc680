"""`weir chaos` on real clusters: what survives is judged so, what is lost is found, and nothing stays behind."""
import json
import os
import shutil
import signal
import tempfile

from case import ClusterCase, harness, jobs, unittest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "chaos")


class Chaos(ClusterCase):
    def setUp(self):
        self.out = tempfile.mkdtemp(prefix="weir-chaos-")
        self.addCleanup(shutil.rmtree, self.out, ignore_errors=True)

    def scenario(self, faults, epochs=60, keys=None):
        job = self.job({"fit.epochs": epochs, "replicas": 4, **(keys or {})})
        path = os.path.join(self.folder, "scenario.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"job": job, "cluster": {"workers": 3, "ps": 2}, "faults": faults}, file)
        return path

    def run_chaos(self, path, *words):
        return harness.run_command("chaos", path, "--json", "--out", self.out, *words, guard_s=4 * harness.GUARD_S)

    def assert_passed(self, result):
        self.assertEqual(result.exit, 0, result.told + result.stdout)
        report = json.loads(result.stdout)
        self.assertTrue(report["passed"])
        self.assertEqual(report["steps_lost"], 0)
        self.assertTrue(all(fault["fired"] for fault in report["faults"]))
        self.assertEqual(json.loads(harness.read(os.path.join(self.out, "report.json"))), report)
        self.assertIn("</html>", harness.read(os.path.join(self.out, "report.html")))
        return report

    def test_a_killed_and_a_restarted_worker_lose_nothing(self):
        report = self.assert_passed(self.run_chaos(os.path.join(EXAMPLES, "worker-kill.json")))
        for fault in report["faults"]:
            self.assertIsNotNone(fault["detected_s"])
            self.assertGreaterEqual(fault["view_s"], fault["detected_s"])
            self.assertGreater(fault["step_s"], fault["view_s"])

    def test_workers_that_are_told_to_go_lose_nothing(self):
        report = self.assert_passed(self.run_chaos(os.path.join(EXAMPLES, "worker-terminate.json")))
        self.assertEqual(report["replicas_computed_again"], 0)
        self.assertEqual([fault["kind"] for fault in report["faults"]], 3 * ["terminate"])
        for fault in report["faults"]:
            self.assertIsNotNone(fault["detected_s"])
        said = harness.read(os.path.join(self.out, "disturbed.log"))
        self.assertEqual(said.count(" is back; "), 2, said)
        self.assertNotIn("lost ", said)

    def test_a_worker_may_be_restarted_more_often_than_the_job_allows(self):
        """What a scenario does to a worker is no reason to give it up; a number of the scenario's own is taken."""
        faults = [{"kind": "restart", "node": "worker/1", "at_step": 20, "times": 3, "every_steps": 60}]
        path = self.scenario(faults, epochs=80, keys={"cluster.max_restarts": 1})
        self.assert_passed(self.run_chaos(path))
        result = self.run_chaos(path, "--set", "cluster.max_restarts=1")
        self.assertEqual(result.exit, 1, result.told)
        self.assertIn("it has failed more often than cluster.max_restarts allows",
                      harness.read(os.path.join(self.out, "disturbed.log")))

    def test_a_worker_that_is_cut_off_is_found_and_loses_nothing(self):
        report = self.assert_passed(self.run_chaos(os.path.join(EXAMPLES, "worker-partition.json")))
        self.assertGreater(report["faults"][0]["detected_s"], .5)  # the lease, not a broken connection

    def test_a_swarm_of_faults_by_seed_loses_nothing(self):
        seed = os.environ.get("WEIR_TEST_SEED", "5")
        report = self.assert_passed(self.run_chaos(os.path.join(EXAMPLES, "swarm.json"), "--seed", seed))
        self.assertEqual(report["seed"], int(seed))
        self.assertGreater(len(report["kinds"]), 2)

    def test_other_bits_are_a_failure(self):
        """Between the two runs the data changes by one image, as if its gradient had been lost."""
        path = self.scenario([{"kind": "reset", "node": "worker/0", "at_step": 10}])
        images = os.path.join(self.folder, "train-images-idx3-ubyte")
        process = harness.Process("chaos", [harness.WEIR, "chaos", path, "--json", "--out", self.out], self.folder)
        try:
            log = os.path.join(self.out, "undisturbed.log")
            process.wait_for(lambda: "epoch 1/" in harness.read(log), "the first epoch")
            with open(images, "rb") as file:
                data = bytearray(file.read())
            data[16:16 + 784] = bytes(784)
            with open(images + ".new", "wb") as file:
                file.write(data)
            os.replace(images + ".new", images)
            self.assertEqual(process.wait(4 * harness.GUARD_S), 1, process.told())
            checks = {check["check"]: check["result"] for check in json.loads(process.stdout())["checks"]}
            self.assertEqual((checks["digest"], checks["state"]), ("bad", "bad"))
            self.assertEqual((checks["end"], checks["faults"], checks["steps"]), ("good", "good", "good"))
        finally:
            self.assertEqual(process.end(), [])
            jobs.write_data(self.folder, self.train_samples, self.validation_samples)

    def test_a_fault_that_never_fires_is_a_failure(self):
        path = self.scenario([{"kind": "kill", "node": "worker/0", "at_step": 100000}], epochs=2)
        result = self.run_chaos(path)
        self.assertEqual(result.exit, 1, result.told)
        self.assertIn("0 of 1 fired", result.stdout)

    def test_interrupted_it_leaves_nothing(self):
        path = self.scenario([{"kind": "stop", "node": "worker/0", "at_step": 20, "for_s": 600}], epochs=2000)
        process = harness.Process("chaos", [harness.WEIR, "chaos", path, "--out", self.out, "--set", "fit.epochs=40"],
                                  self.folder)
        try:
            process.wait_for(lambda: "lost worker/0" in harness.read(os.path.join(self.out, "disturbed.log")),
                             "the stop", 4 * harness.GUARD_S)
            process.signal(signal.SIGTERM)
            self.assertEqual(process.wait(), 1, process.told())
            self.assertIn("interrupted", process.stderr())
            harness.wait_until(lambda: not harness.processes_of(process.pid), "all processes to end")
        finally:
            process.end()

    def test_what_is_wrong_is_said_before_anything_runs(self):
        path = self.scenario([{"kind": "kill", "node": "worker/7", "at_step": 1}])
        result = self.run_chaos(path)
        self.assertEqual(result.exit, 2)
        self.assertIn("faults[0].node: there is no worker/7: the cluster has 3 workers", result.stderr)


if __name__ == "__main__":
    unittest.main()
