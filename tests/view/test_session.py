"""The computation behind the live page, and drawings of results, without a browser."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from recording_viewer import RecordingViewer

import impinge
from impinge import scenes, shapes
from impinge.scenes import simulated as simulations
from impinge.view.drawing import LAYERS, MOST_ARROWS, drawing_of
from impinge.view.motion_sources import ScriptedMotion, SimulatedMotion
from impinge.view.pressure import PRESSURE_COLOURS
from impinge.view.session import METHODS, SHOWN_SCENES, SHOWN_SIMULATIONS, Session, first_hit
from impinge.view.viewer import ELEMENTS, draw

PLENTY_MS = 1e9
"""A budget that is never exhausted."""
PAIR_METHODS = ("box_tree", "breadth_first", "gjk_cut", "spatial_hash")


@pytest.fixture
def session() -> Session:
    """Two intersecting bumpy spheres."""
    return Session("bumpy_spheres_1k")


def drawn(frame) -> RecordingViewer:
    viewer = RecordingViewer()
    draw(viewer, frame.drawing, frozenset(LAYERS))
    return viewer


def test_all_scenes_of_the_page_have_two_bodies():
    """Offer only scenes that can be shown."""
    for name in SHOWN_SCENES:
        assert len(scenes.get(name).bodies) == 2


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_something(session, method):
    """Query overlapping bodies by each method: find contacts, and state the certainty."""
    session.choose_method(method)
    session.settings.budget_ms = PLENTY_MS
    frame = session.advance(0.1)

    assert frame.count > 0
    assert frame.method == method
    assert frame.detection_ms > 0.0
    assert any(word in frame.drawing.sentence for word in ("exact", "complete", "certain"))
    assert (drawn(frame).highlighted["a"] > 0) == (method != "layered_depth"), "spans replace triangles"
    assert len(frame.drawing.highlights(0)) > 0


def test_methods_agree(session):
    """Find equal numbers of pairs by every pair method, while bodies move."""
    for _ in range(3):
        session.advance(0.1)
        counts = set()
        for method in (*PAIR_METHODS, "sphere_tree"):
            session.settings.budget_ms = PLENTY_MS
            session.choose_method(method)
            counts.add(session.advance(0.0).count)

        assert len(counts) == 1
        assert counts.pop() > 50


def test_what_is_drawn(session):
    """Draw spheres of sphere pairs, spans of volumes, curves of triangle pairs, and normals of all."""
    expected = {
        "box_tree": {"curves", "normals"},
        "sphere_tree": {"spheres a", "spheres b", "normals"},
        "layered_depth": {"spans", "normals"},
        "vertices_inside": {"normals"},
    }
    session.settings.budget_ms = PLENTY_MS
    for method, names in expected.items():
        session.choose_method(method)
        viewer = drawn(session.advance(0.0))
        extras = {name for name, count in viewer.shown.items() if count and name not in ("a", "b")}

        assert extras == names, method
        assert viewer.shown["a"] == viewer.shown["b"] == 1280
        assert set(viewer.shown) == set(ELEMENTS)


def test_layers_can_be_left_out(session):
    """Draw the bodies alone without layers."""
    session.settings.layers = frozenset()
    frame = session.advance(0.0)
    viewer = RecordingViewer()
    draw(viewer, frame.drawing, session.settings.layers)

    assert frame.count > 0
    assert sum(viewer.highlighted.values()) == 0
    assert {name for name, count in viewer.shown.items() if count} == {"a", "b"}


def test_exhausted_budget_is_reported(session):
    """State certain and possible pairs where the budget ends the search."""
    session.choose_scene("knots_12k")
    session.choose_method("sphere_tree")
    session.settings.budget_ms = 0.1
    frame = session.advance(0.1)

    assert not frame.drawing.complete
    assert "possible" in frame.drawing.sentence


def test_resolution_changes_the_answer(session):
    """Find more spans with more rays."""
    session.choose_method("layered_depth")
    session.settings.resolution = 16
    coarse = session.advance(0.0)
    session.settings.resolution = 64
    fine = session.advance(0.0)

    assert fine.count > 10 * coarse.count > 0


def test_deformation_scales_the_motion(session):
    """Scale the displacement linearly by the deformation slider."""
    rest = session.motion.scene.rest_positions[0]
    session.motion.time = 1.0
    reach = []
    for share in (0.0, 1.0, 2.0):
        session.settings.deformation = share
        session.advance(0.0)
        reach.append(session.bodies[0].vertices - rest)

    assert np.abs(reach[0]).max() == 0.0
    assert np.abs(reach[1]).max() > 0.01
    np.testing.assert_allclose(reach[2], 2.0 * reach[1], atol=1e-12)


def test_second_body_can_be_moved_away_and_turned(session):
    """Find no pairs after a shift out of the first body; keep the centre under a rotation."""
    session.settings.shift = np.array([2.0, 0.0, 0.0])
    away = session.advance(0.0)
    assert away.count == 0
    assert "No triangles intersect" in away.drawing.sentence

    session.settings.shift = np.zeros(3)
    session.settings.turn = np.diag([-1.0, -1.0, 1.0])
    session.settings.deformation = 0.0
    session.advance(0.0)
    middle = session.motion.scene.rest_positions[1] - session.centre_of_b
    np.testing.assert_allclose(session.bodies[1].vertices - session.centre_of_b, middle * [-1, -1, 1], atol=1e-12)


def test_containment_is_reported():
    """Report containment where no triangles intersect."""
    frame = Session("nested_spheres").advance(0.0)

    assert frame.count == 0
    assert "inside the other" in frame.drawing.sentence


@pytest.mark.parametrize("method", PAIR_METHODS)
def test_contacts_follow_cuts(session, method):
    """Find nothing after cutting the colliding triangles, and all pairs after restoring them."""
    session.choose_method(method)
    before = session.advance(0.0).count
    went = session.cut_colliding()
    assert went > 0
    assert session.advance(0.0).count == 0
    assert drawn(session.advance(0.0)).shown["b"] == 1280 - went

    session.restore()
    assert session.advance(0.0).count == before > 0


def test_sphere_trees_follow_cuts(session):
    """Find the pairs of box trees by sphere trees after a partial cut."""
    session.settings.budget_ms = PLENTY_MS
    session.choose_method("sphere_tree")
    before = session.advance(0.0)
    points = before.drawing.surfaces[1].vertices[before.drawing.surfaces[1].faces[before.drawing.hits[1][0]]]
    assert session.cut_around(points.mean(axis=0), 0.15 * session.size) > 0
    by_spheres = session.advance(0.0).count
    session.choose_method("box_tree")

    assert 0 < by_spheres < before.count
    assert by_spheres == session.advance(0.0).count


def test_volume_of_a_cut_body_is_refused_in_a_sentence(session):
    """Show the bodies and the reason where a method is not applicable."""
    session.advance(0.0)
    session.cut_colliding()
    session.choose_method("layered_depth")
    frame = session.advance(0.0)

    assert frame.count == 0
    assert not frame.drawing.complete
    assert "layered_depth is not applicable" in frame.drawing.sentence
    assert "closed" in frame.drawing.sentence


def test_ray_cuts_what_it_meets_first(session):
    """Cut the near side only; cut nothing along a ray that misses."""
    session.settings.deformation = 0.0
    session.advance(0.0)
    assert session.cut_along([0, 0, 50.0], [0, 0, 1.0], 0.2) == 0
    went = session.cut_along([-0.3, 0, 50.0], [0, 0, -1.0], 0.2)
    body = session.bodies[0].snapshot()
    centres = body.vertices[body.elements].mean(axis=1)
    dead = np.setdiff1d(np.arange(len(body.elements)), body.live)

    assert went == len(dead) > 0
    assert (centres[dead, 2] > 0.3).all()


def test_first_hit_of_a_box():
    """Hit a unit box half a unit before its centre from two sides, and miss beside it."""
    box = shapes.box()

    assert first_hit(box, np.array([0.1, 0.2, 5.0]), np.array([0.0, 0.0, -1.0])) == pytest.approx(4.5)
    assert first_hit(box, np.array([-5.0, 0.2, 0.1]), np.array([1.0, 0.0, 0.0])) == pytest.approx(4.5)
    assert first_hit(box, np.array([0.9, 0.2, 5.0]), np.array([0.0, 0.0, -1.0])) == np.inf


def test_history_is_what_the_charts_show(session):
    """Store time and count of each frame."""
    for _ in range(3):
        session.advance(0.02)

    assert session.frame == len(session.times) == len(session.counts) == 3
    assert min(session.times) > 0.0


def test_scene_file_is_shown_with_its_motions(tmp_path):
    """Move the bodies of a scene file, and return to it from another scene."""
    path = tmp_path / "mine.toml"
    body = '[[body]]\nshape = { kind = "box" }\n'
    path.write_text(f"{body}{body}position = [3, 0, 0]\nmotion = {{ velocity = [-1, 0, 0] }}\n")
    session = Session(ScriptedMotion(impinge.read_scene(path).scene()))
    apart, together = session.advance(0.0).count, session.advance(2.5).count
    session.choose_scene("crossed_tets")
    session.choose_scene("mine")

    assert (apart, together > 0) == (0, True)
    assert session.motion.name == "mine"


# between frames -------------------------------------------------------------------------------------------


@pytest.fixture
def thrown(tmp_path) -> Session:
    """A box that flies through a thin plate, at 10 m/s, with the impacts between frames switched on."""
    path = tmp_path / "thrown.toml"
    plate = '[[body]]\nshape = { kind = "box", size = [2, 2, 0.01] }\n'
    box = '[[body]]\nshape = { kind = "box", size = 0.1 }\nposition = [0.013, 0.007, 1.0]\n'
    path.write_text(f"{plate}{box}motion = {{ velocity = [0, 0, -10] }}\n")
    session = Session(ScriptedMotion(impinge.read_scene(path).scene()))
    session.settings.between_frames = True
    return session


def test_impacts_between_frames(thrown):
    """Find the impacts of a body that is on the other side in the next frame, and draw features, points and normals."""
    first, before, through, after = [thrown.advance(seconds) for seconds in (0.0, 0.05, 0.1, 0.05)]
    viewer = drawn(through)
    start, end = (frame.drawing.surfaces[1].vertices for frame in (before, through))
    plate, box = thrown.bodies
    expected = impinge.impacts(plate, (start, box.faces), end_b=end)

    assert [frame.count for frame in (first, before, through, after)] == [0, 0, len(expected), 0]
    assert first.drawing.sentence == "No body has moved yet: there is no motion to search."
    assert before.drawing.sentence == "No impacts on the way. Every pair of features was decided exactly."
    time = float(expected.time_lo[0])
    assert through.drawing.sentence.startswith(f"{len(expected)} impacts on the way, the first at {time:.4g} of the ")
    assert time == pytest.approx(0.5 - 0.05 - 0.005)
    assert (through.method, through.drawing.unit) == ("between frames", "impacts")
    assert through.detection_ms > 0.0
    assert viewer.shown["points"] == viewer.shown["normals"] == min(len(expected), MOST_ARROWS)
    assert min(viewer.highlighted.values()) > 0
    np.testing.assert_allclose(end, thrown.motion.scene.rest_positions[1] - [0.0, 0.0, 1.5], atol=1e-12)


def test_impacts_stay_while_time_does(thrown):
    """Show the same impacts when the query repeats without a motion, and none after a restart."""
    for seconds in (0.0, 0.05, 0.1):
        moved = thrown.advance(seconds)
    again = thrown.advance(0.0)
    thrown.settings.between_frames = False
    contacts = thrown.advance(0.0)
    thrown.settings.between_frames = True
    switched = thrown.advance(0.0)
    thrown.restart()
    restarted = thrown.advance(0.0)

    assert again.count == switched.count == moved.count > 0
    assert (contacts.count, contacts.method) == (0, "box_tree")
    assert restarted.count == 0
    assert "there is no motion" in restarted.drawing.sentence


def test_impacts_follow_cuts(thrown):
    """Find no impact with the triangles that were removed."""
    thrown.advance(0.0)
    thrown.advance(0.05)
    assert thrown.cut_around(np.zeros(3), 5.0) > 0

    assert thrown.advance(0.1).count == 0


def test_impacts_of_many_bodies_are_refused_in_a_sentence(tmp_path):
    """Say that the switch takes one or two bodies, and search one body with itself."""
    body = '[[body]]\nshape = { kind = "box" }\nmotion = { velocity = [-1, 0, 0] }\n'
    sentences = []
    for count in (1, 3):
        path = tmp_path / f"{count}.toml"
        path.write_text(body * count)
        session = Session(ScriptedMotion(impinge.read_scene(path).scene()))
        session.settings.between_frames = True
        sentences.append([session.advance(0.1).drawing.sentence for _ in range(2)][1])

    assert sentences[0] == "No impacts on the way. Every pair of features was decided exactly."
    refused = "between frames is not applicable: it takes one or two bodies, found 3; switch it off."
    assert sentences[1] == refused


def test_drawing_of_impacts_that_touch_at_the_start():
    """Count pairs that meet at the start apart, and leave their points out."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.0, 0.0, 1.0))
    drawing = drawing_of(impinge.impacts(a, b, end_b=b.vertices - [[0.0, 0.0, -1.0]]))
    some = drawing_of(impinge.impacts(a, b, end_b=b.vertices, max_tests=1))

    assert (drawing.count, len(drawing.points), len(drawing.arrows)) == (0, 0, 0)
    assert drawing.sentence.startswith("No impacts on the way.")
    assert drawing.notes[0].endswith("pairs meet at the start already: not counted")
    assert not some.complete
    assert "there may be more later" in some.sentence


def test_impacts_are_shown_as_a_page(tmp_path):
    """Write the bodies at the time of the first impact as one html file."""
    a, b = shapes.box(1.0), shapes.box(1.0, center=(0.013, 0.007, 3.0))
    found = impinge.impacts(a, b, end_b=b.vertices - np.array([0.0, 0.0, 4.0]))
    drawing = drawing_of(found)
    path = found.show(tmp_path / "impact.html")

    assert path.stat().st_size > 100_000
    assert drawing.surfaces[1].vertices[:, 2].min() == pytest.approx(0.5)
    assert drawing.count == len(found)


def test_unknown_names_are_refused(session):
    """Reject unknown scenes, simulations and methods, and keep the current ones."""
    with pytest.raises(impinge.OptionError, match="no scene 'nonsense'"):
        session.choose_scene("nonsense")
    with pytest.raises(impinge.OptionError, match="no simulation 'nonsense'"):
        session.choose_scene("nonsense, simulated")
    with pytest.raises(impinge.OptionError, match="expected one of 'box_tree', "):
        session.choose_method("nonsense")
    assert session.advance(0.0).count > 0


# many bodies, and simulations -----------------------------------------------------------------------------

PUSHED = """
[simulation]
gravity = [0, 0, 0]
dt = 0.005
[[body]]
name = "held"
shape = { kind = "tet_box", nx = 1, ny = 1, nz = 1, size = 0.1 }
soft = { material = "liver", embedding = "barycentric", hold = { point = [-0.04, 0, 0], normal = [-1, 0, 0] } }
[[body]]
name = "thrown"
shape = { kind = "tet_box", nx = 1, ny = 1, nz = 1, size = 0.1 }
position = [0.11, 0.01, 0.02]
soft = { material = "liver", embedding = "barycentric", velocity = [-0.5, 0, 0] }
"""


@pytest.fixture
def pushed(tmp_path) -> Session:
    """Two soft cubes, one flying at the other."""
    path = tmp_path / "pushed.toml"
    path.write_text(PUSHED)
    return Session(SimulatedMotion("pushed", impinge.read_scene(path).simulation))


def test_bodies_of_a_simulation_push_each_other(pushed):
    """Follow the simulation, report active contacts, and restart at the initial state."""
    rest = [body.vertices.copy() for body in pushed.bodies]
    frames = [pushed.advance(1 / 30) for _ in range(3)]
    expected = pushed.motion.simulation

    assert pushed.is_simulated
    assert frames[-1].time == pytest.approx(0.1, abs=0.003)
    assert max(frame.count for frame in frames) > 0
    assert f"simulated {frames[-1].time:.2f} s" in frames[-1].drawing.notes[-1]
    for body, name in zip(pushed.bodies, expected.world.names):
        np.testing.assert_array_equal(body.vertices, expected.world.surface(name).vertices)
    assert any("active contacts" in frame.drawing.notes[-1] for frame in frames)
    pushed.restart()
    pushed.advance(0.0)
    for body, x in zip(pushed.bodies, rest):
        np.testing.assert_array_equal(body.vertices, x)


def test_pressures_of_a_simulation_are_a_layer(pushed):
    """Colour the triangles in contact by their pressure, on request, instead of those that collide."""
    viewer, colours = RecordingViewer(), [f"pressure {k}" for k in range(len(PRESSURE_COLOURS))]
    frame = next(frame for _ in range(20) if (frame := pushed.advance(0.01)) and pushed.motion.contact_count)
    draw(viewer, frame.drawing, pushed.settings.layers)

    assert "pressure" in LAYERS
    assert sum(viewer.shown[name] for name in colours) == 0
    pushed.settings.layers = frozenset(LAYERS)
    drawing = pushed.advance(0.0).drawing
    draw(viewer, drawing, pushed.settings.layers)
    report = pushed.motion.report
    largest = max(float(pressure.max()) for pressure in report.pressure.values())
    assert largest > 0.0
    assert f"contact pressure: at most {largest:.3g} Pa" in drawing.notes
    assert sum(viewer.shown[name] for name in colours) > 2
    assert max(viewer.highlighted.values()) == 0
    pushed.restart()
    drawing = pushed.advance(0.0).drawing
    assert drawing.pressures == ()
    draw(viewer, drawing, pushed.settings.layers)
    assert sum(viewer.shown[name] for name in colours) == 0


def test_simulated_contacts_are_drawn_with_pressures(pushed):
    """Show the contacts of a report with the pressure on the bodies."""
    report = next(report for _ in range(20) if (report := pushed.motion.simulation.step()).contacts)
    drawing = drawing_of(report.contacts)

    assert drawing.count == len(report.contacts)
    assert sum(map(len, drawing.pressed())) > 2
    for pressure, expected in zip(drawing.pressures, report.pressure.values()):
        np.testing.assert_array_equal(pressure, expected)
    assert drawing_of(report.contacts, ()).pressures == ()


def test_slow_simulations_fall_behind(pushed):
    """Advance by one step where there is no time for more, and drop the rest."""
    pushed.advance(1.0, within_s=0.0)
    assert pushed.motion.time == pytest.approx(0.005)
    pushed.advance(0.0)
    assert pushed.motion.time == pytest.approx(0.005)


def test_soft_body_is_dragged(pushed):
    """Drag the last soft body against its motion, release it, and see it fly on."""
    pushed.motion.drag_target = np.array([0.5, 0.0, 0.0])
    pushed.advance(0.1)
    pulled = pushed.bodies[1].vertices[:, 0].mean()
    pushed.motion.drag_target = None
    pushed.advance(0.05)

    assert pulled > 0.15
    assert pushed.bodies[1].vertices[:, 0].mean() > pulled + 0.02


def test_failing_simulation_is_reported(pushed, monkeypatch):
    """Show the bodies at their positions, and the reason."""

    def fail() -> None:
        raise impinge.ImpingeError("body 'thrown' cannot be followed")

    monkeypatch.setattr(pushed.motion.simulation, "step", fail)
    frame = pushed.advance(0.1)

    assert "body 'thrown' cannot be followed" in frame.drawing.sentence
    assert len(frame.drawing.surfaces) == 2


def test_all_simulations_of_the_page_are_there():
    """Offer only scenes that can be shown."""
    assert set(SHOWN_SIMULATIONS) <= set(simulations.names())


def test_many_bodies_use_the_world_query(session):
    """Find the contacts of 100 bodies; reject methods of two bodies."""
    session.choose_scene("hashing_setup_a")
    found = session.advance(0.0)
    viewer = drawn(found)
    session.choose_method("box_tree")
    refused = session.advance(0.0)

    assert found.method == "world"
    assert found.count > 100
    assert viewer.highlighted["a"] > 0
    assert viewer.highlighted["b"] > 0
    assert "it takes two bodies, found 100" in refused.drawing.sentence


def test_world_query_finds_penetrating_vertices(session):
    """Find the vertices of the query by name, and highlight the same triangles."""
    session.choose_method("world")
    of_world = session.advance(0.0)
    session.choose_method("vertices_inside")
    inside = session.advance(0.0)

    assert of_world.count == inside.count > 0
    for k in range(2):
        np.testing.assert_array_equal(of_world.drawing.hits[k], inside.drawing.hits[k])


# drawings of results --------------------------------------------------------------------------------------


def test_sampled_arrows_are_noted():
    """Note that arrows are sampled; keep the full count."""
    pairs = impinge.triangle_pairs(*scenes.get("bumpy_spheres_20k").bodies)
    drawing = drawing_of(pairs)

    assert len(drawing.arrows) == MOST_ARROWS < len(pairs) == drawing.count
    assert f"normals: {MOST_ARROWS} of {len(pairs)} are drawn" in drawing.notes


def test_arrows_point_along_normals():
    """Draw arrows from contact points along normals, of the length of the depth."""
    found = impinge.penetrating_vertices([shapes.icosphere(3), shapes.icosphere(3, center=(1, 0, 0))], depth=True)
    drawing = drawing_of(found)
    lengths = np.linalg.norm(drawing.arrows[:, 1] - drawing.arrows[:, 0], axis=1)

    assert lengths.max() > 0.8
    assert (drawing.arrows[:, 1, 0] > drawing.arrows[:, 0, 0]).mean() > 0.9  # from a towards b


@pytest.mark.parametrize("scene", ["boxes_overlapping_by_half", "poked_tet"])
def test_drawings_of_all_results(scene):
    """Draw every kind of result."""
    a, b = scenes.get(scene).bodies
    world = impinge.World()
    world.add(a, name="a")
    world.add(b, name="b")
    results = [
        impinge.triangle_pairs(a, b),
        impinge.overlap_volume(a, b),
        impinge.sphere_contacts(a, b, budget_ms=None),
        impinge.penetrating_vertices([a, b], depth=True),
        impinge.intersection_curves(a, b),
        world.contacts(),
    ]
    for result in results:
        drawing = drawing_of(result)
        assert len(drawing.surfaces) == 2
        assert drawing.count > 0
        assert drawing.sentence.endswith(".")
        assert np.isfinite(drawing.bounds).all()


def test_self_collision_is_drawn():
    """Draw one body with a self-intersection."""
    vertices = [[0, 0, 0], [2, 0, 0], [0, 2, 0], [0.5, 0.5, -1], [0.5, 0.5, 1], [1, 0.5, 1]]
    drawing = drawing_of(impinge.self_pairs(impinge.TriMesh(vertices, [[0, 1, 2], [3, 4, 5]])))

    assert len(drawing.surfaces) == 1
    assert len(drawing.highlights(0)) == 2


def test_results_that_cannot_be_shown_are_refused():
    """Reject results without a drawing."""
    with pytest.raises(impinge.OptionError, match="a ClosestPoints cannot be shown"):
        drawing_of(impinge.closest_points(shapes.icosphere(1), [[0, 0, 2.0]]))


def test_open_bodies_have_no_inside():
    """State that an open body has no inside."""
    cloth, ball = shapes.cloth_grid(4, 4, size=1.0), shapes.icosphere(1, radius=0.1, center=(0, 0, 9))
    drawing = drawing_of(impinge.penetrating_vertices([cloth, ball], depth=True))

    assert "a is open and has no inside" in drawing.sentence


def test_one_detector_per_method_is_kept(session):
    """Release the detector of a resolution that is no longer selected."""
    session.choose_method("layered_depth")
    gc.collect()
    before = sum(isinstance(each, impinge.LayeredDepth) for each in gc.get_objects())
    for resolution in range(8, 72, 8):
        session.settings.resolution = resolution
        assert session.advance(0.01).count > 0
    gc.collect()
    after = sum(isinstance(each, impinge.LayeredDepth) for each in gc.get_objects())

    assert after - before == 1
