"""How a cluster starts and what stops it: order, wrong addresses, other jobs, Ctrl-C, exit codes."""
import contextlib
import os
import signal
import socket
import subprocess

from case import ClusterCase, harness, jobs, unittest


class Order(ClusterCase):
    def test_roles_may_start_in_any_order(self):
        digests = set()
        job = self.job({"replicas": 2, "fit.epochs": 1})
        for order in (["chief/0", "ps/0", "ps/1", "worker/0", "worker/1"],
                      ["worker/1", "worker/0", "ps/1", "ps/0", "chief/0"],
                      ["ps/1", "worker/0", "chief/0", "worker/1", "ps/0"]):
            with self.subTest(order=order), harness.Cluster(job, ps=2, workers=2) as cluster:
                cluster.start_all(order)
                self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
                digests.add(cluster.summary()["digest"])
        self.assertEqual(len(digests), 1)

    def test_those_who_came_first_wait_for_the_last(self):
        """The last role starts only after another has said that it waits for it."""
        for last in ("chief/0", "ps/0", "worker/1"):
            with self.subTest(last=last), harness.Cluster(self.job({"fit.epochs": 1}), ps=1, workers=2) as cluster:
                cluster.start_all([name for name in cluster.names if name != last])
                watcher = "worker/0" if last == "chief/0" else "chief/0"
                cluster.processes[watcher].wait_for_line(last)
                cluster.start(last)
                self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())

    def test_worker_0_is_the_chief_where_none_is_named(self):
        with harness.Cluster(self.job({"fit.epochs": 1}), ps=1, workers=2, chief=False) as cluster:
            cluster.start("worker/0", summary=cluster.summary_path)
            cluster.start("worker/1")
            cluster.start("ps/0")
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            self.assertEqual(cluster.summary()["workers"], 2)


class Wrong(ClusterCase):
    def short(self, **changes):
        return self.job({"cluster.start_timeout_s": 3, "fit.epochs": 1, **changes})

    def test_a_port_in_use_is_named(self):
        for name in ("chief/0", "ps/0"):
            with self.subTest(name=name), harness.Cluster(self.short()) as cluster, socket.socket() as taken:
                host, port = cluster.address(name).split(":")
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.bind((host, int(port)))
                taken.listen()
                process = cluster.start(name)
                self.assertEqual(process.wait(), 1, process.told())
                self.assertIn(cluster.address(name), process.stderr())
                self.assertIn("in use", process.stderr())

    def test_a_run_whose_data_is_missing_starts_nothing(self):
        result = harness.run_command("run", self.job(), "--ps", "1", "--data", "/dev/shm")
        self.assertEqual(result.exit, 1, result.told)
        self.assertIn("/dev/shm/train-images-idx3-ubyte", result.stderr)
        self.assertNotIn("chief/0", result.stderr)

    def test_a_run_whose_port_is_in_use_ends_at_once(self):
        """The start's own time is longer than the guard, and so is the time for the others to notice by themselves."""
        with contextlib.closing(harness.Ports(3)) as ports, socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", ports.numbers[1]))
            taken.listen()
            result = harness.run_command("run", self.job({"cluster.start_timeout_s": 600}), "--ps", "1", "--port",
                                         str(ports.numbers[0]), guard_s=harness.GUARD_S)
            self.assertEqual(result.exit, 1, result.told)
            self.assertIn(f"127.0.0.1:{ports.numbers[1]}: port in use", result.stderr)
            self.assertIn("ps/0 ended with exit status 1", result.stderr)
            self.assertNotIn("still running", result.stderr)

    def test_an_own_name_that_is_not_known_is_waited_for_and_named(self):
        with harness.Cluster(self.short()) as cluster:
            chief = cluster.start("chief/0", cluster={**cluster.map, "chief": ["no-such-name.invalid:2222"]})
            chief.wait_for_line("waiting for this machine's own name, no-such-name.invalid:2222")
            self.assertEqual(chief.wait(), 1, chief.told())
            self.assertIn("no-such-name.invalid:2222: cannot find this host", chief.stderr())

    @unittest.skipIf(subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode,
                     "needs the right to mount")
    def test_an_own_name_that_becomes_known_later_is_taken(self):
        """Only the chief sees another /etc/hosts, in which its name comes to stand."""
        hosts = os.path.join(self.folder, "hosts")
        with open(hosts, "w", encoding="ascii"), harness.Cluster(self.job({"fit.epochs": 1})) as cluster:
            port = cluster.address("chief/0").split(":")[1]
            named = {**cluster.map, "chief": [f"chief.weir.invalid:{port}"]}
            chief = cluster.start("chief/0", cluster=named, before=(
                "unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"))
            cluster.start("ps/0")
            cluster.start("worker/0")
            chief.wait_for_line("waiting for this machine's own name")
            with open(hosts, "a", encoding="ascii") as file:
                file.write("127.0.0.1 chief.weir.invalid\n")
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())

    def test_an_address_of_another_machine_may_lead_here(self):
        """The chief's own address is that of a NAT, say; the others reach it by another one."""
        with harness.Cluster(self.job({"fit.epochs": 1})) as cluster:
            port = cluster.address("chief/0").split(":")[1]
            chief = cluster.start("chief/0", cluster={**cluster.map, "chief": [f"198.51.100.1:{port}"]})
            cluster.start("ps/0")
            cluster.start("worker/0")
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.told())
            self.assertIn(f"198.51.100.1:{port} is no address of this machine", chief.stderr())

    def test_a_run_with_more_roles_than_its_processors_can_carry_says_so(self):
        cpu = str(min(os.sched_getaffinity(0)))
        for servers, crowd in ((8, True), (1, False)):
            with self.subTest(servers=servers):
                result = subprocess.run(["taskset", "-c", cpu, harness.WEIR, "run", self.job({
                    "fit.epochs": 1, "cluster.lease_ms": 30000}), "--ps", str(servers), "--workers", "8"],
                    capture_output=True, text=True, timeout=harness.GUARD_S, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual("17 roles share 1 CPU:" in result.stderr, crowd, result.stderr)

    def test_a_wrong_address_is_named_with_its_role(self):
        """The chief is told another address for worker/0 than that worker has; then the time for starting ends."""
        with harness.Cluster(self.short(), ps=1, workers=1) as cluster, contextlib.closing(harness.Ports(1)) as other:
            elsewhere = {**cluster.map, "worker": [f"127.0.0.1:{other.numbers[0]}"]}
            cluster.start("chief/0", cluster=elsewhere)
            cluster.start("ps/0")
            self.assertEqual(set(cluster.wait_all().values()), {1}, cluster.told())
            self.assertIn("worker/0", cluster.stderr("chief/0"))
            self.assertIn(f"127.0.0.1:{other.numbers[0]}", cluster.stderr("chief/0"))

    def test_a_missing_role_is_named_when_the_time_for_starting_is_over(self):
        for missing in ("ps/0", "worker/1", "chief/0"):
            with self.subTest(missing=missing), harness.Cluster(self.short(), ps=1, workers=2) as cluster:
                cluster.start_all([name for name in cluster.names if name != missing])
                self.assertEqual(set(cluster.wait_all().values()), {1}, cluster.told())
                watcher = "worker/0" if missing == "chief/0" else "chief/0"
                self.assert_names(cluster.stderr(watcher), cluster, missing)

    def test_roles_with_other_jobs_are_refused_by_the_keys_that_differ(self):
        with harness.Cluster(self.short(), ps=1, workers=1) as cluster:
            cluster.start("chief/0")
            cluster.start("ps/0")
            odd = cluster.start("worker/0", batch_size=32, seed=7)
            self.assertNotIn(0, cluster.wait_all().values(), cluster.told())
            for key in ("batch_size", "seed", "32", "64"):
                self.assertIn(key, odd.stderr())
            self.assertNotIn("epochs", odd.stderr())


class Stop(ClusterCase):
    def long(self):
        return self.job({"fit.epochs": 100000, "replicas": 2})

    def test_control_c_ends_a_run_with_all_its_roles(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number), harness.Run(self.long(), ps=1, workers=2) as run:
                run.process.wait_for_line("epoch 1/")
                run.process.signal(number)
                self.assertNotIn(run.process.wait(), (0, None), run.process.told())
                run.wait_for_processes()

    def test_control_c_before_everybody_is_there_ends_the_run(self):
        with harness.Run(self.long(), ps=2, workers=2) as run:
            harness.wait_until(run.children, "the first child", evidence=run.process.told)
            run.process.signal(signal.SIGINT)
            self.assertNotIn(run.process.wait(), (0, None), run.process.told())
            run.wait_for_processes()

    def test_control_c_at_a_worker_ends_that_one(self):
        with harness.Cluster(self.long(), ps=1, workers=2) as cluster:
            cluster.start_all()
            chief = cluster.processes["chief/0"]
            chief.wait_for_line("epoch 1/")
            cluster.kill("worker/1", signal.SIGINT)
            self.assertEqual(cluster.processes["worker/1"].wait(), 143, cluster.told())
            chief.wait_for_line(f"worker/1 at {cluster.address('worker/1')} is drained; 1 of 2 workers are there")
            cluster.kill("chief/0", signal.SIGINT)
            self.assertEqual(set(cluster.wait_all().values()), {1, 143}, cluster.told())

    def test_control_c_at_a_role_that_is_needed_ends_all(self):
        for name in ("chief/0", "ps/0"):
            with self.subTest(name=name), harness.Cluster(self.long(), ps=1, workers=2) as cluster:
                cluster.start_all()
                cluster.processes["chief/0"].wait_for_line("epoch 1/")
                cluster.kill(name, signal.SIGINT)
                self.assertNotIn(0, cluster.wait_all().values(), cluster.told())
                for other in set(cluster.names) - {name}:
                    self.assertIn(name, cluster.stderr(other))


class Results(ClusterCase):
    def test_a_result_that_cannot_be_written_is_known_at_the_start(self):
        """Before anything is trained: exit 2, with flag, path and reason, and the folder as it was."""
        before = set(os.listdir(self.folder))
        job = self.job({"fit.epochs": 100000})
        for flag in ("weights", "summary"):
            for path, why in ((f"{self.folder}/missing/file", "No such file"), (self.folder, "directory")):
                for shape in ({}, {"ps": 1, "workers": 1}):
                    with self.subTest(flag=flag, path=path, shape=shape):
                        words = harness.flag_words({**shape, flag: path})
                        result = harness.run_command("run", job, *words)
                        self.assertEqual(result.exit, 2, result.told)
                        self.assertRegex(result.stderr, f"--{flag}: cannot write {path}: .*{why}")
        self.assertEqual(set(os.listdir(self.folder)) - before, {"job.json", "model.json"})

    def test_a_job_that_fails_leaves_no_empty_result(self):
        with harness.Cluster(self.job({"fit.epochs": 100000}), ps=1, workers=1) as cluster:
            weights = os.path.join(cluster.folder, "weights.safetensors")
            cluster.start("chief/0", weights=weights)
            cluster.start("ps/0")
            cluster.start("worker/0")
            cluster.processes["chief/0"].wait_for_line("epoch 1/")
            cluster.kill("ps/0")
            cluster.wait_all()
            self.assertFalse([name for name in os.listdir(cluster.folder)
                              if name.startswith(("weights", "summary"))])


class StopInAStep(ClusterCase):
    """A step that takes longer than the guard time: nobody waits for its end."""

    def slow(self):
        return self.job({"fit.batch_size": 256, "replicas": 1, "cluster.lease_ms": 5000}, jobs.endless())

    def test_control_c_ends_a_run_of_one_process(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number), harness.Run(self.slow()) as run:
                run.process.wait_for_line("computes")
                run.process.wait_until_busy()
                run.process.signal(number)
                self.assertEqual(run.process.wait(), 1, run.process.told())
                errors = [line for line in run.process.stderr().split("\n") if " error: " in line]
                self.assertEqual(len(errors), 1, run.process.told())
                self.assertIn("told to stop", errors[0])

    def test_a_second_control_c_ends_it_at_once(self):
        with harness.Run(self.slow()) as run:
            run.process.wait_for_line("computes")
            run.process.wait_until_busy()
            for _ in range(2):
                run.process.signal(signal.SIGINT)
            self.assertIn(run.process.wait(), (1, -signal.SIGINT), run.process.told())

    def test_control_c_ends_a_cluster(self):
        with harness.Run(self.slow(), ps=1, workers=1) as run:
            run.process.wait_for_line("computes")
            run.process.wait_until_busy()
            run.process.signal(signal.SIGINT)
            self.assertEqual(run.process.wait(), 1, run.process.told())
            self.assertNotIn("SIGKILL", run.process.stderr())

    def test_a_worker_that_lost_its_chief_ends(self):
        with harness.Cluster(self.slow(), ps=1, workers=1) as cluster:
            cluster.start_all()
            cluster.processes["worker/0"].wait_for_line("computes")
            cluster.processes["worker/0"].wait_until_busy()
            cluster.kill("chief/0")
            self.assertEqual(cluster.processes["worker/0"].wait(), 1, cluster.told())
            self.assert_names(cluster.stderr("worker/0"), cluster, "chief/0")


class ExitCodes(ClusterCase):
    def test_a_finished_job_exits_0(self):
        result = harness.run_job(self.job({"fit.epochs": 1}), ps=1, workers=1)
        self.assert_done(result)

    def test_wrong_use_exits_2_and_says_what_is_right(self):
        for words, hint in (([], "weir run"), (["rnu"], "run"), (["run"], "weir run job.json"),
                            (["run", self.job(), "--worker", "2"], "--workers"),
                            (["run", self.job(), "--workers", "2x"], "2x"),
                            (["start", "no/such/job.json"], "no/such/job.json")):
            with self.subTest(words=words):
                result = harness.run_command(*words)
                self.assertEqual(result.exit, 0 if not words else 2, result.told)
                self.assertIn(hint, result.stderr + result.stdout)


if __name__ == "__main__":
    unittest.main()
