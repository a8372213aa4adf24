"""How two bodies stand to each other, containment included."""

from __future__ import annotations

import json
import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import impinge
import oracle
from impinge import scenes, shapes
from impinge.detect.box_tree.detector import BoxTree
from impinge.detect.common.containment import enclosure
from impinge.detect.common.pair_query import query_body
from impinge.detect.proximity.relation import relation_of
from impinge.errors import MeshError, OptionError

pytestmark = pytest.mark.small


@pytest.mark.parametrize("name", [n for n in scenes.SMALL if "relation" in scenes.get(n).expected])
def test_relations_known_by_hand(name):
    """Tell disjoint, touching, overlapping, crossing and contained bodies apart."""
    scene = scenes.get(name)
    report = impinge.check(*scene.bodies)

    assert report.relation == scene.expected["relation"]
    assert bool(report) == impinge.collides(*scene.bodies) == (report.relation != "disjoint")
    assert json.loads(json.dumps(report.to_dict()))["relation"] == report.relation


def test_containment_needs_a_closed_body():
    """Find a body inside a closed one, in either order, and none inside an open one."""
    outer, inner = shapes.icosphere(2), shapes.box(0.2)
    assert impinge.check(inner, outer).relation == "a in b"
    assert impinge.check(outer, inner).relation == "b in a"

    outer.remove_triangles([0])
    assert impinge.check(inner, outer).relation == "disjoint"


def test_one_piece_of_many_inside():
    """Find a single piece of a body that lies inside another, whichever piece it is."""
    outer = shapes.box(1.0)
    far, near = shapes.box(0.1, (5.0, 0.0, 0.0)), shapes.box(0.1, (0.2, 0.0, 0.0))
    both = (np.concatenate([far.vertices, near.vertices]), np.concatenate([far.faces, near.faces + len(far.vertices)]))

    assert impinge.check(both, outer).relation == "a in b"


def test_transforms_move_containment_too():
    """Look for containment where the transforms put the bodies."""
    away = np.eye(4)
    away[0, 3] = 10.0
    outer, inner = shapes.icosphere(2), shapes.box(0.2)

    assert impinge.check(inner, outer, transform_a=away).relation == "disjoint"
    assert impinge.check(inner, outer, transform_a=away, transform_b=away).relation == "a in b"


def test_points_in_surface_against_the_oracle(rng):
    """Agree with rational ray casting on integer points of an integer surface, most of them degenerate."""
    body = shapes.box(4.0, cells=(2, 2, 2))
    x = np.array(body.vertices)
    x[rng.random(len(x)) < 0.3] *= 0.5  # dents with exact coordinates
    side = query_body(impinge.TriMesh(x, body.faces), None, None, "a")
    points = rng.integers(-3, 4, (120, 3)).astype(np.float64)
    expected = [oracle.point_in_closed_surface(p.tolist(), x.tolist(), body.faces.tolist()) >= 0 for p in points]

    np.testing.assert_array_equal(enclosure(side).contains(points), expected)
    assert 0.1 < np.mean(expected) < 0.9


def joined(*bodies):
    """One body of several, none of them sharing vertices."""
    offsets = np.cumsum([0, *(len(body.vertices) for body in bodies[:-1])])
    vertices = np.concatenate([body.vertices for body in bodies])
    return impinge.TriMesh(vertices, np.concatenate([body.faces + first for body, first in zip(bodies, offsets)]))


def turned_round(body):
    """The same surface with its inside out."""
    return impinge.TriMesh(body.vertices, body.faces[:, ::-1])


TINY = shapes.box(0.1)
STRAY = impinge.TriMesh([[5, 5, 5], [6, 5, 5], [5, 6, 5]], [[0, 1, 2]])


@pytest.mark.parametrize(
    ("outer", "relation"),
    [
        (joined(shapes.box(1.0), shapes.box(1.0, (0.3, 0.3, 0.3))), "a in b"),
        (joined(shapes.box(2.0), turned_round(shapes.box(1.0))), "disjoint"),
        (joined(shapes.box(1.0), STRAY), "a in b"),
        (STRAY, "disjoint"),
        (turned_round(shapes.box(1.0)), "a in b"),
        (impinge.TriMesh(shapes.box(1.0).vertices[shapes.box(1.0).faces].reshape(-1, 3), np.arange(36).reshape(-1, 3)),
         "a in b"),
    ],
    ids=["in two parts that overlap", "in a cavity", "beside an open piece", "nothing closed", "inside out", "a soup"],
)  # fmt: skip
def test_what_encloses(outer, relation):
    """Find a body inside whatever has an inside: overlapping parts, soups, inside-out surfaces; not in a cavity."""
    report = impinge.check(TINY, outer)

    assert report.relation == relation
    assert impinge.collides(TINY, outer) == (relation != "disjoint")
    assert report.b_has_inside == (outer is not STRAY)


def test_cancelled_check_is_unknown():
    """Say that nothing is known where the query was stopped before it found anything, and refuse a yes or no."""
    cancel = threading.Event()
    cancel.set()
    a, b = scenes.get("boxes_overlapping_by_half").bodies
    report = impinge.check(a, b, cancel=cancel)

    assert report.relation == "unknown"
    with pytest.raises(OptionError, match="cancelled before it found anything"):
        bool(report)


def test_ignored_pairs_do_not_turn_into_containment():
    """Count bodies whose every pair is ignored as apart, never as one inside the other."""
    a, b = scenes.get("boxes_overlapping_by_half").bodies
    everything = impinge.triangle_pairs(a, b).pairs

    assert impinge.check(a, b, ignore=everything).relation == "disjoint"
    assert not impinge.collides(a, b, ignore=everything)


def test_report_draws_the_bodies_where_they_were_asked_about(rng):
    """Keep the bodies as the query saw them, moved by its transforms."""
    move = np.eye(4)
    move[0, 3] = 0.25
    body = shapes.box(1.0)
    report = impinge.check(body, body, transform_b=move)
    body.update(rng.random(body.vertices.shape))

    np.testing.assert_array_equal(
        report.pairs.bodies[1].vertices, shapes.box(1.0).vertices + np.array([0.25, 0.0, 0.0])
    )


def test_nonsense_is_refused():
    """Refuse a missing body, options of a body that is not there, unknown options, and transforms that overflow."""
    body = shapes.box(1.0)
    huge = 1e308 * np.eye(4)
    huge[3, 3] = 1.0
    with pytest.raises(MeshError, match=r"b is a builtins\.NoneType"):
        impinge.triangle_pairs(body, None)
    with pytest.raises(OptionError, match="transform_b and active_b are for two bodies"):
        impinge.BoxTree(body).query(transform_b=np.eye(4))
    with pytest.raises(TypeError, match="colour"):
        impinge.check(body, body, colour="red")
    with pytest.raises(OptionError, match="transform_a moves a vertex beyond the range of doubles"):
        impinge.triangle_pairs(shapes.box(100.0), body, transform_a=huge)
    with pytest.raises(OptionError, match="neighbours='skip' is for self-collision"):
        impinge.BoxTree(body, body, neighbours="skip")


def test_bodies_and_results_can_be_pickled():
    """Send bodies and results to another process; what detectors keep with a body stays behind."""
    body, tets = shapes.icosphere(2), shapes.tet_box(2, 1, 1)
    result = impinge.self_pairs(body)
    again, tets_again, result_again = pickle.loads(pickle.dumps((body, tets, result)))

    np.testing.assert_array_equal(again.vertices, body.vertices)
    assert len(impinge.triangle_pairs(again, body)) == len(impinge.triangle_pairs(body, body))
    tets_again.update(np.array(tets.vertices) + 1.0)
    np.testing.assert_array_equal(tets_again.surface.vertices, tets.vertices + 1.0)
    np.testing.assert_array_equal(result_again.pairs, result.pairs)


def test_collides_finds_containment_whatever_is_ignored():
    """Find a body inside a body although pairs are ignored that do not meet, as ``check`` does."""
    inner, outer = impinge.shapes.icosphere(1, radius=0.3), impinge.shapes.icosphere(2)

    assert impinge.collides(inner, outer, ignore=[[0, 0]])
    assert impinge.check(inner, outer, ignore=[[0, 0]]).relation == "a in b"


def test_collides_ignores_what_meets():
    """Say no where bodies meet in ignored pairs only, although one has a piece in the box of the other."""
    a, b = impinge.shapes.icosphere(1), impinge.shapes.icosphere(1, center=(1.0, 0.2, 0.1))
    pairs = impinge.triangle_pairs(a, b).pairs

    assert len(pairs) > 10
    assert not impinge.collides(a, b, ignore=pairs)
    assert impinge.collides(a, b, ignore=pairs[1:])


# contents of a report beside the relation ---------------------------------------------------------------


def test_report_of_bodies_that_overlap():
    """Tell the overlap volume, the deepest contact and the curves of a box pressed into another."""
    a, b = shapes.box(1.0, cells=(8, 8, 8)), shapes.box(0.5, center=(0.03, 0.02, 0.7), cells=(8, 8, 8))
    report = impinge.check(a, b)

    assert report.relation == "overlapping"
    assert abs(report.overlap.volume - 0.05 * 0.25) < 1e-4
    assert report.deepest.depth[0] >= 0.05 - 1e-9
    assert (len(report.curves.loops), report.curves.closed.tolist()) == (1, [True])
    assert abs(report.curves.length - 2.0) < 1e-9
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["overlap_volume"] == report.overlap.volume
    assert plain["depth"] == report.deepest.depth[0]
    assert (plain["curves"], len(plain["normal"])) == (1, 3)
    assert pickle.loads(pickle.dumps(report)).overlap.volume == report.overlap.volume


def test_report_of_bars_that_cross():
    """Take the depth from the overlap volume where no vertex is inside."""
    report = impinge.check(shapes.box((4.0, 0.2, 0.2)), shapes.box((0.2, 4.0, 0.2), center=(0.0, 0.0, 0.15)))

    assert report.deepest.kind.tolist() == [impinge.ContactKind.VOLUME]
    assert abs(report.deepest.depth[0] - 0.05) < 2e-3
    np.testing.assert_allclose(report.deepest.normal, [[0.0, 0.0, 1.0]], atol=1e-6)


def test_report_of_a_body_inside_another():
    """Tell volume and depth of a body that meets no triangle."""
    report = impinge.check(shapes.box(0.2, center=(0.3, 0.0, 0.0)), shapes.box(1.0, cells=(6, 6, 6)))

    assert report.relation == "a in b"
    assert abs(report.overlap.volume - 0.008) < 1e-4
    assert abs(report.deepest.depth[0] - 0.3) < 1e-9
    assert len(report.curves) == 0


def test_report_of_bodies_apart_and_open():
    """Have no depth of bodies that are apart, and neither depth nor volume where nothing has an inside."""
    apart = impinge.check(shapes.box(1.0), shapes.box(1.0, center=(3.0, 0.0, 0.0)))
    assert (apart.overlap.volume, apart.deepest, len(apart.curves)) == (0.0, None, 0)
    cloth = shapes.cloth_grid(4, 4)
    upright = impinge.TriMesh(cloth.vertices[:, [2, 1, 0]] + 0.03, cloth.faces)
    crossing = impinge.check(cloth, upright)
    assert (crossing.relation, crossing.overlap, crossing.deepest) == ("crossing", None, None)
    assert len(crossing.curves) > 0


def test_report_of_equal_bodies_and_of_sides_in_each_other():
    """Call bodies overlapping whose sides lie in each other, and touching only where they share no volume."""
    equal = impinge.check(shapes.box(1.0), shapes.box(1.0))
    assert (equal.relation, equal.overlap.volume) == ("overlapping", 1.0)
    assert 0.5 < equal.deepest.depth[0] <= 1.0
    flush = impinge.check(shapes.box(1.0), shapes.box(1.0, center=(0.75, 0.0, 0.0)))
    assert flush.relation == "overlapping"
    np.testing.assert_allclose(flush.overlap.volume, 0.25, rtol=1e-6)
    assert 0.2 < flush.deepest.depth[0] <= 0.25
    assert flush.deepest.normal[0, 0] > 0.9  # sides that lie in each other push a little, too
    side_by_side = impinge.check(shapes.box(1.0), shapes.box(1.0, center=(1.0, 0.0, 0.0)))
    assert (side_by_side.relation, side_by_side.overlap.volume) == ("touching", 0.0)
    assert side_by_side.deepest.depth.tolist() == [0.0]


def test_report_of_a_body_inside_that_touches():
    """Call it overlapping, with the volume and a depth, although no pair of triangles crosses."""
    report = impinge.check(shapes.box(1.0, cells=(4, 4, 4)), shapes.box(0.25, center=(0.375, 0.0, 0.0)))

    assert report.relation == "overlapping"
    assert set(report.pairs.kind.tolist()) == {impinge.Kind.TOUCHING, impinge.Kind.COPLANAR}
    np.testing.assert_allclose(report.overlap.volume, 0.25**3, rtol=1e-6)
    assert 0.2 < report.deepest.depth[0] < 0.5


def test_report_of_a_body_that_overlaps_itself():
    """Count what a body covers twice as its inside, once: for the relation, the volume and the depth alike."""
    twice = joined(shapes.box(1.0), shapes.box(1.0, (0.5, 0.3, 0.2)))
    within = impinge.check(shapes.box(0.25, (0.25, 0.15, 0.1)), twice)
    assert within.relation == "a in b"
    np.testing.assert_allclose(within.overlap.volume, 0.25**3, rtol=0.05)
    crossing = impinge.check(twice, shapes.box((4.0, 0.25, 0.25), (0.25, 0.15, 0.1)))
    assert crossing.relation == "overlapping"
    np.testing.assert_allclose(crossing.overlap.volume, 1.5 * 0.25**2, rtol=0.05)
    assert crossing.deepest.depth[0] > 0.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (impinge.TriMesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=int)), shapes.box(1.0)),
        (impinge.TriMesh(np.zeros((3, 3)), [[0, 1, 2]]), shapes.box(1.0, (0.5, 0.0, 0.0))),
        (shapes.cloth_grid(2, 2, size=0.5, center=(0.0, 0.0, 0.5)), shapes.box(1.0)),
        (shapes.tet_box(1, 1, 1, size=0.5), shapes.tet_box(2, 2, 2, size=2.0)),
        (shapes.tet_box(2, 1, 1), shapes.tet_box(2, 1, 1)),
        (shapes.box(1.0), turned_round(shapes.box(0.5, (0.5, 0.1, 0.1)))),
    ],
    ids=["empty", "a point on a face", "an open sheet on a face", "tets in tets", "equal tets", "inside out"],
)  # fmt: skip
def test_reports_are_whole_and_do_not_depend_on_the_order(a, b):
    """Tell the same of a and b as of b and a, in plain numbers, for bodies of every kind."""
    forth, back = (json.loads(json.dumps(impinge.check(*pair).to_dict(), allow_nan=False)) for pair in ((a, b), (b, a)))
    mirrored = {"a in b": "b in a", "b in a": "a in b"}

    assert back["relation"] == mirrored.get(forth["relation"], forth["relation"])
    assert back["pairs_by_kind"] == forth["pairs_by_kind"]
    assert back["curves"] == forth["curves"]
    for name in ("overlap_volume", "depth", "curve_length"):
        assert (back[name] is None) == (forth[name] is None)
        if forth[name] is not None:
            np.testing.assert_allclose(back[name], forth[name], rtol=1e-6, atol=1e-9)
    assert impinge.collides(a, b) == (forth["relation"] != "disjoint")


def test_report_leaves_out_what_is_not_wanted():
    """Neither measure depths nor volumes on request, and refuse what is no choice."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.5, 0.2, 0.1))
    report = impinge.check(a, b, depth=False, volume=False)

    assert (report.overlap, report.deepest) == (None, None)
    assert report.to_dict()["depth"] is None
    with pytest.raises(OptionError, match="depth is 1, expected True or False"):
        impinge.check(a, b, depth=1)


def test_why_there_is_no_volume():
    """Say why a requested overlap volume is missing, where bodies meet."""
    ball, sheet = shapes.icosphere(2), shapes.cloth_grid(4, 4, size=3.0)
    words = dict(impinge.check(ball, sheet).in_words())
    both = dict(impinge.check(sheet, sheet).in_words())

    assert words["overlap volume"] == "not found: b is not closed"
    assert both["overlap volume"] == "not found: a and b are not closed"
    assert "overlap volume" not in dict(impinge.check(ball, sheet, volume=False).in_words())


def test_depth_says_what_it_is():
    """Say whose depth it is, with a rounded direction without signs of zeros, and that 0 is on the surface."""
    deep = SimpleNamespace(depth=np.array([0.5]), normal=np.array([[-0.0, 1.13e-16, -1.0]]), kind=np.array([0]))
    touching = dict(impinge.check(shapes.box(), shapes.box(center=(1.0, 0.0, 0.0))).in_words())
    equal = dict(impinge.check(shapes.box(), shapes.box()).in_words())

    words = impinge.Report._depth_in_words(deep)
    assert words == "0.5: depth of a vertex below the other surface, along (0, 0, -1)"
    assert touching["deepest"] == "0: vertices lie on the other surface, none below it"
    assert equal["deepest"].startswith("0.57735: overlap volume over its rate of change along (")


def test_relation_of_bodies_that_change_matches_check():
    """Give the relation of ``check`` after each motion and each removal of triangles, with cached pieces."""
    ball, pea = shapes.icosphere(2), shapes.icosphere(1, radius=0.2)
    rest, detector = pea.vertices.copy(), BoxTree(ball, pea)
    found = []
    for shift in (0.0, 1.0, 3.0, 0.1):
        pea.update(rest + np.array([shift, 0.0, 0.0]))
        found.append(relation_of(detector.query(), ball, pea))
        assert found[-1] == impinge.check(ball, pea).relation
    ball.remove_triangles([0])
    opened = relation_of(detector.query(), ball, pea)

    assert found == ["b in a", "overlapping", "disjoint", "b in a"]
    assert opened == impinge.check(ball, pea).relation == "disjoint"
