"""The harness itself, with a shell script in weir's place: it finds what stays behind and never waits for ever."""
import contextlib
import os
import signal
import socket
import tempfile
import unittest

import harness


class Harness(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "weir")
        before = harness.WEIR
        harness.WEIR = self.program
        self.addCleanup(setattr, harness, "WEIR", before)

    def script(self, text):
        with open(self.program, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.program, 0o755)

    def test_a_run_gives_exit_code_output_and_summary(self):
        self.script('echo out; echo "$*" >&2; while [ "$1" != --summary ]; do shift; done; echo "{}" >"$2"; exit 3\n')
        result = harness.run_job("job.json", ps=1, workers=2, epochs=4, set={"seed": 5, "a.b": "c"})
        self.assertEqual((result.exit, result.stdout, result.summary), (3, "out\n", {}))
        self.assertIn("run job.json --ps 1 --workers 2 --port", result.stderr)
        self.assertIn("--epochs 4 --set seed=5 --set a.b=c", result.stderr)

    def test_a_process_that_does_not_end_is_killed_and_told_of(self):
        self.script("echo I am stuck >&2; exec sleep 1000\n")
        with self.assertRaisesRegex(harness.GuardTimeout, "I am stuck"):
            harness.run_job("job.json", guard_s=0.5)

    def test_a_process_that_stays_behind_is_found_and_killed(self):
        self.script("sleep 1000 >/dev/null 2>&1 </dev/null & exit 0\n")
        cluster = harness.Cluster("job.json", ps=0, workers=1)
        with self.assertRaisesRegex(AssertionError, "processes were left"), cluster:
            cluster.start("worker/0")
        session = cluster.processes["worker/0"].pid
        harness.wait_until(lambda: not harness.processes_of(session), "the sleeper to be gone", 5)

    def test_a_listening_socket_that_stays_behind_is_found(self):
        with contextlib.closing(harness.Ports(1)) as ports, socket.socket() as listener:
            self.assertEqual(harness.sockets_on(set(ports.numbers)), [])
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", ports.numbers[0]))
            listener.listen()
            self.assertEqual(len(harness.sockets_on(set(ports.numbers))), 1)

    def test_ports_are_free_in_a_row_and_given_once(self):
        with contextlib.closing(harness.Ports(50)) as first, contextlib.closing(harness.Ports(50)) as second:
            self.assertEqual(first.numbers, list(range(first.numbers[0], first.numbers[0] + 50)))
            self.assertFalse(set(first.numbers) & set(second.numbers))

    def test_roles_get_their_place_in_the_cluster_by_tf_config(self):
        self.script('echo "$TF_CONFIG" >&2; [ "$1" = start ]\n')
        with harness.Cluster("job.json", ps=1, workers=2) as cluster:
            cluster.start_all()
            self.assertEqual(set(cluster.wait_all().values()), {0})
            for name in cluster.names:
                self.assertIn(cluster.address(name), cluster.stderr(name))
            self.assertIn('"task": {"type": "worker", "index": 1}', cluster.stderr("worker/1"))

    def test_waiting_for_a_line_ends_with_the_process(self):
        self.script("echo something else >&2\n")
        with harness.Cluster("job.json", ps=0, workers=1) as cluster:
            with self.assertRaisesRegex(AssertionError, "ended .0. without saying"):
                cluster.start("worker/0").wait_for_line("this")

    def test_a_killed_role_has_its_signal_as_exit_code(self):
        self.script("echo there >&2; exec sleep 1000\n")
        with harness.Cluster("job.json", ps=0, workers=1) as cluster:
            cluster.start("worker/0").wait_for_line("there")
            cluster.kill("worker/0")
            self.assertEqual(cluster.wait_all(), {"worker/0": -signal.SIGKILL})


if __name__ == "__main__":
    unittest.main()
