"""Kernel cache, threads and launches."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import impinge
from impinge.backend import cache, jit, sources
from impinge.backend.scan import exclusive_scan
from impinge.errors import OptionError

SOURCE = Path(impinge.__file__).parent


def run_python(code: str, **environment: str) -> str:
    """Run code in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ASK_CLOCK = """
from impinge.backend import jit
from impinge.exact.probe_kernels import probe
print(probe(2.0), len(jit.compilations))
"""

PROBE = """
from impinge.backend.jit import compiled
from impinge.exact.probe_callee import callee

@compiled
def probe(x):
    return callee(x)
"""

CALLEE = """
from impinge.backend.jit import compiled

@compiled
def callee(x):
    return x + {number}.0
"""


def test_change_in_a_callee_of_another_file_is_seen(tmp_path):
    """Run the new code after a function in another file changed, and the cached code when nothing did.

    Numba's own cache looks at the caller's file only and would go on answering 3.
    """
    package = tmp_path / "impinge"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "exact" / "probe_kernels.py").write_text(PROBE)
    # Python itself does not see a change of the same length within the same second in files of bytecode
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    environment["IMPINGE_CACHE_DIR"] = str(tmp_path / "cache")
    answers = []
    for number in (1, 1, 5):
        (package / "exact" / "probe_callee.py").write_text(CALLEE.format(number=number))
        answers.append(run_python(ASK_CLOCK, **environment))

    assert answers == ["3.0 2", "3.0 0", "7.0 2"]


def test_unwritable_cache_is_survived(tmp_path):
    """Answer all the same where compiled code cannot be kept, with one warning that names the remedy."""
    blocked = tmp_path / "a-file-not-a-folder"
    blocked.write_text("")
    code = """
    import logging; logging.basicConfig(stream=__import__("sys").stdout, format="%(message)s")
    from impinge.backend.clock import monotonic_ns
    print(monotonic_ns() > 0)
    """
    output = run_python(code, IMPINGE_CACHE_DIR=str(blocked))

    assert output.endswith("True")
    assert output.count("set IMPINGE_CACHE_DIR to a writable folder") == 1


def test_damaged_cache_is_survived(tmp_path):
    """Compile again if a cached file is truncated."""
    code = "from impinge.backend.clock import monotonic_ns; print(monotonic_ns() > 0)"
    run_python(code, IMPINGE_CACHE_DIR=str(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    for path in files:
        path.write_bytes(path.read_bytes()[:40])

    assert files
    assert run_python(code, IMPINGE_CACHE_DIR=str(tmp_path)) == "True"


def test_bounds_checks_have_a_cache_of_their_own():
    """Keep code with and without bounds checks apart."""
    code = "from impinge.backend import cache; print(cache.source_digest(cache.PACKAGE / 'backend' / 'scan.py'))"

    assert run_python(code, NUMBA_BOUNDSCHECK="0") != run_python(code, NUMBA_BOUNDSCHECK="1")


@pytest.mark.parametrize(
    "line",
    [
        "import pack.room.callee",
        "from pack.room import callee",
        "from pack.room.callee import callee",
        "from . import callee",
        "from .callee import callee",
        "from ..room import callee",
        "from ..room.callee import callee",
        "from ..other.link import callee",
    ],
)
def test_digest_sees_every_form_of_import(tmp_path, line):
    """Change the digest with a module imported absolutely, relatively, or through a relative import of another."""
    for folder in ("pack", "pack/room", "pack/other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "pack/other/link.py").write_text("from ..room.callee import callee\n")
    (tmp_path / "pack/room/caller.py").write_text(f"{line}\n")
    digests = []
    for number in (1, 1, 2):
        (tmp_path / "pack/room/callee.py").write_text(f"def callee(x):\n    return x + {number}\n")
        cache.source_digest.cache_clear()
        sources.imported_modules.cache_clear()
        sources._file_digest.cache_clear()
        digests.append(cache.source_digest(tmp_path / "pack/room/caller.py"))

    assert digests[0] == digests[1] != digests[2]


def test_digest_follows_imports():
    """Let the digest of a module depend on the modules that its imports import."""
    imported = sources.imported_modules(cache.PACKAGE / "detect" / "common" / "narrow_phase_kernels.py")
    further = {file for path in imported for file in sources.imported_modules(path)}

    assert cache.PACKAGE / "exact" / "triangle_triangle.py" in imported
    assert cache.PACKAGE / "exact" / "planar.py" in further


def test_set_threads():
    """Take whole numbers up to the limit, and name the way to raise it."""
    limit = jit.thread_count()
    try:
        jit.set_threads(1)
        assert jit.thread_count() == 1
        assert jit.kernel(parallel_from=1)(lambda: None).over(10**9) is not None
    finally:
        jit.set_threads(limit)
    for wrong in (0, limit + 1, 1.5, True):
        with pytest.raises(OptionError, match="NUMBA_NUM_THREADS"):
            jit.set_threads(wrong)


def test_little_work_runs_serial(monkeypatch):
    """Launch threads only for enough work, on idle cores."""
    from impinge.backend.scan import _scan_blocks

    monkeypatch.setattr(jit, "_threads_spin", False, raising=False)
    assert _scan_blocks.over(10) is _scan_blocks.serial
    if jit.thread_count() > 1:
        assert _scan_blocks.over(10**7) is _scan_blocks.parallel


def test_eight_python_threads_launch_at_once():
    """Let eight Python threads run parallel kernels at the same time, each with its right answer."""
    counts = np.arange(200_000) % 7
    expected = np.concatenate([[0], np.cumsum(counts)])
    right: list[bool] = []

    def work():
        right.extend(np.array_equal(exclusive_scan(counts), expected) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(right) == 400
    assert all(right)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_answers():
    """Answer in a child forked after threads had run; GNU OpenMP would end a child that goes parallel."""
    code = """
    import os
    import impinge
    from impinge.backend import jit
    surfaces = impinge.scenes.get("bumpy_spheres_20k").surfaces
    before = len(impinge.triangle_pairs(*surfaces))
    child = os.fork()
    if child == 0:
        right = len(impinge.triangle_pairs(*surfaces)) == before and jit.thread_layer() == "serial"
        os._exit(0 if right else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(impinge.triangle_pairs(*surfaces)) == before > 0)
    """

    assert run_python(code) == "0 True"


def test_workqueue_runs_serial():
    """Use no threads where only Numba's own pool is left, which two callers at once would abort."""
    code = "from impinge.backend import jit; print(jit.thread_layer(), jit.thread_count())"

    assert run_python(code, NUMBA_THREADING_LAYER="workqueue") == "serial 1"


def test_more_threads_than_cores_give_the_same_scan():
    """Give the same bits with 1, 2, 4 and 8 threads."""
    code = """
    import hashlib
    import numpy as np
    from impinge.backend.scan import exclusive_scan
    from impinge.backend.sort import sort_keys
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**62, 300_000).astype(np.uint64)
    total = exclusive_scan((keys % np.uint64(11)).astype(np.int64))
    print(hashlib.sha256(total.tobytes() + sort_keys(keys).tobytes()).hexdigest())
    """
    digests = {run_python(code, NUMBA_NUM_THREADS=str(count)) for count in (1, 2, 4, 8)}

    assert len(digests) == 1


def test_compile_notice_is_for_terminals_only(tmp_path):
    """Print no notice of compilation without a terminal."""
    done = subprocess.run(
        [sys.executable, "-c", "from impinge.backend.clock import monotonic_ns; monotonic_ns()"],
        capture_output=True,
        env={**os.environ, "IMPINGE_CACHE_DIR": str(tmp_path)},
    )

    assert done.stderr == b""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals need POSIX")
def test_compile_notice_on_a_terminal(tmp_path):
    """Say once, on a terminal, that the first use takes longer; nothing when the code is cached."""
    import pty

    def run_on_terminal() -> str:
        parent, child = pty.openpty()
        subprocess.run(
            [sys.executable, "-c", "from impinge.backend.clock import monotonic_ns; monotonic_ns()"],
            stderr=child,
            check=True,
            env={**os.environ, "IMPINGE_CACHE_DIR": str(tmp_path)},
        )
        os.write(child, b"end")
        said = b""
        while not said.endswith(b"end"):  # a terminal gives what it has, piece by piece
            said += os.read(parent, 10_000)
        os.close(child)
        os.close(parent)
        return said.decode()

    assert run_on_terminal().count("compiling for this machine") == 1
    assert run_on_terminal() == "end"


def test_only_stale_folders_of_our_own_are_deleted(tmp_path):
    """Delete kernel folders unused for 30 days, and nothing else in the cache folder."""
    long_ago = 1_000_000_000
    stale = tmp_path / "kernels" / "clock-0123456789abcdef"
    others = [tmp_path / "photos", tmp_path / "kernels" / "photos", tmp_path / "kernels" / "scan-fedcba9876543210"]
    for folder in (stale, *others):
        folder.mkdir(parents=True)
    for folder in (stale, *others[:2]):
        os.utime(folder, (long_ago, long_ago))
    run_python("from impinge.backend.clock import monotonic_ns; monotonic_ns()", IMPINGE_CACHE_DIR=str(tmp_path))

    assert not stale.exists()
    assert all(folder.exists() for folder in others)


def test_folder_in_use_is_not_stale(tmp_path):
    """Count a folder as used when kernels are loaded from it."""
    code = "from impinge.backend.clock import monotonic_ns; monotonic_ns()"
    run_python(code, IMPINGE_CACHE_DIR=str(tmp_path))
    (folder,) = (tmp_path / "kernels").iterdir()
    os.utime(folder, (1_000_000_000, 1_000_000_000))
    run_python(code, IMPINGE_CACHE_DIR=str(tmp_path))

    assert folder.stat().st_mtime > 1_600_000_000


def test_process_without_stderr_compiles(tmp_path):
    """Compile where there is no stderr at all, as in a windowed program."""
    code = "import sys; sys.stderr = None; from impinge.backend.clock import monotonic_ns; print(monotonic_ns() > 0)"

    assert run_python(code, IMPINGE_CACHE_DIR=str(tmp_path)) == "True"
