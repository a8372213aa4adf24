"""Results: sized, true if anything was found, frozen, ready for JSON, and comparable with the frame before."""

import dataclasses
import json
import threading

import numpy as np
import pytest

import impinge
from impinge import shapes
from impinge.contact.contacts import Contacts
from impinge.detect.common.nearest_results import (
    ClosestPoints,
    Curves,
    Distance,
    EdgeCrossings,
    HullDistance,
    Proximity,
)
from impinge.detect.common.results import EdgeContacts, Kind, Result, TrianglePairs, VertexContacts
from impinge.detect.continuous.impact_results import Impacts
from impinge.detect.layered_depth.volume_overlap import VolumeOverlap
from impinge.detect.sphere_tree.contacts import SphereContacts
from impinge.errors import OptionError
from impinge.simulate.simulated_contacts import ContactVertices, SimulatedContacts
from impinge.world.world_impacts import WorldImpacts


def ids(n: int, first: int = 0) -> np.ndarray:
    """Ids ``first``, ``first`` + 1 ..., shape (n,)."""
    return np.arange(first, first + n, dtype=np.int32)


def pairs(n: int, first: int = 0) -> np.ndarray:
    """Pairs (first, first + 1), (first + 1, first + 2) ..., shape (n, 2)."""
    return np.stack([ids(n, first), ids(n, first + 1)], axis=1)


def triangle_pairs(n: int, first: int = 0, **common) -> TrianglePairs:
    """Pairs of triangles from ``first`` on, every third one touching."""
    return TrianglePairs(pairs=pairs(n, first), kind=(1 + ids(n) % 3).astype(np.int8), **common)


def vertex_contacts(n: int, first: int = 0, **common) -> VertexContacts:
    """Vertices from ``first`` on, each in a tet."""
    return VertexContacts(
        body=ids(n) * 0,
        vertex=ids(n, first),
        in_body=ids(n) * 0 + 1,
        tet=ids(n, first) * 2,
        barycentric=np.full((n, 4), 0.25),
        is_self=np.zeros(n, dtype=bool),
        **common,
    )


def edge_contacts(n: int, first: int = 0, **common) -> EdgeContacts:
    """Edges from ``first`` on, each through a face of another body."""
    return EdgeContacts(
        body=ids(n) * 0,
        edge=pairs(n, first),
        in_body=ids(n) * 0 + 1,
        face=ids(n, first) * 2,
        kind=np.full(n, 2, dtype=np.int8),
        sign=np.ones(n, dtype=np.int8),
        parameter=np.full(n, 0.5),
        weights=np.full((n, 3), 1 / 3),
        is_self=np.zeros(n, dtype=bool),
        **common,
    )


def volume_overlap(n: int, first: int = 0, **common) -> VolumeOverlap:
    """Spans on rays from ``first`` on."""
    centroid = np.zeros(3) if n else np.full(3, np.nan)
    return VolumeOverlap(
        volume=float(n),
        spans=np.ones((n, 2)),
        pixel=pairs(n, first),
        region=np.zeros((2, 3)),
        centroid=centroid,
        **common,
    )


def sphere_contacts(n: int, first: int = 0, possible: int = 0, **common) -> SphereContacts:
    """Pairs of spheres from ``first`` on that certainly meet, and some that may."""
    return SphereContacts(
        certain=pairs(n, first),
        possible=pairs(possible),
        level=3,
        **common,
    )


def closest_points(n: int, first: int = 0, **common) -> ClosestPoints:
    """Nearest points on triangles from ``first`` on."""
    return ClosestPoints(
        distance=np.ones(n), point=np.zeros((n, 3)), triangle=ids(n, first), barycentric=np.zeros((n, 3)), **common
    )


def proximity(n: int, first: int = 0, **common) -> Proximity:
    """Vertex-face pairs from ``first`` on, and no edges."""
    return Proximity(
        margin=1.0,
        vertex_face=pairs(n, first),
        vertex_face_distance=np.ones(n),
        vertex_face_weights=np.ones((n, 3)),
        face_vertex=pairs(0),
        face_vertex_distance=np.ones(0),
        face_vertex_weights=np.ones((0, 3)),
        edge_edge=pairs(0),
        edge_edge_distance=np.ones(0),
        edge_edge_weights=np.ones((0, 2)),
        edges_a=pairs(0),
        edges_b=pairs(0),
        **common,
    )


def edge_crossings(n: int, first: int = 0, **common) -> EdgeCrossings:
    """Edges from ``first`` on, all through one face."""
    return EdgeCrossings(
        edge=pairs(n, first),
        face=ids(n) * 0,
        kind=np.full(n, Kind.CROSSING, dtype=np.int8),
        sign=np.ones(n, dtype=np.int8),
        parameter=np.zeros(n),
        weights=np.ones((n, 3)),
        **common,
    )


def curves(n: int, first: int = 0, **common) -> Curves:
    """Segments of pairs from ``first`` on, all of one loop."""
    return Curves(
        segments=np.zeros((n, 2, 3)),
        pairs=pairs(n, first),
        ends=np.stack([ids(n), ids(n, 1)], axis=1),
        loops=[ids(n)] if n else [],
        closed=np.zeros(min(n, 1), dtype=np.bool_),
        **common,
    )


def contacts(n: int, first: int = 0, **common) -> Contacts:
    """Contacts with the ids from ``first`` on."""
    return Contacts(
        body_a=ids(n) * 0,
        body_b=ids(n) * 0 + 1,
        point=np.zeros((n, 3)),
        normal=np.zeros((n, 3)),
        depth=np.ones(n),
        feature_a=ids(n),
        feature_b=ids(n),
        id=ids(n, first).astype(np.int64) + 2**40,
        **common,
    )


def simulated_contacts(n: int, first: int = 0, **common) -> SimulatedContacts:
    """Contacts of a simulation with the ids from ``first`` on."""
    vertices = ContactVertices(np.arange(n + 1), np.zeros(n, dtype=np.int64), np.ones(n), np.ones(n))
    plain = {each.name: getattr(contacts(n, first, **common), each.name) for each in dataclasses.fields(Contacts)}
    return SimulatedContacts(
        **plain,
        force=np.ones((n, 3)),
        normal_force=np.ones(n),
        friction_force=np.ones((n, 3)),
        impulse=np.ones((n, 3)),
        area=np.ones(n),
        gap=np.zeros(n),
        sticking=np.ones(n, dtype=np.bool_),
        vertices=vertices,
    )


def _impact_columns(n: int, first: int) -> dict:
    return {
        "kind": np.zeros(n, dtype=np.int8),
        "feature_a": ids(n, first),
        "feature_b": ids(n, first),
        "vertices": np.stack([ids(n, first + k) for k in range(4)], axis=1),
        "weights": np.ones((n, 4)),
        "time_lo": np.zeros(n),
        "time_hi": np.ones(n),
        "at_start": np.zeros(n, dtype=np.bool_),
        "point": np.zeros((n, 3)),
        "normal": np.zeros((n, 3)),
    }


def impacts(n: int, first: int = 0, **common) -> Impacts:
    """Impacts of vertices from ``first`` on."""
    return Impacts(**_impact_columns(n, first), edges_a=pairs(0), edges_b=pairs(0), **common)


def world_impacts(n: int, first: int = 0, **common) -> WorldImpacts:
    """Impacts of vertices from ``first`` on, of the first body with itself."""
    return WorldImpacts(**_impact_columns(n, first), body_a=ids(n) * 0, body_b=ids(n) * 0, **common)


def distance(value: float = 1.0, **common) -> Distance:
    """Two points so far apart."""
    ends = {"point_a": np.zeros(3), "point_b": np.array([value, 0.0, 0.0])}
    return Distance(distance=value, triangles=ids(2), **ends, **common)


LISTS = [
    triangle_pairs,
    vertex_contacts,
    volume_overlap,
    sphere_contacts,
    closest_points,
    proximity,
    edge_crossings,
    edge_contacts,
    curves,
    contacts,
    simulated_contacts,
    impacts,
    world_impacts,
]


def by_name(make) -> str:
    """The name of a maker, for the tests' ids."""
    return make.__name__


def test_every_result_is_tested_here():
    """Keep the list of makers in these tests complete, but for results that are tested with what makes them."""
    named = {getattr(impinge, name) for name in impinge.__all__}
    public = {c for c in named if isinstance(c, type) and issubclass(c, Result)}
    elsewhere = {impinge.VolumeGradient, impinge.WorldPairs, impinge.PrimitiveImpacts, impinge.SafeStep}

    assert {type(make(1)) for make in LISTS} | {Distance, HullDistance} == public - elsewhere


@pytest.mark.parametrize("make", LISTS, ids=by_name)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_results_are_sized_and_true_if_anything_was_found(make, n):
    """Count the rows, and be true if there are any."""
    assert len(make(n)) == n
    assert bool(make(n)) == (n > 0)


@pytest.mark.parametrize("make", LISTS, ids=by_name)
@pytest.mark.parametrize("n", [0, 4])
def test_results_are_ready_for_json(make, n):
    """Turn every field into plain lists, numbers and strings, which strict JSON gives back unchanged."""
    result = make(n, stats={"tests": np.int64(7), "ms": np.float32(0.5), "levels": (1, np.int8(2))}, method="made")
    plain = result.to_dict()

    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    lazy = {"point", "normal", "depth", "possible_point", "possible_normal", "possible_depth"}
    made = {name for name in lazy if isinstance(result, SphereContacts)}
    assert set(plain) == {f.name for f in dataclasses.fields(result) if f.repr} | made
    assert plain["stats"] == {"tests": 7, "ms": 0.5, "levels": [1, 2]}
    assert (plain["complete"], plain["reason"], plain["method"]) == (True, None, "made")


@pytest.mark.parametrize("make", [*LISTS, distance], ids=by_name)
def test_results_are_frozen(make):
    """Refuse to set any field, and compare by identity: sets can hold results."""
    result = make(2)
    for field in dataclasses.fields(result):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(result, field.name, None)

    assert result != make(2)
    assert len({result, result, make(2)}) == 2


@pytest.mark.parametrize("make", LISTS, ids=by_name)
def test_options_are_keywords(make):
    """Refuse positional fields, whose order may change."""
    with pytest.raises(TypeError, match="positional"):
        type(make(1))(True)


@pytest.mark.parametrize("reason", ["budget", "limit", "cancelled"])
def test_a_result_cut_short_says_so(reason):
    """Carry the reason why a result is not complete."""
    result = triangle_pairs(2, complete=False, reason=reason)

    assert (result.complete, result.reason, result.to_dict()["reason"]) == (False, reason, reason)


@pytest.mark.parametrize("make", [make for make in LISTS if make is not closest_points], ids=by_name)
def test_changes_tell_who_entered_and_left(make):
    """Split the things of two frames into those that entered, persist and left, each in order.

    Rows of nearest points belong to points, other rows are others: tests/detect/proximity/test_closest_points.py.
    """
    changes = make(4, first=2).changes(make(4))

    assert [len(rows) for rows in changes] == [2, 2, 2]
    assert changes.entered.tolist() == make(2, first=4)._keys().tolist()
    assert changes.entered.shape[1] == changes.left.shape[1] == changes.persisting.shape[1] > 0
    assert all(rows.dtype == np.int64 for rows in changes)
    together = np.concatenate([changes.entered, changes.persisting])
    assert sorted(together.tolist()) == sorted(make(4, first=2)._keys().tolist())
    together = np.concatenate([changes.left, changes.persisting])
    assert sorted(together.tolist()) == sorted(make(4)._keys().tolist())


@pytest.mark.parametrize("make", LISTS, ids=by_name)
def test_changes_of_empty_results(make):
    """Let everything enter after nothing, leave before nothing, and nothing happen between nothing and nothing.

    An empty array cannot be reshaped to (0, -1), and the first frame without contacts raised.
    """
    for now, before, expected in ((3, 0, [3, 0, 0]), (0, 3, [0, 0, 3]), (0, 0, [0, 0, 0]), (3, 3, [0, 3, 0])):
        assert [len(rows) for rows in make(now).changes(make(before))] == expected


def test_changes_equal_sets_on_random_pairs(rng):
    """Equal the differences of sets of tuples, sorted, on thousands of pairs."""
    overlap = 0
    for _ in range(200):
        frames = []
        for _ in range(2):
            rows = np.unique(rng.integers(0, 8, (rng.integers(0, 40), 2)), axis=0).astype(np.int32)
            frames.append(TrianglePairs(pairs=rows, kind=np.ones(len(rows), dtype=np.int8)))
        now, before = frames
        a, b = ({tuple(row) for row in r.pairs.tolist()} for r in frames)
        changes = now.changes(before)

        assert [tuple(row) for row in changes.entered.tolist()] == sorted(a - b)
        assert [tuple(row) for row in changes.persisting.tolist()] == sorted(a & b)
        assert [tuple(row) for row in changes.left.tolist()] == sorted(b - a)
        overlap += len(a & b) > 0
    assert 0.5 < overlap / 200 < 1.0


@pytest.mark.parametrize("make", LISTS, ids=by_name)
def test_changes_refuse_other_results(make):
    """Name both types when results of different kinds are compared."""
    other = distance() if make is triangle_pairs else triangle_pairs(2)

    message = f"changes compares two {type(make(2)).__name__}, but got a {type(other).__name__}"
    with pytest.raises(OptionError, match=message):
        make(2).changes(other)
    with pytest.raises(OptionError, match="but got a NoneType"):
        make(2).changes(None)


# each by itself --------------------------------------------------------------------------------------------


def test_triangle_pairs_list_faces_and_kinds():
    """List each colliding face once, in order, and count the kinds by name."""
    rows = np.array([[0, 7], [0, 9], [4, 7]], dtype=np.int32)
    kind = np.array([Kind.CROSSING, Kind.COPLANAR, Kind.CROSSING], dtype=np.int8)
    result = TrianglePairs(pairs=rows, kind=kind)

    assert result.faces_a.tolist() == [0, 4]
    assert result.faces_b.tolist() == [7, 9]
    assert result.count_by_kind() == {"touching": 0, "crossing": 2, "coplanar": 1}
    assert triangle_pairs(0).count_by_kind() == {"touching": 0, "crossing": 0, "coplanar": 0}


def test_triangle_pairs_keep_bodies_out_of_the_dict():
    """Leave the bodies, which JSON cannot hold, out of to_dict and repr."""
    body = object()
    result = triangle_pairs(1, bodies=(body, body))

    assert result.bodies == (body, body)
    assert "bodies" not in result.to_dict()
    assert "bodies" not in repr(result)


def test_vertex_contacts_may_carry_depths():
    """Hold depth and direction where requested, and None elsewhere."""
    assert vertex_contacts(2).to_dict()["depth"] is None
    result = vertex_contacts(2, depth=np.array([0.5, 1.0]), direction=np.zeros((2, 3)))
    assert result.to_dict()["depth"] == [0.5, 1.0]


def test_a_vertex_that_moves_to_another_tet_leaves_and_enters():
    """Identify a vertex contact by its tet too."""
    now, before = vertex_contacts(1), dataclasses.replace(vertex_contacts(1), tet=ids(1, 9))

    assert [len(rows) for rows in now.changes(before)] == [1, 0, 1]


def test_an_overlap_without_volume_is_none():
    """Be false for bodies that only touch, and write the centre that does not exist as None."""
    touching = dataclasses.replace(volume_overlap(2), volume=0.0)

    assert not touching
    assert len(touching) == 2
    assert volume_overlap(0).to_dict()["centroid"] == [None, None, None]


def test_possible_sphere_contacts_count_as_true():
    """Be true while anything is possible, though nothing is certain yet."""
    result = sphere_contacts(0, possible=2, complete=False, reason="budget")

    assert result
    assert len(result) == 0
    assert not sphere_contacts(0)


@pytest.mark.parametrize(("value", "meets"), [(0.0, True), (5e-324, False), (1.0, False), (np.inf, False)])
def test_a_distance_is_true_if_bodies_meet(value, meets):
    """Be true at a distance of zero only, have one row, and be ready for JSON even at infinity."""
    result = distance(value)

    assert bool(result) == meets
    assert len(result) == 1
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["distance"] == (None if value == np.inf else value)


def test_a_distance_has_no_changes():
    """Refuse to compare distances row by row."""
    with pytest.raises(OptionError, match=r"a distance has no rows to compare; subtract the numbers"):
        distance().changes(distance())


def test_proximity_counts_both_kinds_of_pairs():
    """Count vertex-face and edge-edge pairs, and never take one for the other."""
    faces_only = proximity(3)
    edges = {"edge_edge": pairs(3), "edges_a": pairs(9), "edges_b": pairs(9)}
    edges |= {"edge_edge_distance": np.ones(3), "edge_edge_weights": np.ones((3, 2))}
    edges_only, both = dataclasses.replace(proximity(0), **edges), dataclasses.replace(faces_only, **edges)

    assert (len(faces_only), len(edges_only), len(both)) == (3, 3, 6)
    assert edges_only
    assert [len(rows) for rows in faces_only.changes(edges_only)] == [3, 0, 3]
    assert [len(rows) for rows in both.changes(edges_only)] == [3, 3, 0]
    np.testing.assert_array_equal(both.changes(edges_only).entered[:, 0], [0, 0, 0])


def test_curves_write_their_loops():
    """Write loops of different lengths as nested lists."""
    result = dataclasses.replace(curves(3), loops=[ids(2), ids(1, 2)])

    assert result.to_dict()["loops"] == [[0, 1], [2]]


def test_contact_ids_are_64_bits_wide():
    """Keep ids beyond 32 bits apart."""
    changes = contacts(2).changes(dataclasses.replace(contacts(2), id=np.array([2**40, 1], dtype=np.int64)))

    assert changes.persisting.tolist() == [[2**40]]
    assert changes.left.tolist() == [[1]]


# what is printed -------------------------------------------------------------------------------------------

BOX = shapes.box(1.0)
NEAR = shapes.box(1.0, center=(1.3, 0.0, 0.0))
HALF = shapes.box(1.0, center=(0.5, 0.0, 0.0))
CORNER = shapes.box(1.0, center=(0.5, 0.5, 0.5))
EMPTY = impinge.TriMesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int32))
CANCELLED = threading.Event()
CANCELLED.set()
PRINTED = {
    "gap": (lambda: impinge.distance(BOX, NEAR), "Distance: 0.3 by box_tree, complete, "),
    "within": (lambda: impinge.distance(BOX, NEAR, upper=0.4), "Distance: 0.3 by box_tree, complete, "),
    "beyond": (lambda: impinge.distance(BOX, NEAR, upper=0.1), "Distance: above 0.1 by box_tree, complete, "),
    "meeting": (lambda: impinge.distance(BOX, HALF), "Distance: 0 by box_tree, complete, "),
    "no triangles": (lambda: impinge.distance(BOX, EMPTY), "Distance: inf by box_tree, complete, "),
    "cancelled": (lambda: impinge.distance(BOX, NEAR, cancel=CANCELLED), "Distance: unknown by box_tree, incomplete: "),
    "hulls": (lambda: impinge.hull_distance(BOX, NEAR), "HullDistance: 0.3 by gjk, complete, "),
    "deep hulls": (lambda: impinge.hull_distance(BOX, HALF), "HullDistance: 0, penetration at most 0.5 by gjk, "),
    "volume": (lambda: impinge.overlap_volume(BOX, HALF), "VolumeOverlap: volume 0.5 ± "),
    "gradient": (lambda: impinge.volume_gradient(BOX, HALF), "VolumeGradient: volume 0.5 ± "),
    "curves": (lambda: impinge.intersection_curves(BOX, CORNER), "Curves: 1 of 6 segments and length 3 by "),
    "spheres": (lambda: impinge.sphere_contacts(BOX, HALF, max_tests=1), "SphereContacts: 0 certain, "),
    "pairs": (lambda: impinge.triangle_pairs(BOX, NEAR, method="box_tree"), "TrianglePairs: 0 by box_tree, complete, "),
}


@pytest.mark.parametrize("name", PRINTED)
def test_results_print_what_was_asked(name):
    """Print the number in question: a distance or a volume, not the number of rows."""
    make, expected = PRINTED[name]
    assert str(make()).startswith(expected)


def test_contacts_print_pairs_without_an_answer():
    """Name the pairs of bodies that a budget left open beside the contacts."""
    world = impinge.World()
    for k in range(6):
        world.add(shapes.icosphere(2, center=(1.5 * k, 0.0, 0.0)))
    found = world.contacts(method="vertices", max_tests=1)

    assert len(found.possible)
    assert f"{len(found):,}, {len(found.possible)} pairs of bodies possible by " in str(found)
