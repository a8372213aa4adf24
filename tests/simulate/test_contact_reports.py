"""Contacts of simulation reports: forces, torques, pressures and features, of every response."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from impinge.bodies.cloth import Cloth
from impinge.bodies.rigid_body import RigidBody
from impinge.bodies.soft_body import SoftBody
from impinge.contact.contacts import ContactKind
from impinge.mesh.shapes import box, cloth_grid, icosphere
from impinge.simulate.simulated_contacts import COLUMNS
from impinge.simulate.simulation import Simulation
from impinge.world.world import World
from simulated_cubes import EDGE, FIRM, soft_cube, weight, world_of

RESPONSES = ("contact", "vertices", "volume", "spheres")
GRAVITY = np.array([0.0, 0.0, -9.81])


def pile(response, **options) -> Simulation:
    """A cube on the ground, one on top of it that arrives, and a plate beside that is pushed against the lower one."""
    world = World()
    world.add(soft_cube((0.0, 0.0, 0.0505), material=FIRM), name="low")
    high = soft_cube((0.02, 0.01, 0.144), material=FIRM, edge=0.08)
    high.velocities = np.tile([0.0, 0.1, -0.5], (len(high.velocities), 1))
    world.add(high, name="high")
    world.add(box((0.02, 0.3, 0.08), center=(-0.0625, 0.0, 0.06)), name="plate")
    sim = Simulation(world, ground=0.0, response=response, **options)
    sim.script("plate", lambda t: shifted(0.02 * t, 0.0, 0.0))
    return sim


def shifted(x, y, z):
    moved = np.eye(4)
    moved[:3, 3] = x, y, z
    return moved


def sums(contacts, number, values=None):
    """Sum of a column over the contacts of a body as b, less those as a."""
    column = contacts.force if values is None else values
    return column[contacts.body_b == number].sum(axis=0) - column[contacts.body_a == number].sum(axis=0)


@pytest.mark.parametrize("response", RESPONSES)
def test_sums_of_contacts_are_the_forces_on_bodies(response):
    """Add up contact forces to the reported force on every body and the ground, in frames of one and of many steps."""
    sim, seen, kinds = pile(response), 0, set()
    for report in sim.run(0.15):
        contacts = report.contacts
        seen, kinds = max(seen, len(contacts)), kinds | set(contacts.kind.tolist())
        scale = np.abs(contacts.force).sum() + 1e-300
        for number, name in (*enumerate(sim.world.names), (-1, "ground")):
            assert contacts.names[number] == name
            np.testing.assert_allclose(sums(contacts, number), report.forces[name], rtol=0.0, atol=1e-12 * scale)
        split = contacts.normal_force[:, None] * contacts.normal + contacts.friction_force
        np.testing.assert_allclose(contacts.force, split, rtol=0.0, atol=1e-12 * scale)
        np.testing.assert_allclose(contacts.impulse, report.dt * contacts.force, rtol=1e-12)
        assert (contacts.normal_force >= 0.0).all()
        assert bool(contacts) == (len(contacts) > 0)
        assert len(np.unique(contacts.id)) == len(contacts)
    assert seen > 10
    assert kinds & {ContactKind.VERTEX_A, ContactKind.VERTEX_B}


@pytest.mark.parametrize("response", RESPONSES)
def test_pressure_times_area_is_the_normal_force(response):
    """Spread the normal forces over surface vertices: no force is lost, and free vertices have no pressure."""
    sim, pressed = pile(response), set()
    for report in sim.run(0.15):
        contacts = report.contacts
        for number, name in enumerate(sim.world.names):
            own = (contacts.body_a == number).astype(float) + (contacts.body_b == number)
            expected = float((own * contacts.normal_force).sum())
            pressure = report.pressure[name]
            assert pressure.shape == (len(sim.world.surface(name).vertices),)
            assert pressure.min() >= 0.0
            np.testing.assert_allclose(pressure @ contacts.vertex_areas(number), expected, rtol=1e-12)
            np.testing.assert_array_equal(contacts.vertex_areas(number) > 0.0, contacts.vertex_forces(number) > 0.0)
            pressed |= {name} if pressure.any() else set()
    assert pressed == set(sim.world.names)


@pytest.mark.parametrize("response", RESPONSES)
def test_the_ground_carries_the_weight(response):
    """Report the static weight, the face in contact, its mean pressure, and that nothing slides."""
    cube = soft_cube((0.0, 0.0, 0.5 * EDGE), material=FIRM)
    report = Simulation(world_of(cube=cube), ground=0.0, response=response, sleep_after=None).run(2.0)[-1]
    contacts = report.contacts

    assert len(contacts) == 9
    np.testing.assert_allclose(contacts.normal_force.sum(), weight(cube), rtol=1e-3)
    np.testing.assert_allclose(contacts.area.sum(), EDGE**2, rtol=0.01)
    np.testing.assert_allclose(area_of(contacts), EDGE**2, rtol=0.01)
    np.testing.assert_array_equal(contacts.body_a, -1)
    np.testing.assert_array_equal(contacts.feature_a, -1)
    np.testing.assert_array_equal(contacts.kind, ContactKind.VERTEX_B)
    np.testing.assert_array_equal(cube.surface.vertices[contacts.feature_b][:, 2] < 3e-3 * EDGE, True)
    np.testing.assert_allclose(contacts.point[:, :2], cube.surface.vertices[contacts.feature_b][:, :2], atol=1e-9)
    np.testing.assert_allclose(contacts.gap, cube.surface.vertices[contacts.feature_b][:, 2], atol=1e-7)
    np.testing.assert_array_equal(contacts.depth, np.maximum(-contacts.gap, 0.0))
    assert contacts.sticking.all()
    area = contacts.vertex_areas(0)
    bottom = cube.surface.vertices[:, 2] < 3e-3 * EDGE
    assert not report.pressure["cube"][~bottom].any()
    np.testing.assert_allclose(report.pressure["cube"] @ area, weight(cube), rtol=1e-3)
    np.testing.assert_allclose(report.pressure["cube"][bottom], weight(cube) / EDGE**2, rtol=0.5)
    assert not report.torques["cube"] @ [0.0, 0.0, 1.0] > 1e-6 * weight(cube) * EDGE


@pytest.mark.parametrize("response", ["contact", "vertices"])
def test_contacts_stick_below_the_limit_of_friction_and_slide_at_it(response):
    """Report sliding contacts on a frictionless floor and at the limit, and sticking ones at rest."""
    shares = []
    for friction, speed in ((0.0, 0.5), (0.3, 1.0), (0.3, 0.0)):
        cube = soft_cube((0.0, 0.0, 0.5 * EDGE), material=FIRM)
        cube.velocities = np.tile([speed, 0.0, 0.0], (len(cube.velocities), 1))
        report = Simulation(world_of(cube=cube), ground=0.0, response=response, friction=friction).run(0.15)[-1]
        contacts = report.contacts
        shares.append(contacts.normal_force[contacts.sticking].sum() / contacts.normal_force.sum())
        limit = friction * contacts.normal_force
        rubbing = np.linalg.norm(contacts.friction_force, axis=1)
        assert (rubbing <= 1.1 * limit + 1e-12).all()
        if speed:
            assert (contacts.friction_force @ [1.0, 0.0, 0.0] <= 0.0).all()
    assert shares[0] == 0.0
    assert shares[1] < 0.3
    assert shares[2] > 0.9


def area_of(contacts):
    """Area of the surface of body 0 in contact."""
    return contacts.vertex_areas(0).sum()


def spin(body):
    """Angular momentum about the centre of mass."""
    masses = body.model.masses
    centre, mean = (masses @ each / masses.sum() for each in (body.coarse.vertices, body.velocities))
    return np.cross(body.coarse.vertices - centre, masses[:, None] * (body.velocities - mean)).sum(axis=0)


def tilted_cube() -> SoftBody:
    """A cube that arrives on the plane z = 0 with a corner."""
    cube = soft_cube((0.0, 0.0, 0.0), material=FIRM)
    turned = cube.coarse.vertices @ np.linalg.qr(np.array([[1.0, 0.3, 0.1], [-0.3, 1.0, 0.4], [0.1, -0.4, 1.0]]))[0].T
    turned[:, 2] -= turned[:, 2].min() - 0.004
    cube.coarse.update(turned)
    cube.velocities = np.tile([0.3, 0.0, -0.8], (len(turned), 1))
    return cube


@pytest.mark.parametrize("response", RESPONSES)
def test_torques_are_the_rate_of_spin(response):
    """Report the torque that changes the spin of a free body about its centre of mass."""
    cube = tilted_cube()
    sim, impulse, least = Simulation(world_of(cube=cube, plate=box((0.5, 0.5, 0.1), center=(0.1, 0.0, -0.05))),
                                     response=response), np.zeros(3), 0.0  # fmt: skip
    before = spin(cube)
    for report in sim.run(0.1):
        impulse += report.dt * report.torques["cube"]
        least += report.dt * float(np.linalg.norm(report.torques["cube"]))

    assert least > 0.005
    np.testing.assert_allclose(impulse, spin(cube) - before, rtol=0.0, atol=0.01 * least)


def test_torques_of_both_bodies_balance():
    """Give a scripted body, about the centre of its volume, the opposite torque of the body on it."""
    cube, centre = tilted_cube(), np.array([0.1, 0.0, -0.05])
    sim = Simulation(world_of(cube=cube, plate=box((0.5, 0.5, 0.1), center=centre)), response="contact")
    for report in (each for _ in range(6) if (each := sim.step()).searches == 1):
        masses = cube.model.masses
        arms = {"cube": masses @ cube.coarse.vertices / masses.sum(), "plate": centre}
        about_origin = [report.torques[name] + np.cross(arm, report.forces[name]) for name, arm in arms.items()]
        assert len(report.contacts)
        np.testing.assert_allclose(about_origin[0], -about_origin[1], rtol=0.0, atol=1e-12)


def test_torques_on_open_bodies_are_about_their_vertices():
    """Take the mean of the vertices of an open scripted body as its centre."""
    cube = soft_cube((0.02, 0.0, 0.5 * EDGE + 0.0001), material=FIRM)
    floor = cloth_grid(4, 4, size=0.4)
    report = Simulation(world_of(cube=cube, floor=floor), response="contact").run(0.5)[-1]
    middle = floor.vertices.mean(axis=0)
    contacts = report.contacts
    expected = np.cross(contacts.point - middle, contacts.force)
    expected = expected[contacts.body_b == 1].sum(axis=0) - expected[contacts.body_a == 1].sum(axis=0)

    assert np.abs(expected).max() > 0.1 * weight(cube) * 0.02
    np.testing.assert_allclose(report.torques["floor"], expected, rtol=0.0, atol=1e-3 * weight(cube) * EDGE)


def feature_points(surface, kind, side, feature, at):
    """Nearest points of features of one side to the points ``at``."""
    x, faces, edges = surface.vertices, surface.faces, surface.adjacency.edges
    points = []
    for k, f, p in zip(kind, feature, at):
        is_vertex = k == (ContactKind.VERTEX_A, ContactKind.VERTEX_B)[side]
        corners = x[[f]] if is_vertex else x[edges[f]] if k == ContactKind.EDGES else x[faces[f]]
        frame = np.vstack([corners.T, np.ones(len(corners))])
        weights = np.linalg.lstsq(frame, np.append(p, 1.0), rcond=None)[0]
        weights = np.clip(weights, 0.0, None)
        points.append(weights @ corners / weights.sum())
    return np.array(points)


def test_features_are_at_the_gap():
    """Name vertices, faces and edges of both bodies that are as far apart as the gap says."""
    world = World()
    for name, edge, center in (("low", EDGE, (0.0, 0.0, 0.0505)), ("high", 0.08, (0.02, 0.01, 0.1415))):
        world.add(soft_cube(center, material=FIRM, edge=edge), name=name)
    sim = Simulation(world, ground=0.0, response="contact", sleep_after=None)
    contacts = sim.run(1.0)[-1].contacts
    rows = contacts.rows(contacts.body_a == 0)
    at_a, at_b = (
        feature_points(sim.world.surface(name), rows.kind, side, feature, rows.point)
        for side, (name, feature) in enumerate(zip(world.names, (rows.feature_a, rows.feature_b)))
    )

    assert set(rows.kind.tolist()) >= {ContactKind.VERTEX_B, ContactKind.EDGES}
    np.testing.assert_allclose(((at_b - at_a) * rows.normal).sum(axis=1), rows.gap, atol=1e-6)
    np.testing.assert_allclose(0.5 * (at_a + at_b), rows.point, atol=1e-4)


def test_features_of_other_responses():
    """Report vertices and faces of contacts of vertices, sphere numbers of spheres, and none of volumes."""
    for response, kind in (("vertices", ContactKind.VERTEX_B), ("volume", ContactKind.VOLUME),
                           ("spheres", ContactKind.SPHERES)):  # fmt: skip
        sim = pile(response)
        contacts = sim.run(0.1)[-1].contacts
        rows = contacts.rows((contacts.body_a == 0) & (contacts.body_b == 1))
        assert kind in rows.kind
        if response == "volume":
            np.testing.assert_array_equal(np.stack([rows.feature_a, rows.feature_b]), -1)
        else:
            assert min(rows.feature_a.min(), rows.feature_b.min()) >= 0
        if response == "vertices":
            of_high = rows.rows(rows.kind == kind)
            low, high = sim.world.surface("low"), sim.world.surface("high")
            corner = low.vertices[low.faces[of_high.feature_a]]
            plane = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
            plane /= np.linalg.norm(plane, axis=1, keepdims=True)
            apart = ((high.vertices[of_high.feature_b] - corner[:, 0]) * plane).sum(axis=1)
            np.testing.assert_allclose(apart, of_high.gap, atol=1e-4)


def test_features_of_faces_survive_cuts():
    """Report ids of faces, not rows of the live ones, after triangles were removed."""
    cube = soft_cube((0.02, 0.0, 0.5 * EDGE + 0.0001), material=FIRM)
    floor = cloth_grid(6, 6, size=0.6)
    corner = floor.vertices[floor.faces].mean(axis=1)
    floor.remove_triangles(np.flatnonzero(corner[:, 0] < -0.15))
    contacts = Simulation(world_of(cube=cube, floor=floor), response="contact").run(0.1)[-1].contacts
    rows = contacts.rows(contacts.kind == ContactKind.VERTEX_A)

    assert len(rows)
    lo, hi = (getattr(floor.vertices[floor.faces[rows.feature_b]], side)(axis=1) for side in ("min", "max"))
    assert ((rows.point[:, :2] > lo[:, :2] - 1e-3) & (rows.point[:, :2] < hi[:, :2] + 1e-3)).all()


@pytest.mark.parametrize("response", ["contact", "vertices"])
def test_ids_persist(response):
    """Keep the ids of contacts while a cube slides over many triangles of a floor."""
    cube = soft_cube((0.0, 0.0, 0.5 * EDGE + 0.0001), material=FIRM)
    floor = box((1.0, 0.5, 0.1), center=(0.3, 0.0, -0.05), cells=(50, 7, 1))
    cube.velocities = np.tile([0.5, 0.0, 0.0], (len(cube.velocities), 1))
    sim = Simulation(world_of(cube=cube, floor=floor), response=response, friction=0.0)
    reports = sim.run(0.3)[8:]
    lasting = set.intersection(*(set(report.contacts.id.tolist()) for report in reports))
    change = reports[-1].contacts.changes(reports[-2].contacts)

    assert len(lasting) >= 8
    assert len(change.persisting) >= 8


@pytest.mark.parametrize(("response", "most", "covered"), [("contact", 1.2, 0.7), ("vertices", 1.1, 0.9)])
def test_dense_bodies_spread_their_contacts(response, most, covered):
    """Spread the force of one contact of many vertices over all of them, whose area it carries."""
    cube = soft_cube((0.0, 0.0, 0.5 * EDGE - 1e-4), cells=1, material=FIRM, dense=8)
    sim = Simulation(world_of(cube=cube), ground=0.0, sleep_after=None, response=response)
    report = sim.run(1.0)[-1]
    contacts, bottom = report.contacts, cube.surface.vertices[:, 2] < 5e-3 * EDGE
    pressure = report.pressure["cube"]

    assert len(contacts) < 0.2 * bottom.sum()
    assert 0.9 < contacts.area.sum() / EDGE**2 < most
    assert (pressure[bottom] > 0.0).mean() > covered
    assert not pressure[~bottom].any()
    assert pressure.max() < 16.0 * weight(cube) / EDGE**2
    np.testing.assert_allclose(pressure @ contacts.vertex_areas(0), contacts.normal_force.sum(), rtol=1e-12)
    np.testing.assert_allclose(contacts.normal_force.sum(), weight(cube), rtol=0.01)


def test_self_contact_adds_nothing_to_the_force():
    """Press both sides of a fold, and report no force on the cloth as a whole."""
    cloth = Cloth(cloth_grid(12, 4, size=(0.6, 0.2)), thickness=0.01)
    x = cloth.coarse.vertices.copy()
    lower = x[:, 0] < 0.0
    x[:, 0] = np.abs(x[:, 0])
    x[:, 2] = np.where(lower, 0.0, 0.0085)
    x[:, 2] = np.where(x[:, 0] < 1e-9, 0.004, x[:, 2])
    cloth.coarse.update(x)
    report = Simulation(world_of(cloth=cloth), gravity=(0.0, 0.0, 0.0)).step()
    contacts = report.contacts
    inner = contacts.normal_force[contacts.body_a == contacts.body_b].sum()

    assert inner > 0.0
    assert len(contacts) == (contacts.body_a == contacts.body_b).sum()
    np.testing.assert_allclose(report.forces["cloth"], 0.0, atol=1e-12 * inner)
    np.testing.assert_allclose(report.pressure["cloth"] @ contacts.vertex_areas(0), 2.0 * inner, rtol=1e-12)
    assert set(contacts.kind.tolist()) <= {ContactKind.VERTEX_A, ContactKind.VERTEX_B, ContactKind.EDGES}
    assert contacts.gap.min() < 0.01


def test_the_lower_number_is_body_a():
    """Put the body of the lower number first where a search lists cloth first."""
    ball = icosphere(2, radius=0.1)
    cloth = Cloth(cloth_grid(8, 8, size=0.3, center=(0.0, 0.0, 0.104)), thickness=0.004)
    world = World()
    world.add(ball, name="ball", fixed=True)
    world.add(cloth, name="cloth")
    report = Simulation(world, response="vertices").run(0.1)[-1]
    rows = report.contacts.rows(report.contacts.body_a != report.contacts.body_b)

    assert len(rows)
    np.testing.assert_array_equal(np.stack([rows.body_a, rows.body_b], axis=1), np.tile([0, 1], (len(rows), 1)))
    np.testing.assert_array_equal(rows.kind, ContactKind.VERTEX_B)
    assert (rows.normal[:, 2] > 0.0).all()
    assert report.forces["ball"][2] < 0.0
    np.testing.assert_allclose(rows.point, cloth.surface.vertices[rows.feature_b], atol=0.004)


@pytest.mark.parametrize("response", ["contact", "vertices"])
def test_sleeping_bodies_keep_their_contacts(tmp_path, response):
    """Report the same contacts, forces and torques while all bodies sleep, also after a restore."""

    def still():
        cube = soft_cube((0.0, 0.0, 0.5 * EDGE), material=FIRM)
        return Simulation(world_of(cube=cube), ground=0.0, response=response, sleep_after=0.1)

    sim, again = still(), still()
    first = next(report for report in iter(sim.step, None) if report.sleeping)
    sim.save(tmp_path / "state.npz")
    again.restore(tmp_path / "state.npz")
    for report in (sim.step(0.01), again.step(0.01)):
        assert report.sleeping
        for name in ("cube", "ground"):
            np.testing.assert_array_equal(report.forces[name], first.forces[name])
        np.testing.assert_array_equal(report.torques["cube"], first.torques["cube"])
        np.testing.assert_array_equal(report.pressure["cube"], first.pressure["cube"])
        for name in set(COLUMNS) - {"impulse"}:
            np.testing.assert_array_equal(getattr(report.contacts, name), getattr(first.contacts, name))
        np.testing.assert_array_equal(report.contacts.impulse, 0.01 * report.contacts.force)
        assert report.contacts.names == ("cube", "ground")


def test_damaged_resting_contacts_raise(tmp_path):
    """Raise an error for resting contacts that are missing, of wrong shape, not finite or of other bodies."""
    cube = soft_cube((0.0, 0.0, 0.5 * EDGE), material=FIRM)
    sim, path = Simulation(world_of(cube=cube), ground=0.0, sleep_after=0.1), tmp_path / "state.npz"
    next(report for report in iter(sim.step, None) if report.sleeping)
    sim.save(path)
    whole = dict(np.load(path))
    names = [name for name in whole if name.startswith("resting_")]
    assert len(names) == 21
    for name in names:
        value = whole[name]
        changes = [np.array("word"), np.concatenate([value, value[:1]]) if value.ndim else np.zeros(2)]
        changes += [np.full(value.shape, np.nan)] if value.dtype.kind == "f" else []
        numbers = ("resting_body_b", "resting_surface_vertex", "resting_surface_start")
        changes += [value + 1000] if name in numbers else []
        changes += [None] if name != "resting_torque" else []  # without it, nothing rests
        for change in changes:
            rest = {key: kept for key, kept in whole.items() if key != name}
            np.savez(path, **rest, **({} if change is None else {name: change}))
            with pytest.raises(Exception, match=r"state\.npz is a damaged simulation state"):
                sim.restore(path)


def test_contacts_convert_to_json_and_back_from_pickles():
    """Convert all columns to plain values; keep pressures, but no bodies, in pickles."""
    sim = pile("contact")
    report = sim.run(0.1)[-1]
    copy, plain = pickle.loads(pickle.dumps(report)), report.contacts.to_dict()

    assert len(report.contacts) > 5
    assert json.loads(json.dumps(plain))["sticking"] == report.contacts.sticking.tolist()
    assert set(COLUMNS) < set(plain)
    assert not {"vertices", "vertex_counts", "bodies"} & set(plain)
    assert copy.contacts.bodies == ()
    np.testing.assert_array_equal(copy.pressure["low"], report.pressure["low"])
    assert str(report.contacts).startswith(f"SimulatedContacts: {len(report.contacts)} by contact, complete")


def test_contacts_are_plotted_with_their_pressure(tmp_path):
    """Draw the bodies, coloured where they touch; and bodies alone without contacts."""
    sim = pile("contact")
    contacts = sim.run(0.1)[-1].contacts
    pixels, free = contacts.plot(), contacts.rows([]).plot()

    assert contacts.plot(tmp_path / "contacts.png") == tmp_path / "contacts.png"
    assert pixels.shape == free.shape
    assert (pixels != free).any(axis=2).mean() > 0.01


def test_selected_contacts_keep_their_pressure():
    """Compute pressures from a selection of contacts."""
    report = pile("contact").run(0.1)[-1]
    contacts = report.contacts
    low, others = contacts.rows(contacts.body_a == -1), contacts.rows(np.flatnonzero(contacts.body_a != -1))

    assert 0 < len(low) < len(contacts)
    np.testing.assert_allclose(
        low.vertex_forces(0) + others.vertex_forces(0), contacts.vertex_forces(0), rtol=0.0, atol=1e-12
    )
    assert not contacts.rows([])


def test_a_budget_shows_in_the_contacts():
    """Mark contacts as incomplete where the budget left pairs out."""
    sim = pile("vertices", max_tests=1)
    reports = sim.run(0.1)

    assert not all(report.complete for report in reports)
    for report in reports:
        assert report.contacts.complete == report.complete
        assert report.contacts.reason == (None if report.complete else "budget")


def test_reports_repeat_bit_for_bit():
    """Report the same bits in a second run."""
    one, other = (pile("contact").run(0.1)[-1] for _ in range(2))
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one.contacts, name), getattr(other.contacts, name))
    for name in ("low", "high", "plate"):
        np.testing.assert_array_equal(one.torques[name], other.torques[name])
        np.testing.assert_array_equal(one.pressure[name], other.pressure[name])


def test_rebounds_count_in_the_forces():
    """Include the impulse of a rebound in the force that changes the momentum, and in its contacts."""
    ball = RigidBody(icosphere(2, radius=0.05, center=(0.0, 0.0, 0.07)))
    ball.velocity = (0.0, 0.0, -2.0)
    sim = Simulation(world_of(ball=ball), ground=0.0, response="contact", restitution=0.6)
    speed, fastest = ball.velocity, 0.0
    for report in (sim.step() for _ in range(6)):
        rate, speed = ball.mass * ((ball.velocity - speed) / report.dt - GRAVITY), ball.velocity
        fastest = max(fastest, float(speed[2]))
        largest = max(float(np.abs(rate).max()), ball.mass)
        np.testing.assert_allclose(report.forces["ball"], rate, rtol=0.0, atol=1e-6 * largest)
        np.testing.assert_allclose(sums(report.contacts, 0), report.forces["ball"], rtol=0.0, atol=1e-12 * largest)
    assert fastest > 0.5
