"""The purity test against small libraries that break it, compiled here."""
import os
import subprocess
import tempfile
import unittest

import purity


class Purity(unittest.TestCase):
    def violations(self, text, *flags):
        """What purity.py says of a library compiled from this C."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.c")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            archive = os.path.join(folder, "libweir_x.a")
            subprocess.run(["gcc", "-O1", *flags, "-c", path, "-o", path + ".o"], check=True)
            subprocess.run(["ar", "rc", archive, path + ".o"], check=True)
            return list(purity.violations([archive]))

    def test_impure_calls_are_named(self):
        for name in ("malloc", "printf", "time", "clock_gettime", "pthread_create", "open", "weir_log"):
            found = self.violations(f"extern void {name}(void *);\nvoid f(void *a) {{ {name}(a); }}\n",
                                    "-fno-builtin", "-w")
            self.assertEqual(len(found), 1, found)
            self.assertIn(f"calls {name}", found[0])

    def test_what_pure_code_needs_is_allowed(self):
        text = """#include <assert.h>
            #include <string.h>
            extern void weir_random_block(void);
            extern int weir_error_set(void);
            void weir_other(int a);
            void f(char *a, int n) { assert(n > 2); memcpy(a, a + n, n); weir_random_block(); weir_error_set();
                                     weir_other(strlen(a)); }
            void weir_other(int a) { (void)a; }
            static const char *const names[] = {"a", "b"};
            const char *weir_name(int i) { return names[i]; }
            """
        self.assertEqual(self.violations(text, "-fPIE"), [])
        self.assertEqual(self.violations(text, "-fPIE", "-fsanitize=address,undefined"), [])

    def test_variables_that_can_change_are_named(self):
        for text in ("int counter;", "static int counter = 3; int f(void) { return counter++; }",
                     "int f(void) { static int counter; return counter++; }", "_Thread_local int counter;"):
            for flags in ((), ("-fsanitize=address",), ("-fdata-sections",)):
                found = self.violations(text + "\n", *flags)
                self.assertEqual(len(found), 1, (text, found))
                self.assertIn("variable counter", found[0])


if __name__ == "__main__":
    unittest.main()
