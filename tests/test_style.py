"""House rules that no linter knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import impinge

SOURCE = Path(impinge.__file__).parent
TESTS = Path(__file__).parent

ROOMS = [
    "io", "mesh", "deform",
    "detect.common", "detect.boxes", "detect.box_tree", "detect.proximity", "detect.depth", "detect.continuous",
    "detect.breadth_first", "detect.gjk_cut", "detect.spatial_hash", "detect.layered_depth", "detect.sphere_tree",
    "contact", "bodies", "respond", "world", "queries", "simulate", "scenes", "view", "interop", "runs", "app",
]  # fmt: skip
"""From left to right: a room imports rooms to its left."""
METHODS = {
    f"detect.{name}"
    for name in ("continuous", "breadth_first", "gjk_cut", "spatial_hash", "layered_depth", "sphere_tree")
}
"""Methods do not import each other."""
FOUNDATION = {"errors": set(), "backend": {"errors"}, "exact": {"backend", "errors"}}
"""Imported by all rooms, and what each of them may import."""
BORDER = {"checks", "budget"}
"""Argument checks and budgets: they stand on the foundation, every room may import them."""
PUBLISHED = {"mesh", "deform"}
"""The rooms that ``published`` stands on; only ``scenes`` and ``app`` import it (and the benchmarks)."""
TOP = {"__init__", "__main__"}
WHOLE = {"view", "runs", "app"}
"""Rooms that may import the package as a whole: they print its version and use its public names."""
BY_STRING = {"impinge.view.picture", "impinge.view.pressure", "impinge.view.live"}
"""Modules that ``.plot()`` and ``.show()`` import by string."""
MOST_MODULES = 20
RAW_ADDRESSES = ("detect.sphere_tree.search.",)
"""The folder whose kernels read arrays by address."""


def module_of(path: Path) -> str:
    """The dotted name of a file below the package, without the package's own."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def room_of(module: str) -> str:
    """The room of a dotted module name; the folders of ``detect`` are rooms of their own."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "detect" and len(parts) > 1 else parts[0]


def imports_of(path: Path, package: str = "") -> set[str]:
    """Modules of impinge that a file imports at run time, without ``impinge.``; the package itself is ``__init__``.

    Sees ``import``, ``from``, relative imports of a file in ``package`` (dotted, without ``impinge.``), and
    ``import_module`` or ``__import__`` of a string.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ["impinge", *(package.split(".") if package else [])] if node.level else []
            base = base[: len(base) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names.update(f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names.update(
                text.value for text in ast.walk(node) if isinstance(text, ast.Constant) and isinstance(text.value, str)
            )
    ours = {name for name in names if name.split(".")[0] == "impinge"}
    return {name.removeprefix("impinge.") if "." in name else "__init__" for name in ours}


def may_import(room: str, other: str) -> bool:
    """Whether a module of ``room`` may import one of ``other``."""
    if room in TOP or room == other:
        return True
    if other == "__init__":
        return room in WHOLE
    if room in FOUNDATION:
        return other in FOUNDATION[room]
    if other in FOUNDATION:
        return True
    if room in BORDER:
        return other in BORDER
    if other in BORDER:
        return True
    if room == "published":
        return other in PUBLISHED
    if other == "published":
        return room in {"scenes", "app"}
    if room in METHODS and other in METHODS:
        return False
    return room in ROOMS and other in ROOMS and ROOMS.index(other) < ROOMS.index(room)


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_to_the_left(path: Path):
    """Let each room import only rooms to its left, and by string only what ``.plot()`` and ``.show()`` draw with."""
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    room = room_of(module)
    wrong = {name for name in imports_of(path, package) if not may_import(room, room_of(name))}

    assert wrong - {name.removeprefix("impinge.") for name in BY_STRING} == set()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import impinge", "__init__"),
        ("import impinge as im", "__init__"),
        ("import impinge.mesh.shapes", "mesh.shapes"),
        ("from impinge import TriMesh", "TriMesh"),
        ("from impinge.mesh import shapes", "mesh.shapes"),
        ("from . import kernels", "detect.box_tree.kernels"),
        ("from .kernels import join", "detect.box_tree.kernels.join"),
        ("from ..boxes import tree", "detect.boxes.tree"),
        ("from ...world.world import World", "world.world.World"),
        ("from ... import queries", "queries"),
        ("import_module('impinge.world.world')", "world.world"),
        ("importlib.import_module(name='impinge.world.world')", "world.world"),
        ("__import__('impinge.view.live')", "view.live"),
    ],
)
def test_no_form_of_import_is_missed(tmp_path, line, found):
    """See absolute, relative and string imports, the package as a whole too, which no room may import."""
    (tmp_path / "module.py").write_text(f"import impinger\ndef later():\n    {line}\n")

    assert imports_of(tmp_path / "module.py", "detect.box_tree") == {found}
    assert not may_import("detect.box_tree", "__init__")
    assert not may_import("detect.box_tree", "TriMesh")


def test_methods_do_not_import_each_other():
    """Refuse imports between methods, imports to the right, and imports of the papers from the product."""
    assert not may_import("detect.gjk_cut", "detect.breadth_first")
    assert not may_import("detect.spatial_hash", "contact")
    assert not may_import("world", "published")
    assert not may_import("published", "detect.common")
    assert may_import("detect.spatial_hash", "detect.depth")
    assert may_import("scenes", "published")


def test_sphere_tree_folders_stand_on_each_other():
    """Let ``build`` import neither ``track`` nor ``search``, and ``track`` not ``search``."""
    order = ["build", "track", "search"]
    for folder in order:
        for path in (SOURCE / "detect" / "sphere_tree" / folder).glob("*.py"):
            used = {name.split(".")[2] for name in imports_of(path) if name.startswith("detect.sphere_tree.")}
            assert not used & {"detector", *order[order.index(folder) + 1 :]}, path.name


def test_private_parts_of_numba_are_fenced():
    """Use internals of Numba only in the module of its version, and ``sys.getrefcount`` only in one helper."""
    private = re.compile(r"numba\.core|\b_nrt\b|\._cache\b|\b_CacheLocator\b")
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if not re.fullmatch(r"backend\.numba_\d_\d+", module_of(path)):
            assert not private.search(text), path.relative_to(SOURCE)
        if module_of(path) != "backend.references":
            assert "getrefcount" not in text, path.relative_to(SOURCE)


def test_raw_addresses_stay_in_the_sphere_tree():
    """Read arrays by address in the search of sphere trees and their tracking alone; ``mesh`` hands addresses out."""
    users = {"backend.raw_arrays_kernels": set(), "backend.raw_arrays": {"mesh.positions"}}
    for path in MODULES:
        for name in imports_of(path):
            module = name.rpartition(".")[0]
            if module in users and module_of(path) not in users[module]:
                assert module_of(path).startswith(RAW_ADDRESSES), path.relative_to(SOURCE)


def test_rooms_are_small():
    """Hold at most twenty modules in a folder."""
    for folder in {path.parent for path in MODULES}:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= MOST_MODULES, folder.name


def test_rooms_say_what_lives_in_them():
    """Open each room with a docstring that names what it may import."""
    for path in SOURCE.rglob("__init__.py"):
        if path.parent != SOURCE:
            words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            assert "mport" in words, path


def test_kernels_import_no_class_of_ours():
    """Let modules of compiled code import compiled code and constants only."""
    for path in SOURCE.rglob("*kernels.py"):
        for name in imports_of(path):
            assert name.startswith(("exact.", "backend.")) or "kernels" in name, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is(path: Path):
    """Open every module with a docstring."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_every_test_says_what_it_demands():
    """Give every test a docstring."""
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path.name}::{node.name}"


def test_public_names_load():
    """Load every public name from the module that the stub names, once each."""
    assert len(impinge.__all__) == len(set(impinge.__all__)) > 80
    for name in impinge.__all__:
        value = getattr(impinge, name)
        module = getattr(value, "__module__", None)
        assert module in (None, impinge._MODULE_OF[name]), f"{name} is defined in {module}"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        impinge.nonsense  # noqa: B018 - the look-up is the test


def test_no_decision_is_read_out_of_stats():
    """Let ``stats`` be for people: nothing in the package reads an entry of a result's ``stats``."""
    for path in MODULES:
        if "published" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                is_read = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
                is_read = is_read or (isinstance(node, ast.Attribute) and node.attr == "get")
                value = getattr(node, "value", None)
                assert not (is_read and isinstance(value, ast.Attribute) and value.attr == "stats"), path.name


PRIVATE_WORDS = re.compile(
    r"\b(told|tells|anew|whoever|desk|seats?|crowd(ed|ing|s)?|forgiven|lumps?|governor|sit down|so that)\b", re.I
)
"""Words that this code base once had for things that the field has terms for."""


@pytest.mark.parametrize("folder", ["src", "docs", "tests"])
def test_prose_uses_the_words_of_the_field(folder: str):
    """Find no private metaphor in sources, pages and tests; this file lists them."""
    root = TESTS.parent
    paths = [path for ending in ("*.py", "*.md") for path in (root / folder).rglob(ending)]
    found = [
        f"{path.relative_to(root)}: {match[0]}"
        for path in paths
        if path != Path(__file__) and not {"_build", "results"} & set(path.parts)
        for match in PRIVATE_WORDS.finditer(path.read_text(encoding="utf-8"))
    ]

    assert found == []
