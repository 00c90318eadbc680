"""kill -9 at any role and moment. The chief, a parameter server, or anybody before the job has begun: every survivor
says who is gone, by role, index and address, and exits 1. A worker later on: the job goes on (test_workers.py)."""
import contextlib
import os
import signal
import socket
import time

from case import ClusterCase, harness, unittest

VICTIMS = ("chief/0", "ps/1", "worker/1")
NEEDED = ("chief/0", "ps/1")


class Kill(ClusterCase):
    def check_survivors(self, cluster, victim, since, moment):
        """All others end by themselves, in time, each naming the victim."""
        codes = cluster.wait_all()
        self.measured(f"kill {victim} {moment}: until all had ended", time.monotonic() - since)
        self.assertEqual(codes.pop(victim), -signal.SIGKILL)
        for name, code in codes.items():
            self.assertEqual(code, 1, cluster.processes[name].told())
            self.assert_names(cluster.stderr(name), cluster, victim)

    def check_that_it_goes_on(self, cluster, victim, since, moment):
        """Epochs go on; then the chief is told to stop, and all end."""
        chief = cluster.processes["chief/0"]
        chief.wait_for_line("1 of 2 workers are there")
        self.measured(f"kill {victim} {moment}: until it was lost", time.monotonic() - since)
        self.assert_names(chief.stderr(), cluster, victim)
        done = chief.stderr().count(" info: epoch ")
        harness.wait_until(lambda: chief.stderr().count(" info: epoch ") > done + 1, "more epochs",
                           evidence=cluster.told)
        cluster.kill("chief/0", signal.SIGTERM)
        codes = cluster.wait_all()
        self.assertEqual(codes.pop(victim), -signal.SIGKILL)
        self.assertEqual(set(codes.values()), {1}, cluster.told())

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
        for victim in NEEDED:
            self.kill_when(job, victim, "in a step", self.wait_for_an_epoch)

    def test_in_validation(self):
        """worker/0 stands still, and the chief says that all wait for its part of a validation: nothing can go on
        then, and the kill falls into it."""
        job = self.job({"fit.epochs": 100000, "fit.steps_per_epoch": 1, "cluster.lease_ms": 8000, "data.validation": {
            "format": "idx", "x": "train-images-idx3-ubyte", "y": "train-labels-idx1-ubyte"}})
        for victim in VICTIMS:
            with self.subTest(victim=victim), harness.Cluster(job, ps=2, workers=2) as cluster:
                cluster.start_all()
                self.wait_for_an_epoch(cluster)
                self.stop_in_validation(cluster, "worker/0")
                since = time.monotonic()
                cluster.kill(victim)
                cluster.kill("worker/0", signal.SIGCONT)
                check = self.check_survivors if victim in NEEDED else self.check_that_it_goes_on
                check(cluster, victim, since, "in validation")

    def stop_in_validation(self, cluster, name):
        """Stops that worker until this falls into a validation: in a step, it goes on and is stopped again."""
        chief = cluster.processes["chief/0"]
        begin = f"waiting for {name} at {cluster.address(name)} (says ps/0): "
        for _ in range(10):
            before = chief.stderr().count(" info: " + begin)
            cluster.kill(name, signal.SIGSTOP)
            harness.wait_until(lambda: chief.stderr().count(" info: " + begin) > before, f"chief/0 to say {begin}",
                               evidence=cluster.told)
            if "the validation after step" in chief.stderr().split(begin)[-1]:
                return
            cluster.kill(name, signal.SIGCONT)
            done = chief.stderr().count(" info: epoch ")  # a wait of usual length is not told: many short ones first
            harness.wait_until(lambda: chief.stderr().count(" info: epoch ") > done + 300, "the job to go on",
                               evidence=cluster.told)
        self.fail(f"no stop of {name} fell into a validation\n{cluster.told()}")

    @staticmethod
    def wait_for_an_epoch(cluster):
        cluster.processes["chief/0"].wait_for_line("epoch 1/")

    def test_at_the_end(self):
        """The weights go to a pipe that nobody reads yet: training is over, all are still there, the result is not
        written. The kill falls into that; then the pipe is read, and the result is whole."""
        for victim in VICTIMS:
            job = self.job({"fit.epochs": 1, "data.validation": None, "cluster.lease_ms": 5000})
            with self.subTest(victim=victim), harness.Cluster(job, ps=2, workers=2) as cluster:
                pipe = os.path.join(cluster.folder, "weights")
                os.mkfifo(pipe)
                cluster.start("chief/0", weights=pipe)
                cluster.start_all([name for name in cluster.names if name != "chief/0"])
                for name in ("ps/0", "worker/0"):
                    cluster.processes[name].wait_for_line(
                        f"waiting for chief/0 at {cluster.address('chief/0')}: the end of the job")
                self.assertIsNone(cluster.summary())
                since = time.monotonic()
                cluster.kill(victim)
                if victim == "chief/0":
                    self.check_survivors(cluster, victim, since, "at the end")
                    continue
                with open(pipe, "rb") as file:
                    self.assertIn(b'"hidden/kernel"', file.read())
                codes = cluster.wait_all()
                self.measured(f"kill {victim} at the end: until all had ended", time.monotonic() - since)
                self.assertEqual(codes.pop(victim), -signal.SIGKILL)
                self.assertEqual(set(codes.values()), {0}, cluster.told())
                self.assertEqual(len(cluster.summary()["digest"]), 64)


class KillRun(ClusterCase):
    """`weir run` and its children."""

    def long(self):
        return self.job({"fit.epochs": 100000})

    def test_when_the_run_itself_is_killed_nothing_stays(self):
        with harness.Run(self.long(), ps=2, workers=2) as run:
            run.process.wait_for_line("epoch 1/")
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

    def test_a_child_that_is_killed_before_all_have_joined_ends_the_run(self):
        """At once when it has a name, which is before it joins, as a rule; the chief then says no view."""
        for victim in ("worker/1", "ps/1", "chief/0"):
            with self.subTest(victim=victim):
                self.assertTrue(any(self.kill_at_the_start(victim) for _ in range(20)), "all had joined each time")

    def kill_at_the_start(self, victim):
        """True if the kill came before all had joined."""
        with harness.Run(self.long(), ps=2, workers=2) as run:
            pid = harness.wait_until(lambda: run.children().get(victim), f"{victim} to start",
                                     evidence=run.process.told)
            since = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            harness.wait_until(lambda: run.process.exit() is not None or "started again" in run.process.stderr(),
                               "the run to end, or to go on", evidence=run.process.told)
            if run.process.exit() is None:  # all had joined, and a worker may be lost then
                run.process.signal(signal.SIGTERM)
                run.process.wait()
                return False
            self.assertEqual(run.process.exit(), 1, run.process.told())
            self.measured(f"kill {victim} of weir run before all had joined: until it had ended",
                          time.monotonic() - since)
            self.assertIn(f"{victim} ended with signal 9", run.process.stderr())
            return " epochs of " not in run.process.stderr()

    def test_a_child_that_cannot_start_ends_the_run(self):
        """ps/1's port is taken: it is gone before it has joined, and the chief alone would wait for it."""
        with contextlib.closing(harness.Ports(5)) as ports, socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", ports.numbers[2]))
            taken.listen()
            result = harness.run_command("run", self.long(),
                                         *harness.flag_words({"ps": 2, "workers": 2, "port": ports.numbers[0]}),
                                         guard_s=harness.GUARD_S / 2)  # of the 30 s that a group's grace has at most
            self.assertEqual(result.exit, 1, result.told)
            self.assertRegex(result.stderr, f"ps/1 error: .*127.0.0.1:{ports.numbers[2]}.* in use")
            self.assertIn("the job failed: ps/1 ended with", result.stderr)

    def test_when_a_child_is_killed_the_run_names_it_and_exits_1(self):
        for victim in NEEDED:
            with self.subTest(victim=victim), harness.Run(self.long(), ps=2, workers=2) as run:
                run.process.wait_for_line("epoch 1/")
                children = run.children()
                self.assertIn(victim, children)
                since = time.monotonic()
                os.kill(children[victim], signal.SIGKILL)
                self.assertEqual(run.process.wait(2 * harness.GUARD_S), 1, run.process.told())
                self.measured(f"kill {victim} of weir run: until it had ended", time.monotonic() - since)
                self.assertIn(victim, run.process.stderr())


if __name__ == "__main__":
    unittest.main()
