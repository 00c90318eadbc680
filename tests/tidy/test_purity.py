"""The tests of purity and symbols against small libraries that break them, compiled here."""
import os
import subprocess
import tempfile
import unittest

import purity
import symbols


def compiled(folder, name, text, *flags):
    """The path of a library made from this C."""
    source = os.path.join(folder, name + ".c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    archive = os.path.join(folder, f"libweir_{name}.a")
    subprocess.run(["gcc", "-O1", *flags, "-c", source, "-o", source + ".o"], check=True)
    subprocess.run(["ar", "rc", archive, source + ".o"], check=True)
    return archive


class Purity(unittest.TestCase):
    def violations(self, text, *flags):
        with tempfile.TemporaryDirectory() as folder:
            return list(purity.violations([compiled(folder, "x", text, *flags)]))

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


class Symbols(unittest.TestCase):
    def violations(self, *texts):
        with tempfile.TemporaryDirectory() as folder:
            return list(symbols.violations([compiled(folder, f"x{i}", text) for i, text in enumerate(texts)]))

    def test_what_crosses_files_begins_with_weir(self):
        self.assertEqual(self.violations("int weir_a; static int b(void) { return 1; } int (*weir_c)(void) = b;"), [])
        self.assertIn("defines b;", self.violations("int b(void) { return 1; }")[0])

    def test_no_name_is_defined_twice(self):
        self.assertEqual(self.violations("int weir_a;", "extern int weir_a; int weir_b;"), [])
        self.assertIn("weir_a, as libweir_x0.a does", self.violations("int weir_a = 1;", "int weir_a = 2;")[0])


if __name__ == "__main__":
    unittest.main()
