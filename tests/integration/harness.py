"""Clusters of real weir processes, for the tests of tests/integration and tests/interop.

    result = run_job(job, ps=2, workers=3, replicas=4)      one `weir run`, to its end
    with Cluster(job, ps=1, workers=2) as cluster:          one `weir start` per role
        cluster.start_all()
        cluster.wait_all()

The program is the environment's WEIR (ctest sets it). Nothing here sleeps for a fixed time: wait_until() polls a
condition and fails, saying what it waited for and what the processes said, when the guard time is over. At the end of
each cluster and run no process, listening or connected port, or /dev/shm entry of it may be left.
"""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

WEIR = os.environ.get("WEIR", "build/weir")
# Sanitizers make all slower; ctest sets the factor for their builds.
SLOWNESS = float(os.environ.get("WEIR_TEST_SLOWNESS", "1"))
SANITIZED = SLOWNESS > 1
GUARD_S = 30 * SLOWNESS
POLL_S = 0.01
FIRST_PORT, LAST_PORT = 20000, 29999  # below the ports that the system hands out itself


class GuardTimeout(AssertionError):
    """A condition did not come true in time."""


def wait_until(condition, what, guard_s=GUARD_S, evidence=lambda: ""):
    """Polls until `condition` returns something true, and returns that."""
    pause = threading.Event()
    end = time.monotonic() + guard_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise GuardTimeout(f"after {guard_s:.0f} s still waiting for {what}\n{evidence()}")
        pause.wait(POLL_S)


class Ports:
    """Free ports in a row, ours while this object lives, also against other tests: each is locked by a file."""

    def __init__(self, count):
        self.locks = []
        self.numbers = []
        folder = os.path.join(tempfile.gettempdir(), f"weir-test-ports.{os.getuid()}")
        os.makedirs(folder, exist_ok=True)
        number = FIRST_PORT + os.getpid() * 17 % (LAST_PORT - FIRST_PORT)
        for _ in range(LAST_PORT - FIRST_PORT):
            if len(self.numbers) == count:
                return
            number = number + 1 if number < LAST_PORT else FIRST_PORT
            # A run with --port takes neighbours, so a gap starts the row again.
            if not self._take(folder, number):
                self.close()
        raise AssertionError(f"no {count} free ports in a row between {FIRST_PORT} and {LAST_PORT}")

    def _take(self, folder, number):
        lock = open(os.path.join(folder, str(number)), "w", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", number))
        except OSError:
            lock.close()
            return False
        self.locks.append(lock)
        self.numbers.append(number)
        return True

    def close(self):
        for lock in self.locks:
            lock.close()
        self.locks, self.numbers = [], []


def sockets_on(ports):
    """Lines of /proc/net/tcp and tcp6 that listen or are connected on one of the ports; what only waits out is left."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                local, remote, state = (int(fields[1].rsplit(":", 1)[1], 16), int(fields[2].rsplit(":", 1)[1], 16),
                                        fields[3])
                if state in ("01", "0A") and (local in ports or remote in ports):
                    found.append(line.strip())
    return found


def processes_of(session):
    """(pid, command) of the living processes of a session: what a command started, and what these started."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                    found.append((int(name), file.read().replace("\0", " ").strip()))
    return found


def cpu_ticks(pid):
    """Time on the processor, of user and system."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if "weir" in name}


class Process:
    """One started command, in a session of its own, with stdout and stderr in files."""

    def __init__(self, name, command, folder, environment=None):
        self.name = name
        self.command = command
        self.folder = folder
        self.out = os.path.join(folder, name.replace("/", "-") + ".out")
        self.err = os.path.join(folder, name.replace("/", "-") + ".err")
        base = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                          env={**base, **(environment or {})}, start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    def exit(self):
        """The exit code (negative: the signal), or None while it runs."""
        return self.popen.poll()

    def stdout(self):
        return read(self.out)

    def stderr(self):
        return read(self.err)

    def signal(self, number):
        if self.exit() is None:
            self.popen.send_signal(number)

    def wait(self, guard_s=GUARD_S):
        wait_until(lambda: self.exit() is not None, f"{self.name} to end", guard_s, self.told)
        return self.exit()

    def wait_for(self, condition, what, guard_s=GUARD_S):
        """Waits for what only the living process can bring about; fails at once when it has ended without that."""
        def is_so():
            ended = self.exit() is not None  # asked first: what was done last counts
            if condition():
                return True
            if ended:
                raise AssertionError(f"{self.name} ended ({self.exit()}) without {what}\n{self.told()}")
            return False
        wait_until(is_so, f"{self.name}: {what}", guard_s, self.told)

    def wait_for_line(self, text, guard_s=GUARD_S):
        """Waits until stderr holds the text."""
        self.wait_for(lambda: text in self.stderr(), f"saying \"{text}\"", guard_s)

    def memory_bytes(self, what):
        """Resident memory: VmRSS now, or VmHWM at its peak; 0 when the process is gone."""
        for line in read(f"/proc/{self.pid}/status").split("\n"):
            if line.startswith(what + ":"):
                return 1024 * int(line.split()[1])
        return 0

    def wait_until_busy(self, guard_s=GUARD_S):
        """Waits until the process and its children have computed for half a second from now on."""
        def ticks():
            return sum(cpu_ticks(pid) for pid, _ in processes_of(self.pid))
        enough = ticks() + os.sysconf("SC_CLK_TCK") // 2
        wait_until(lambda: ticks() > enough or self.exit() is not None, f"{self.name} to compute", guard_s, self.told)

    def told(self):
        return f"--- {self.name} ({' '.join(self.command)}), exit {self.exit()}\n{self.stderr()[-4000:]}"

    def end(self):
        """Kills what is left of the session, and says what that was."""
        left = processes_of(self.pid)
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.popen.wait()
        return left


def read(path):
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def check_nothing_stays(processes, ports, memory_before):
    """What a finished run must not leave behind. The last sockets may close a moment after the last process."""
    left = [entry for process in processes for entry in processes_of(process.pid)]
    assert not left, f"processes were left: {left}"
    wait_until(lambda: not sockets_on(ports), f"sockets on {sorted(ports)} to close", 5,
               lambda: "\n".join(sockets_on(ports)))
    wait_until(lambda: not shared_memory() - memory_before, "/dev/shm to be as before", 5,
               lambda: str(shared_memory() - memory_before))


def flag_words(flags):
    """epochs=2, set={"seed": 1} -> --epochs 2 --set seed=1; True is a flag without a value."""
    words = []
    for key, value in flags.items():
        if key == "set":
            for name, setting in value.items():
                words += ["--set", f"{name}={setting if isinstance(setting, str) else json.dumps(setting)}"]
        elif value is True:
            words.append("--" + key.replace("_", "-"))
        elif value is not None and value is not False:
            words += ["--" + key.replace("_", "-"), str(value)]
    return words


class Result:
    """How a command ended: exit, stdout, stderr, seconds, and the summary (None if there is none)."""

    def __init__(self, process, seconds, summary):
        self.exit = process.exit()
        self.stdout = process.stdout()
        self.stderr = process.stderr()
        self.seconds = seconds
        self.summary = summary
        self.told = process.told()

    def roles(self, role):
        """The summary's entries of a role, by index."""
        return sorted((entry for entry in self.summary["roles"] if entry["role"] == role),
                      key=lambda entry: entry["index"])


def load_summary(path):
    text = read(path)
    return json.loads(text) if text else None


def run_command(*words, environment=None, guard_s=GUARD_S):
    """`weir WORDS...` to its end."""
    folder = tempfile.mkdtemp(prefix="weir-test-")
    process = None
    try:
        begin = time.monotonic()
        process = Process("weir", [WEIR, *words], folder, environment)
        process.wait(guard_s)
        return Result(process, time.monotonic() - begin, None)
    finally:
        if process:
            process.end()
        shutil.rmtree(folder, ignore_errors=True)


class Run:
    """A `weir run` in the background; `with` ends it and checks that nothing of it stays."""

    def __init__(self, job, ps=None, workers=None, **flags):
        self.folder = tempfile.mkdtemp(prefix="weir-test-")
        self.memory = shared_memory()
        self.summary_path = flags.setdefault("summary", os.path.join(self.folder, "summary.json"))
        self.ports = Ports(1 + (ps or 1) + (workers or 1)) if ps or workers else Ports(0)
        if self.ports.numbers:
            flags = {"ps": ps, "workers": workers, "port": self.ports.numbers[0], **flags}
        self.begin = time.monotonic()
        self.process = Process("weir-run", [WEIR, "run", job, *flag_words(flags)], self.folder)

    def __enter__(self):
        return self

    def children(self):
        """Processes of the run besides `weir run` itself, by the role in their title, as "ps/0"."""
        found = {}
        for pid, command in processes_of(self.process.pid):
            if pid != self.process.pid and command:
                found[command.split()[-1]] = pid
        return found

    def wait(self, guard_s=GUARD_S):
        self.process.wait(guard_s)
        return Result(self.process, time.monotonic() - self.begin, load_summary(self.summary_path))

    def wait_for_processes(self, guard_s=GUARD_S):
        """Waits until everything that the run started is gone, however it ended."""
        wait_until(lambda: not processes_of(self.process.pid), "all processes of the run to end", guard_s,
                   lambda: f"{processes_of(self.process.pid)}\n{self.process.told()}")

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                wait_until(lambda: not processes_of(self.process.pid), "the run's processes to end", 5)
                check_nothing_stays([self.process], set(self.ports.numbers), self.memory)
        finally:
            self.process.end()
            self.ports.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def run_job(job, ps=None, workers=None, guard_s=GUARD_S, **flags):
    """`weir run JOB` to its end; without ps and workers, in one process."""
    with Run(job, ps, workers, **flags) as run:
        return run.wait(guard_s)


class Cluster:
    """Roles that are started one by one with TF_CONFIG, as on a cluster of machines."""

    def __init__(self, job, ps=1, workers=1, chief=True, **flags):
        self.job = job
        self.flags = flags
        self.folder = tempfile.mkdtemp(prefix="weir-test-")
        self.summary_path = os.path.join(self.folder, "summary.json")
        self.memory = shared_memory()
        self.ports = Ports(int(chief) + ps + workers)
        free = iter(self.ports.numbers)
        counts = {"chief": int(chief), "ps": ps, "worker": workers}
        self.map = {role: [f"127.0.0.1:{next(free)}" for _ in range(count)] for role, count in counts.items() if count}
        self.names = [f"{role}/{index}" for role, addresses in self.map.items() for index in range(len(addresses))]
        self.processes = {}

    def __enter__(self):
        return self

    def address(self, name):
        role, index = name.split("/")
        return self.map[role][int(index)]

    def start(self, name, job=None, cluster=None, before=(), **flags):
        """Starts a role ("ps/0"); `cluster` replaces the map that it is told, `before` are words before the command."""
        role, index = name.split("/")
        config = {"cluster": cluster or self.map, "task": {"type": role, "index": int(index)}}
        words = flag_words({"summary": self.summary_path if role == "chief" else None, **self.flags, **flags})
        self.processes[name] = Process(name, [*before, WEIR, "start", job or self.job, *words], self.folder,
                                       {"TF_CONFIG": json.dumps(config)})
        return self.processes[name]

    def start_all(self, order=None):
        for name in order or self.names:
            self.start(name)

    def kill(self, name, number=signal.SIGKILL):
        self.processes[name].signal(number)

    def wait_all(self, guard_s=GUARD_S):
        """Waits until all have ended: name -> exit code."""
        wait_until(lambda: all(process.exit() is not None for process in self.processes.values()),
                   "all roles to end", guard_s, self.told)
        return {name: process.exit() for name, process in self.processes.items()}

    def stderr(self, name):
        return self.processes[name].stderr()

    def summary(self):
        return load_summary(self.summary_path)

    def told(self):
        return "\n".join(process.told() for process in self.processes.values())

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.wait_all()
                check_nothing_stays(self.processes.values(), set(self.ports.numbers), self.memory)
        finally:
            for process in self.processes.values():
                process.end()
            self.ports.close()
            shutil.rmtree(self.folder, ignore_errors=True)
