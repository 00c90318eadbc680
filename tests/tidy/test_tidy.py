"""Each rule of the tidy test, against a small tree that breaks it, and against one that does not."""
import os
import tempfile
import unittest

import checks_c
import checks_tree
import source

LIBRARIES = {
    "common/base/CMakeLists.txt": "weir_library(base)\n",
    "common/protocol/CMakeLists.txt": "weir_library(protocol DEPENDS weir_base)\n",
    "common/transport/CMakeLists.txt": "weir_library(transport DEPENDS weir_base)\n",
    "common/wire/CMakeLists.txt": "weir_library(wire DEPENDS weir_protocol)\n",
    "common/runtime/CMakeLists.txt": "weir_library(runtime DEPENDS weir_base)\n",
    "ps/CMakeLists.txt": "weir_library(ps DEPENDS weir_protocol)\n",
    "ps/engine/CMakeLists.txt": "weir_library(engine DEPENDS weir_base)\n",
    "worker/CMakeLists.txt": "weir_library(worker DEPENDS weir_protocol)\n",
    "worker/model/CMakeLists.txt": "weir_library(model DEPENDS weir_base)\n",
    "chief/CMakeLists.txt": "weir_library(chief DEPENDS weir_protocol)\n",
    "cli/CMakeLists.txt": "weir_library(cli)\n",
}


class TidyCase(unittest.TestCase):
    def tree(self, files):
        """A tree of these files (path -> text) in a folder that goes away with the test."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for path, text in files.items():
            whole = os.path.join(folder.name, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "w", encoding="utf-8") as file:
                file.write(text)
        return source.Tree(folder.name)

    def found(self, check, files, *more):
        return list(check(self.tree(files), *more))

    def assert_caught(self, check, path, text, words):
        found = self.found(check, {**LIBRARIES, path: text})
        self.assertEqual(len(found), 1, found)
        self.assertIn(path, found[0])
        self.assertIn(words, found[0])

    def assert_clean(self, check, path, text):
        self.assertEqual(self.found(check, {**LIBRARIES, path: text}), [])


class Includes(TidyCase):
    def test_a_layer_may_not_include_what_stands_above_it(self):
        self.assert_caught(checks_c.check_includes, "common/base/a.c", '#include "protocol/x.h"\n', "below")
        self.assert_caught(checks_c.check_includes, "common/wire/a.c", '#include "runtime/x.h"\n', "below")
        self.assert_clean(checks_c.check_includes, "common/runtime/a.c", '#include "transport/x.h"\n')

    def test_roles_never_include_each_other(self):
        for user, used in (("ps/a.c", "worker"), ("worker/model/a.c", "engine"), ("ps/engine/a.c", "chief")):
            found = self.found(checks_c.check_includes, {**LIBRARIES, user: f'#include "{used}/x.h"\n'})
            self.assertEqual(len(found), 1, found)
            self.assertRegex(found[0], "roles never|is pure")
        self.assert_clean(checks_c.check_includes, "cli/a.c", '#include "worker/x.h"\n#include "chief/x.h"\n')

    def test_a_pure_library_includes_only_what_is_pure(self):
        self.assert_caught(checks_c.check_includes, "chief/a.c", '#include "transport/x.h"\n', "pure")
        self.assert_caught(checks_c.check_includes, "worker/a.c", '#include "model/x.h"\n', "pure")
        self.assert_clean(checks_c.check_includes, "worker/a.c", '#include "protocol/x.h"\n#include "base/x.h"\n')

    def test_a_library_without_a_layer_is_named(self):
        found = self.found(checks_c.check_includes, {"common/odd/CMakeLists.txt": "weir_library(odd)\n"})
        self.assertIn("odd has no layer", found[0])

    def test_each_foreign_header_has_its_one_place(self):
        for path, header in (("cli/a.c", "grpc/grpc.h"), ("common/transport/loopback.c", "grpc/byte_buffer.h"),
                             ("common/runtime/a.c", "weir.pb-c.h"), ("worker/model/a.c", "dnnl.h"),
                             ("worker/model/a.c", "oneapi/dnnl/dnnl.h"), ("tests/unit/x/test_a.c", "grpc/grpc.h")):
            self.assert_caught(checks_c.check_includes, path, f"#include <{header}>\n", "only common/")
        self.assert_clean(checks_c.check_includes, "common/transport/grpc_stream.c", "#include <grpc/grpc.h>\n")
        self.assert_clean(checks_c.check_includes, "common/wire/a.c", '#include "weir.pb-c.h"\n')

    def test_includes_name_their_library(self):
        files = {**LIBRARIES, "ps/a.c": '#include "a.h"\n', "ps/a.h": "/* A. */\n"}
        self.assertIn("write it as ps/a.h", self.found(checks_c.check_includes, files)[0])

    def test_a_test_may_not_include_the_program(self):
        self.assert_caught(checks_c.check_includes, "tests/unit/ps/test_a.c", '#include "../ps/a.c"\n', "program")


class Calls(TidyCase):
    def test_each_banned_call_is_caught(self):
        for name in ("strcpy", "strcat", "sprintf", "gets", "atoi", "atol", "rand", "srand", "strtok", "alloca",
                     "system", "exit", "abort", "_exit"):
            self.assert_caught(checks_c.check_banned_calls, "ps/a.c", f"void f(void)\n{{\n    {name}(x);\n}}\n",
                               f"calls {name};")

    def test_only_the_command_line_and_out_of_memory_end_the_process(self):
        self.assert_clean(checks_c.check_banned_calls, "cli/a.c", "    exit(1);\n")
        self.assert_clean(checks_c.check_banned_calls, "common/base/memory.c", "    abort();\n")

    def test_tests_do_not_sleep(self):
        self.assert_caught(checks_c.check_banned_calls, "tests/unit/ps/test_a.c", "    usleep(5);\n", "wait for")
        self.assert_caught(checks_c.check_sleeps_in_python, "tests/integration/a.py", "time.sleep(1)\n", "wait for")

    def test_names_in_comments_and_strings_and_longer_names_are_no_calls(self):
        text = ('/* strcpy(a) */\n// atoi(b)\nchar *t = "system(x)";\n'
                '    weir_random(1); snprintf(a); my_exit(); a.exit(1);\n')
        self.assert_clean(checks_c.check_banned_calls, "ps/a.c", text)

    def test_numbers_are_parsed_in_one_file(self):
        one = {"cli/a.c": "    strtol(a, &b, 10);\n"}
        self.assertEqual(self.found(checks_c.check_number_parsers, one), [])
        two = {**one, "ps/b.c": "    strtoull (a, &b, 10);\n"}
        self.assertEqual(len(self.found(checks_c.check_number_parsers, two)), 2)


class Shape(TidyCase):
    def test_a_function_has_at_most_70_lines(self):
        def function(lines):
            return "int f(void)\n{\n" + "    g();\n" * (lines - 2) + "}\n"
        self.assert_clean(checks_c.check_function_lengths, "ps/a.c", function(70))
        self.assert_caught(checks_c.check_function_lengths, "ps/a.c", function(71), "71 lines")

    def test_scripts_have_short_functions_too(self):
        self.assert_caught(checks_tree.check_script_functions, "a.py", "def f():\n" + "    g()\n" * 70, "71 lines")
        self.assert_caught(checks_tree.check_script_functions, "a.sh", "f() {\n" + "    g\n" * 69 + "}\n", "71 lines")
        self.assert_caught(checks_tree.check_script_functions, "a.py", "def f(:\n", "invalid syntax")

    def test_a_file_has_fewer_than_500_lines(self):
        for path in ("ps/a.c", "ps/a.h", "a.py", "a.sh"):
            self.assert_clean(checks_tree.check_lengths, path, "\n" * 499)
            self.assert_caught(checks_tree.check_lengths, path, "\n" * 500, "500 lines")

    def test_a_line_has_at_most_120_columns(self):
        self.assert_clean(checks_tree.check_lengths, "ps/a.c", "x" * 120 + "\n")
        self.assert_caught(checks_tree.check_lengths, "ps/a.c", "x" * 121 + "\n", "121 columns")

    def test_blanks_tabs_and_missing_newlines_are_caught(self):
        self.assert_caught(checks_tree.check_blanks, "ps/a.c", "int a; \n", "blanks")
        self.assert_caught(checks_tree.check_blanks, "README.md", "text \n", "blanks")
        self.assert_caught(checks_tree.check_blanks, "ps/a.c", "\tint a;\n", "tab")
        self.assert_caught(checks_tree.check_blanks, "ps/a.c", "int a;", "newline")
        self.assert_caught(checks_tree.check_blanks, "ps/a.c", "int a;\n\n", "newline")

    def test_a_header_begins_by_saying_what_it_is_for(self):
        self.assert_caught(checks_c.check_header_comments, "ps/a.h", "#ifndef A\n", "begins with a comment")
        self.assert_clean(checks_c.check_header_comments, "ps/a.h", "/* What. */\n#ifndef A\n")

    def test_the_formatter_is_asked(self):
        files = {".clang-format": "BasedOnStyle: LLVM\n", "ps/a.c": "int  f( void );\n", "ps/b.c": "int f(void);\n"}
        found = self.found(checks_tree.check_format, files, "clang-format-14")
        self.assertTrue(found)
        self.assertTrue(all("ps/a.c:1" in line for line in found), found)


class Unused(TidyCase):
    def test_a_header_that_nobody_includes_is_dead(self):
        files = {**LIBRARIES, "ps/a.h": "/* A. */\n", "ps/a.c": "int a;\n"}
        self.assertIn("ps/a.h", self.found(checks_tree.check_unused_headers, files)[0])
        files["cli/b.c"] = '#include "ps/a.h"\n'
        self.assertEqual(self.found(checks_tree.check_unused_headers, files), [])

    def test_a_header_that_only_includes_itself_is_dead(self):
        files = {**LIBRARIES, "ps/a.h": '/* A. */\n#include "ps/a.h"\n', "ps/a.c": "int a;\n"}
        self.assertEqual(len(self.found(checks_tree.check_unused_headers, files)), 1)

    def test_an_example_that_nothing_names_is_dead(self):
        files = {"examples/one/job.json": "{}\n", "README.md": "text\n"}
        self.assertIn("examples/one", self.found(checks_tree.check_unused_examples, files)[0])
        files["docs/a.md"] = "run examples/one/job.json\n"
        self.assertEqual(self.found(checks_tree.check_unused_examples, files), [])

    def test_a_source_in_no_target_is_dead(self):
        tree = self.tree({"ps/a.c": "", "ps/b.c": "", "ps/c.c": "", "ps/CMakeLists.txt": "add_fuzzer(c.c)\n",
                          "out/compile_commands.json": ""})
        build = os.path.join(tree.root, "out")
        with open(os.path.join(build, "compile_commands.json"), "w", encoding="utf-8") as file:
            file.write('[{"file": "%s/ps/a.c"}]' % tree.root)
        self.assertEqual([line.split(":")[0] for line in checks_tree.check_compiled(tree, build)], ["ps/b.c"])

    def test_folders_of_the_author_are_not_named(self):
        self.assert_caught(checks_tree.check_private_paths, "docs/a.md", "see /" + "work/x\n", "author")


class Tests(unittest.TestCase):
    def shown(self, **properties):
        return {"tests": [{"name": "t", "properties": [{"name": key, "value": properties[key]} for key in properties]}]}

    def test_each_test_has_one_group_and_a_guard_time(self):
        good = self.shown(LABELS=["unit", "asan"], TIMEOUT=10)
        self.assertEqual(list(checks_tree.check_ctest(good)), [])
        for bad in (self.shown(LABELS=["unit"]), self.shown(TIMEOUT=10), self.shown(LABELS=["other"], TIMEOUT=10),
                    self.shown(LABELS=["unit", "sim"], TIMEOUT=10), self.shown(LABELS=["unit"], TIMEOUT=0)):
            self.assertEqual(len(list(checks_tree.check_ctest(bad))), 1, bad)


if __name__ == "__main__":
    unittest.main()
