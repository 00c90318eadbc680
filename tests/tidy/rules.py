"""What the tidy test demands of the tree, as data. docs/architecture.md says why."""

# Layers from the bottom up: a library may include libraries of lower rows, and its own headers. The libraries of one
# row never include each other, except within one role (ROLES).
LAYERS = [
    ["base"],
    ["config"],
    ["protocol"],
    ["telemetry"],
    ["storage"],
    ["collective"],
    ["backend"],
    ["cpu", "cuda", "reference"],
    ["wire"],
    ["transport"],
    ["runtime"],
    ["ps", "engine", "worker", "model", "data", "chief"],
    ["chaos"],
    ["cli"],
]

# Top folders whose libraries may include each other inside the folder and never across folders.
ROLES = ["ps", "worker", "chief"]

# Pure libraries include only these besides themselves: no I/O, clock, threads or allocation can come in by a header.
PURE = ["protocol", "ps", "worker", "chief"]
PURE_MAY_INCLUDE = ["base", "protocol"]

# (pattern of the included header, folders or file prefixes that may include it, how the rule is said)
RESTRICTED_HEADERS = [
    (r"grpc/.*|grpcpp/.*", ["common/transport/grpc"], "only common/transport/grpc* may include gRPC"),
    (r".*\.pb-c\.h", ["common/wire/"], "only common/wire may include generated protobuf code"),
    (r"dnnl.*\.h|oneapi/.*", ["common/backend/cpu/", "tests/bench/"], "only common/backend/cpu may include oneDNN"),
    (r"jsmn\.h", ["common/config/"], "only common/config may include jsmn"),
]

FILE_LINES = 500  # fewer than this; .c .h .py .sh
FUNCTION_LINES = 70  # at most this
LINE_COLUMNS = 120  # at most this

# (name, where it is banned: "all", "product" (not tests), "tests", exceptions as path prefixes, what to use).
# The base library may end the process when memory runs out; so may the command line, for whatever reason it tells.
BANNED_CALLS = [
    ("strcpy", "all", [], "snprintf, or memcpy with a checked length"),
    ("stpcpy", "all", [], "snprintf, or memcpy with a checked length"),
    ("strcat", "all", [], "snprintf at an offset"),
    ("sprintf", "all", [], "snprintf"),
    ("vsprintf", "all", [], "vsnprintf"),
    ("gets", "all", [], "fgets"),
    ("atoi", "all", [], "base/number.h"),
    ("atol", "all", [], "base/number.h"),
    ("atoll", "all", [], "base/number.h"),
    ("atof", "all", [], "base/number.h"),
    ("rand", "all", [], "base/random.h"),
    ("srand", "all", [], "base/random.h"),
    ("random", "all", [], "base/random.h"),
    ("strtok", "all", [], "strcspn, or strtok_r on an own copy"),
    ("alloca", "all", [], "a bounded array, or memory from the caller"),
    ("system", "all", [], "common/runtime/process.h"),
    ("exit", "product", ["cli/", "common/base/"], "an error that the caller can see"),
    ("_exit", "product", ["cli/", "common/base/", "common/runtime/process"], "an error that the caller can see"),
    ("abort", "product", ["cli/", "common/base/"], "an error that the caller can see"),
    ("sleep", "tests", [], "a condition to wait for, with a guard"),
    ("usleep", "tests", [], "a condition to wait for, with a guard"),
    ("nanosleep", "tests", [], "a condition to wait for, with a guard"),
]

# The number parsers of C are called in one file of the product at most; base/number.h reads whole numbers.
NUMBER_PARSERS = ["strtol", "strtoul", "strtoll", "strtoull", "strtod", "strtof", "strtoimax", "strtoumax"]

# Folders that hold no code of ours, or that are made.
SKIPPED_FOLDERS = {".git", "build-logs", "__pycache__"}
SKIPPED_PREFIXES = ("build",)

# Labels of ctest: each test has exactly the group that tests/run.sh runs it in; `asan` and `tsan` come on top.
TEST_GROUPS = {"tidy", "unit", "conformance", "sim", "interop", "integration", "simfull", "clusterfull"}

# Undefined symbols that a pure library may have, besides what pure libraries define.
PURE_SYMBOLS = {
    "memcpy", "memset", "memmove", "memcmp", "strlen", "strcmp", "strncmp", "strstr", "snprintf", "vsnprintf",
    "__assert_fail", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_",
}
# weir_arena_*: memory that a core takes in its init, and never later.
PURE_SYMBOL_PREFIXES = ("weir_random_", "weir_error_", "weir_arena_")
SANITIZER_SYMBOLS = r"[._]*(L|odr_)?(a|ub|t|l)san[._]|__(sanitizer|sancov)_"
