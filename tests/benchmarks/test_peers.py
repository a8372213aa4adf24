"""Peers agree with us, the benchmark against them runs, and its figures can be kept."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

import impinge
import shared_data
from benchmarks import gjk_cut_against_peers, measure, pairs_against_peers
from benchmarks.measure import Row, Sizes
from benchmarks.peers import Peer, all_peers
from impinge import scenes
from impinge.detect.box_tree.detector import BoxTree
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

pytestmark = pytest.mark.filterwarnings("default")  # what peers warn of is not ours to mend

PEERS = all_peers()


@pytest.fixture(params=PEERS, ids=lambda peer: peer.name.split()[0])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each peer that is installed; the others are skipped with their own reason."""
    reason = request.param.available()
    if reason is not None:
        pytest.skip(reason)
    return request.param


def as_set(pairs: np.ndarray) -> set[tuple[int, int]]:
    return set(map(tuple, pairs.tolist()))


def test_peers_find_our_pairs_in_every_frame(peer: Peer):
    """Agree on a generic scene, after one update and after several."""
    scene = scenes.get("bumpy_spheres_1k")
    a, b = scene.surfaces
    detector = BoxTree(a, b)
    peer.prepare(a, b)
    for t in (0.0, 0.4, 0.9):
        x = [np.float64(np.float32(each)) for each in scene.positions(t)]  # for peers in single precision
        a.update(x[0])
        b.update(x[1])
        peer.update(*x)
        expected, actual = detector.query().pairs, peer.query()

        assert len(expected) > 100
        if isinstance(actual, bool):
            assert actual
        else:
            assert as_set(actual) == as_set(expected)
            assert len(actual) == len(expected)


def test_peers_find_nothing_where_nothing_meets(peer: Peer):
    """Return no pair, not an error, for bodies that are apart."""
    a, b = shapes.icosphere(2), shapes.icosphere(2, center=(5.0, 0.0, 0.0))
    peer.prepare(a, b)
    peer.update(a.vertices, b.vertices)
    found = peer.query()

    assert found is False if isinstance(found, bool) else found.shape == (0, 2)


def test_peers_find_our_pairs_of_one_body(peer: Peer):
    """Agree on a tube that cuts itself, neighbours tested for real."""
    if not peer.has_self_query:
        pytest.skip(f"{peer.name} has no self-collision")
    body = shapes.torus_knot(2, 3, 100, 12, tube_radius=0.41)
    body.update(np.float64(np.float32(body.vertices)))
    peer.prepare(body)
    peer.update(body.vertices)
    expected = BoxTree(body).query().pairs

    assert len(expected) > 100
    assert as_set(np.sort(peer.self_query(), axis=1)) == as_set(expected)


JUDGES = [peer for peer in PEERS if peer.name.split()[0] in ("libigl", "python-fcl")]
GENERIC = ("closed/bull.off", "closed/camel.off", "closed/elephant.off", "closed/knot1.off", "cad/turbine.off",
           "cad/cheese.off", "cad/fandisk.off", "soup/truck.obj", "open/beetle.off")  # fmt: skip


@shared_data.needs_data
@pytest.mark.parametrize("file", GENERIC)
def test_judges_find_our_pairs_of_real_meshes(file: str):
    """Agree with exact libigl and with FCL on real meshes, perturbed against touching by design."""
    body = impinge.load(shared_data.FOLDER / file)
    rng = np.random.default_rng(7)
    size = np.ptp(body.vertices, axis=0).max()
    x = np.float64(np.float32(body.vertices + 1e-4 * size * rng.standard_normal(body.vertices.shape)))
    shift = np.float64(np.float32(size * np.array([0.11, 0.07, 0.05])))
    a, b = TriMesh(x, body.faces), TriMesh(x[:, [1, 2, 0]] + shift, body.faces)
    expected = as_set(BoxTree(a, b).query().pairs)

    assert len(JUDGES) == 2
    assert len(expected) > 50
    for judge in JUDGES:
        assert judge.available() is None
        judge.prepare(a, b)
        judge.update(a.vertices, b.vertices)
        assert as_set(judge.query()) == expected


class Stranger(Peer):
    """A peer that is not installed."""

    name, package, module, how = "stranger", "stranger", "no_such_module_of_ours", "never"


class Liar(Peer):
    """A peer that returns no pairs."""

    name, package, module, how = "liar", "numpy", "numpy", "guess"

    def prepare(self, a: TriMesh, b: TriMesh | None = None) -> None:
        """Need nothing."""

    def update(self, xa: np.ndarray, xb: np.ndarray | None = None) -> None:
        """Need nothing."""

    def query(self) -> np.ndarray:
        """Find nothing."""
        return np.zeros((0, 2), dtype=np.int32)


TINY = Sizes(
    subdivisions=(2,), self_subdivisions=2, self_knot_rings=32, frames_in_a_row=10, box_calls=10,
    refit_subdivisions=(1, 2), rounds=3, seconds=0.01, with_data=False,
)  # fmt: skip


def test_a_missing_peer_says_what_to_install():
    """Give the reason in one sentence."""
    assert Stranger().available() == "stranger is not installed; pip install stranger"


def test_the_time_of_a_wrong_peer_does_not_count(monkeypatch: pytest.MonkeyPatch):
    """Leave its figures out and report the number of differing pairs; name peers that are not installed."""
    monkeypatch.setattr(pairs_against_peers, "all_peers", lambda: [Stranger(), Liar()])
    monkeypatch.setattr(pairs_against_peers, "QUICK", TINY)
    rows = pairs_against_peers.run(quick=True)
    by_name = {row.candidate: row for row in rows if row.scene.startswith(("smooth", "peers"))}

    assert "pip install stranger" in by_name["stranger"].note
    assert by_name["liar"].note.startswith("disagrees on ")
    assert math.isnan(by_name["liar"].min_ms)
    assert by_name["impinge"].min_ms > 0.0
    assert {"update and refit", "query against hits"} <= {row.scene for row in rows}


def test_rows_are_written_as_a_table(tmp_path: Path):
    """Write what was measured, and what was not, to a file that can be read back."""
    rows = [Row("scene, 1k", "impinge", 1.25, 1.5, 1.0, "a; b"), Row("scene, 1k", "liar", *[math.nan] * 3, "wrong")]
    path = measure.write_csv(rows, tmp_path, "pairs_against_peers")
    lines = path.read_text(encoding="utf-8").splitlines()
    table = list(csv.DictReader(lines[1:]))

    assert lines[0].startswith("# ")
    assert [row["scene"] for row in table] == ["scene, 1k"] * 2
    assert float(table[0]["min_ms"]) == 1.25
    assert math.isnan(float(table[1]["min_ms"]))


@pytest.mark.slow
def test_quick_run_against_all_that_are_installed():
    """Finish, with a figure for us in every scene."""
    rows = pairs_against_peers.run(quick=True)

    for scene in {row.scene for row in rows if row.candidate == "impinge"}:
        assert any(row.scene == scene and row.min_ms > 0.0 for row in rows)


def test_cutting_is_measured_beside_the_peers(monkeypatch: pytest.MonkeyPatch):
    """Have GjkCut first, the box tree and a peer of the list, whose wrong pairs do not count."""
    liar = Liar()
    liar.name = "coal"
    monkeypatch.setattr(gjk_cut_against_peers, "all_peers", lambda: [liar, Stranger()])
    rows = gjk_cut_against_peers.run(quick=True)

    assert [row.candidate for row in rows] == ["GjkCut", "BoxTree", "coal"]
    assert rows[0].ratio == 1.0
    assert rows[1].min_ms > 0.0
    assert rows[2].note.startswith("disagrees on ")


def test_cutting_beside_all_that_are_installed():
    """Finish, with right pairs from every peer that is there, or its reason."""
    rows = gjk_cut_against_peers.run(quick=True)

    assert {row.candidate for row in rows} == {"GjkCut", "BoxTree", *gjk_cut_against_peers.PEERS}
    assert not any("disagrees" in row.note for row in rows)
