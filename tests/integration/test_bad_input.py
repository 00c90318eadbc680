"""Whatever stands in files, in TF_CONFIG or comes through the network: a clear message, and the job goes on."""
import contextlib
import json
import os
import random
import re

import strangers
from case import ClusterCase, harness, jobs, unittest
from relay import Relay


class Files(ClusterCase):
    train_samples = 200
    validation_samples = 50

    def refused(self, path, words, codes=(2,), environment=None):
        """`weir start` ends by itself, with one of the codes, and its message holds the words."""
        result = harness.run_command("start", path, environment=environment or {
            "TF_CONFIG": json.dumps({"cluster": {"chief": ["127.0.0.1:20001"], "ps": ["127.0.0.1:20002"],
                                                 "worker": ["127.0.0.1:20003"]},
                                     "task": {"type": "worker", "index": 0}})})
        self.assertIn(result.exit, codes, result.told)
        for word in words:
            self.assertIn(word, result.stderr)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def test_a_job_that_is_none_is_refused_by_its_name(self):
        whole = json.dumps(jobs.JOB)
        for number, content in enumerate((
                "", "{", whole[:100], "[]", "null", "\0\0\0", b"\xff\xfe{}", "[" * 100000,
                '{"a":' * 200 + "1" + "}" * 200, " " * (2 << 20) + whole, whole.replace('"fit"', '"compile"'))):
            with self.subTest(number=number):
                self.refused(self.write("bad.json", content), ["bad.json"])

    def test_a_wrong_key_or_value_is_named(self):
        for changes, words in (({"fit.batch_sise": 3}, ["batch_sise", "batch_size"]),
                               ({"fit.batch_size": 0}, ["fit.batch_size"]), ({"fit.epochs": -1}, ["fit.epochs"]),
                               ({"fit.epochs": "2"}, ["fit.epochs"]), ({"fit.epochs": 1e99}, ["fit.epochs"]),
                               ({"replicas": 1 << 40}, ["replicas"]), ({"compile.loss": None}, ["compile.loss"]),
                               ({"compile.optimizer": "adamm"}, ["adamm"]), ({"strategy": "ring"}, ["ring"])):
            with self.subTest(changes=changes):
                self.refused(self.job(changes, name="wrong.json"), ["wrong.json:", *words])

    def test_a_model_that_is_none_is_refused(self):
        whole = json.dumps(jobs.mlp())
        path = self.job(name="job.json")
        for number, content in enumerate(("", whole[:200], "{}", whole.replace("Dense", "Dens"),
                                          whole.replace('"units": 64', '"units": 0'),
                                          whole.replace('"units": 64', '"units": 4000000000'),
                                          whole.replace('"units": 64', '"units": 1e30'),
                                          whole.replace("28, 28", "28, -28"),
                                          "model", "[]", "null", "\0\0\0", b"\xff\xfe{}", b"\x89HDF\r\n\x1a\n" * 20,
                                          whole.replace("28, 28", "NaN, 28"))):
            with self.subTest(number=number):
                self.write("model.json", content)
                self.refused(path, ["model.json"], (1, 2))

    def test_a_model_that_is_too_deep_or_too_large_is_refused(self):
        whole = json.dumps(jobs.mlp())
        path = self.job(name="job.json")
        for content, words in (("[" * 100000, ["deep"]), ('{"a":' * 200 + "1" + "}" * 200, ["deep"]),
                               (whole[:-1] + ', "config_": ' + "[" * 5000 + "]" * 5000 + "}", ["deep"]),
                               (whole + " " * (64 << 20), ["64 MiB"])):
            with self.subTest(bytes=len(content)):
                self.write("model.json", content)
                self.refused(path, ["model.json", *words], (1, 2))

    def test_a_wrong_tf_config_is_refused_and_says_why(self):
        path = self.job()
        good = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]}
        task = {"type": "worker", "index": 0}
        for value, words in (
                ("", []), ("{", []), ("[]", []), ({"cluster": good}, ["task"]),
                ({"cluster": {"ps_hosts": ["a:1"], "worker_hosts": ["b:1"]}, "task": task}, ["ps_hosts", "worker"]),
                ({"cluster": good, "task": {"type": "worker", "index": 3}}, ["3"]),
                ({"cluster": good, "task": {"type": "ps", "index": -1}}, ["-1"]),
                ({"cluster": {**good, "worker": ["c"]}, "task": task}, ["\"c\""]),
                ({"cluster": {**good, "worker": ["c:99999"]}, "task": task}, ["99999"]),
                ({"cluster": {**good, "worker": ["b:1"]}, "task": task}, ["b:1"]),
                ({"cluster": {**good, "chief": ["a:1", "a:2"]}, "task": task}, ["chief"]),
                ({"cluster": {**good, "master": ["m:1"]}, "task": task}, ["master", "chief"])):
            with self.subTest(value=value):
                text = value if isinstance(value, str) else json.dumps(value)
                self.refused(path, ["TF_CONFIG", *words], environment={"TF_CONFIG": text})

    def test_damaged_data_is_refused_by_its_name(self):
        name = "train-images-idx3-ubyte"
        path = os.path.join(self.folder, name)
        with open(path, "rb") as file:
            whole = file.read()
        source = random.Random(5)
        job = self.job()
        for number, content in enumerate((
                b"", whole[:3], whole[:100], whole + b"x", b"\0\0\x08\x03" + b"\xff" * 12 + whole[16:],
                b"\0\0\x08\x04" + whole[4:], b"\0\0\x07\x03" + whole[4:], b"\x1f\x8b" + whole, source.randbytes(5000),
                whole[:4] + (100).to_bytes(4, "big") + whole[8:16 + 784 * 100])):
            with self.subTest(number=number):
                self.write(name, content)
                result = harness.run_job(job)
                self.assertIn(result.exit, (1, 2), result.told)
                self.assertIn(name, result.stderr)

    def test_labels_beyond_the_output_are_refused(self):
        path = os.path.join(self.folder, "train-labels-idx1-ubyte")
        with open(path, "r+b") as file:
            file.seek(8 + 17)
            file.write(b"\x0a")
        result = harness.run_job(self.job())
        self.assertIn(result.exit, (1, 2), result.told)
        self.assertIn("10", result.stderr)


class Network(ClusterCase):
    """Strangers at every port while a job runs. It ends with the right digest, and memory does not grow."""

    epochs = 60
    pace_s = 0.01  # each piece to and from worker/1 waits up to so long: the job would last minutes
    growth_bytes = 64 << 20 if not harness.SANITIZED else 1 << 30  # a sanitizer keeps what is freed for a while

    def attack(self, attacker, check=None):
        """The job has to live with all of the attack: until that is over, one worker is slow, on machines of any speed.
        `check` gets the processes that were attacked, while the job still runs."""
        job = self.job({"replicas": 2, "fit.epochs": self.epochs})
        expected = harness.run_job(job, guard_s=3 * harness.GUARD_S)
        self.assert_done(expected)
        with harness.Cluster(job, ps=1, workers=2) as cluster, self.slow_way_to(cluster.address("ps/0")) as relay:
            for name in cluster.names:
                cluster.start(name, cluster={**cluster.map, "ps": [f"127.0.0.1:{relay.port}"]}
                              if name == "worker/1" else None)
            cluster.processes["chief/0"].wait_for_line("epoch 1/")
            before = {name: process.memory_bytes("VmRSS") for name, process in cluster.processes.items()}
            served = [port for port in cluster.ports.numbers if strangers.is_listening(port)]
            self.assertGreaterEqual(len(served), 2, cluster.told())
            for port in served:
                attacker(port)
            if check:
                check([process for name, process in cluster.processes.items() if not name.startswith("worker")])
            for name, process in cluster.processes.items():
                lines = [line for line in process.stderr().split("\n") if " warning: " in line]
                self.assertLess(len(lines), 100, "the log was filled")
                self.assertIsNone(process.exit(), f"ended during the attack\n{process.told()}")
                growth = process.memory_bytes("VmHWM") - before[name]
                self.assertLessEqual(growth, self.growth_bytes, f"{name} grew by {growth >> 20} MiB")
            relay.delay_s = 0
            self.assertEqual(set(cluster.wait_all(3 * harness.GUARD_S).values()), {0}, cluster.told())
            self.assertEqual(cluster.summary()["digest"], expected.summary["digest"])

    def slow_way_to(self, address):
        return contextlib.closing(Relay(int(address.rsplit(":", 1)[1]), self.pace_s, "slow"))

    def test_random_bytes_do_no_harm(self):
        self.attack(lambda port: strangers.send_noise(port, port))

    def test_senseless_messages_do_no_harm(self):
        self.attack(lambda port: strangers.send_bad_messages(port, port))

    def test_a_message_of_a_gib_is_refused(self):
        answers = []
        self.attack(lambda port: answers.extend(strangers.send_huge_message(port)))
        # Each port serves one of the two methods; the other ends at once.
        self.assertEqual(sorted(code.name for code in answers),
                         ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "UNIMPLEMENTED"])

    def test_more_connections_than_the_soft_limit_of_files_do_no_harm(self):
        with harness.Cluster(self.job({"fit.epochs": 1}), ps=1, workers=1) as cluster:
            chief = cluster.start("chief/0", before=("sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh"))
            chief.wait_for_line("waiting for")
            crowd = strangers.Silent(cluster.ports.numbers[0], count=100)
            try:
                cluster.start("ps/0")
                cluster.start("worker/0")
                self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            finally:
                crowd.close()

    def closed_streams(self, process):
        """How many streams the process says to have closed or refused."""
        text = process.stderr()
        return (len(re.findall(r"(?:closing|refused) the stream from ipv4:127\.0\.0\.1:\d+: ", text))
                + sum(int(count) for count in re.findall(r"and (\d+) more streams were refused or closed", text)))

    def test_silent_clients_are_closed_by_name(self):
        """Who opens a call and says nothing has 10 s; if there are too many at one time, the oldest are closed."""
        crowds = []

        def check(processes):
            for crowd, process in zip(crowds, processes):
                process.wait_for(lambda crowd=crowd: crowd.left() == 0, "closing the silent connections")
                process.wait_for(lambda crowd=crowd, process=process:
                                 self.closed_streams(process) >= len(crowd.callers), "closing the silent calls")
                text = process.stderr()
                for reason in ("said nothing for 10 s", "too many streams that say no Hello"):
                    named = re.findall(rf"the stream from ipv4:127\.0\.0\.1:(\d+): .*{reason}", text)
                    self.assertTrue(named, f"\"{reason}\" is not said\n{text}")
                    self.assertLessEqual({int(port) for port in named}, crowd.callers)

        try:
            self.attack(lambda port: crowds.append(strangers.Silent(port)), check)
        finally:
            for crowd in crowds:
                crowd.close()

    def test_clients_that_let_no_answer_through_do_no_harm(self):
        """6,000 calls at each port; half of them are refused for their Hello, never take that, and so are closed."""
        crowds = []

        def check(processes):
            for process in processes:
                process.wait_for(lambda process=process: self.closed_streams(process) >= 2 * 3000,
                                 "refusing the calls, and then closing them")

        try:
            self.attack(lambda port: crowds.append(strangers.Deaf(port)), check)
        finally:
            for crowd in crowds:
                crowd.close()


if __name__ == "__main__":
    unittest.main()
