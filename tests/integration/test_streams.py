"""Standard input, output and error that are closed, full, or read by nobody."""
import json
import os
import subprocess

from case import ClusterCase, harness, unittest


class Streams(ClusterCase):
    def run_with(self, words, redirection="", **files):
        """`weir WORDS...` with a shell's redirection, to its end."""
        files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **files}
        return subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", harness.WEIR, *words], text=True,
                              timeout=harness.GUARD_S, check=False, **files)

    def each_way(self, *words):
        """`run` in one process, and in a cluster."""
        yield ["run", self.job(), *words]
        yield ["run", self.job(), "--ps", "1", *words]

    def test_a_job_goes_on_when_nobody_reads_its_progress(self):
        path = os.path.join(self.folder, "summary.json")
        for words in self.each_way("--summary", path):
            with self.subTest(words=words):
                reader, writer = os.pipe()
                os.close(reader)
                result = self.run_with(words, stderr=writer)
                os.close(writer)
                self.assertEqual(result.returncode, 0)
                self.assertIn(harness.load_summary(path)["digest"], result.stdout)
                os.remove(path)

    def test_a_result_that_nobody_reads_is_an_error(self):
        for words in self.each_way():
            with self.subTest(words=words):
                reader, writer = os.pipe()
                os.close(reader)
                result = self.run_with(words, stdout=writer)
                os.close(writer)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("standard output", result.stderr)

    def test_a_result_that_cannot_be_written_is_an_error(self):
        for more in (), ("--json",), ("--json", "--quiet"):
            for words in self.each_way(*more):
                with self.subTest(words=words):
                    result = self.run_with(words, ">/dev/full")
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertIn("standard output", result.stderr)

    def test_closed_files_are_as_good_as_none(self):
        path = os.path.join(self.folder, "summary.json")
        for redirection in "<&-", ">&-", "2>&-", "<&- >&- 2>&-":
            for words in self.each_way("--summary", path):
                with self.subTest(words=words, redirection=redirection):
                    result = self.run_with(words, redirection)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    digest = harness.load_summary(path)["digest"]
                    if ">&-" not in redirection.replace("2>&-", ""):
                        self.assertIn(digest, result.stdout)
                    os.remove(path)

    def test_help_and_check_say_when_they_could_not_be_written(self):
        check = ["check", self.job()]
        for words in ["--help"], ["--version"], ["help", "job"], check, [*check, "--json"]:
            with self.subTest(words=words):
                self.assertEqual(self.run_with(words, ">/dev/full").returncode, 1)
                self.assertEqual(self.run_with(words).returncode, 0)
        self.assertTrue(json.loads(self.run_with(["check", self.job(), "--json"]).stdout)["ok"])


if __name__ == "__main__":
    unittest.main()
