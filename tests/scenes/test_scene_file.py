"""Scene files: bodies and options, errors that name the key, and paths that stay below the folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import impinge
from impinge.scenes.scene_file import SHAPES, SceneFile
from impinge.scenes.scene_keys import MOST_BYTES

BALL = '[[body]]\nshape = { kind = "icosphere", subdivisions = 1 }\n'


def scene(folder: Path, text: str) -> SceneFile:
    path = folder / "scene.toml"
    path.write_text(text, encoding="utf-8")
    return impinge.read_scene(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(impinge.ImpingeError) as caught:
        scene(folder, text)
    message = str(caught.value)
    assert message.startswith(str(folder / "scene.toml"))
    assert "\n" not in message
    return message


def test_meshes_and_shapes_are_placed(tmp_path):
    """Scale, then turn, then shift, a file and a shape alike."""
    impinge.save(impinge.shapes.box(1.0), tmp_path / "cube.ply")
    placed = "scale = 2\nrotation = { axis = [0, 0, 2], degrees = 90 }\nposition = [10, 0.5, 0]\n"
    read = scene(tmp_path, f'[[body]]\nfile = "cube.ply"\n{placed}[[body]]\nshape = {{ kind = "box" }}\n{placed}')

    file, shape = (body.load() for body in read.bodies)
    x = 2.0 * impinge.load(tmp_path / "cube.ply").vertices
    expected = np.stack([-x[:, 1], x[:, 0], x[:, 2]], axis=1) + np.array([10.0, 0.5, 0.0])

    assert [body.name for body in read.bodies] == ["cube", "box"]
    assert read.title == "scene"
    assert read.bodies[0].file == (tmp_path / "cube.ply").resolve()
    np.testing.assert_allclose(file.vertices, expected, atol=1e-12)
    np.testing.assert_allclose(np.sort(shape.vertices, axis=0), np.sort(expected, axis=0), atol=1e-12)


def test_every_shape_has_defaults(tmp_path):
    """Make each shape from its kind alone."""
    read = scene(tmp_path, "".join(f'[[body]]\nshape = {{ kind = "{kind}" }}\n' for kind in SHAPES))

    for kind, body in zip(SHAPES, read.bodies):
        mesh = body.load()
        assert body.name == kind
        assert len(mesh.vertices) > 3
        assert (type(mesh) is impinge.TetMesh) == kind.startswith("tet_")


def test_world_and_simulation(tmp_path):
    """Make soft, moving and standing bodies with the options of the file."""
    text = """
title = "soft on hard"
ignore = [["block", "table"]]
[simulation]
gravity = [0, 0, -2]
ground = { point = [0, 0, -1], normal = [0, 0, 2] }
friction = 0.25
restitution = 0.5
contact_distance = 0.001
dt = 0.01
[[body]]
name = "block"
shape = { kind = "tet_box", nx = 1, ny = 1, nz = 2, size = 0.1 }
[body.soft]
material = "liver"
density = 900
elements = "smoothed"
velocity = [0, 0, 1]
hold = { point = [0, 0, 0.04], normal = [0, 0, 1] }
[[body]]
name = "tool"
shape = { kind = "box", size = 0.1 }
position = [1, 0, 0]
group = 2
collides_with = 1
motion = { velocity = [1, 0, 0], spin = { axis = [0, 0, 1], degrees_per_second = 90 }, begin = 1, end = 2 }
[[body]]
name = "table"
shape = { kind = "cloth_grid", nx = 1, ny = 1 }
position = [0, 0, -5]
"""
    read = scene(tmp_path, text)
    simulation = read.simulation()
    world, block, motion = simulation.world, simulation.world["block"], read.bodies[1].motion

    assert read.title == "soft on hard"
    assert world.names == ("block", "tool", "table")
    assert [world.is_fixed(name) for name in world.names] == [False, False, True]
    assert isinstance(block, impinge.SoftBody)
    assert block.model.material.density == 900.0
    assert block.model.elements == "smoothed"
    assert block.model.material.youngs_modulus == 5e3
    assert 0 < len(block.fixed) < len(block.velocities)
    assert block.velocities[:, 2].max() == 1.0
    assert (simulation.dt, simulation.friction, simulation.gravity[2]) == (0.01, 0.25, -2.0)
    assert simulation.restitution == 0.5
    assert set(simulation.contact_distance.values()) <= {0.001}
    assert simulation.ground[1] == -1.0
    np.testing.assert_array_equal(motion(0.5), np.eye(4))
    # after its second, the box has turned by 90 degrees about its own centre and moved by 1
    np.testing.assert_allclose(motion(9.0) @ [1.0, 0.1, 0.0, 1.0], [1.9, 0.0, 0.0, 1.0], atol=1e-12)


def test_sleep_and_rate(tmp_path):
    """Hand on after how long bodies sleep, or that they never do, and what a frame may take."""
    usual, soon, never = (
        scene(tmp_path, f"[simulation]\ndt = 0.01\n{line}\n{BALL}").simulation()
        for line in ("", "sleep_after = 2", 'sleep_after = "never"\ntarget_ms = 4')
    )

    assert (usual.sleep_after, soon.sleep_after, never.sleep_after) == (0.5, 2.0, None)
    assert never._controller is not None
    assert usual._controller is soon._controller is None


def test_frames_of_a_motion(tmp_path):
    """Let a body follow frames below the folder, even if the folder's name looks like a pattern."""
    folder = tmp_path / "run [1]*"
    (folder / "frames").mkdir(parents=True)
    box = impinge.shapes.box(0.1)
    for i in range(3):
        impinge.save(impinge.TriMesh(box.vertices + np.array([i, 0.0, 0.0]), box.faces), folder / "frames" / f"{i}.ply")
    impinge.save(box, folder / "box.ply")
    for frames in ("frames", "frames/*.ply"):
        read = scene(folder, f'[[body]]\nfile = "box.ply"\nmotion = {{ frames = "{frames}", rate = 10 }}\n')
        simulation = read.simulation()
        simulation.step(0.05)

        np.testing.assert_allclose(simulation.world["box"].vertices, box.vertices + np.array([0.5, 0.0, 0.0]))
    first = read.digest()
    impinge.save(box, folder / "frames" / "3.ply")

    assert read.digest() != first


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("", ("there are 0 tables [[body]]", "expected 1")),
        ("body = 3", ("body is 3", "expected tables [[body]]")),
        ("title = 3\n" + BALL, ("title is 3", "a text")),
        ("titel = 'x'\n" + BALL, ("titel is not known", "did you mean title?")),
        ("[[body]]\n", ("body[0].file is 'missing'", "either file or shape")),
        (BALL + "radius = 2\n", ("body[0].radius is not known",)),
        ('[[body]]\nshape = { kind = "icosphere", radius = -1 }\n', ("body[0].shape.radius is -1", "above 0")),
        ('[[body]]\nshape = { kind = "icosphere", radius = inf }\n', ("shape.radius is inf", "a number above 0")),
        ('[[body]]\nshape = { kind = "icosphere", radius = nan }\n', ("body[0].shape.radius is nan",)),
        ('[[body]]\nshape = { kind = "icosphere", radius = 1e300 }\n', ("shape.radius is 1e+300", "at most 1e+12")),
        ('[[body]]\nshape = { kind = "icosphere", radius = true }\n', ("shape.radius is True",)),
        ('[[body]]\nshape = { kind = "icosphere", subdivisions = 50 }\n', ("shape.subdivisions is 50", "from 0 to 8")),
        ('[[body]]\nshape = { kind = "icosphere", subdivisions = 2.5 }\n', ("shape.subdivisions is 2.5",)),
        ('[[body]]\nshape = { kind = "icosphere", raduis = 2 }\n', ("shape.raduis is not known", "mean radius?")),
        ('[[body]]\nshape = { kind = "teapot" }\n', ("body[0].shape.kind is 'teapot'", "icosphere")),
        ('[[body]]\nshape = "box"\n', ("body[0].shape is 'box'", "a table")),
        ('[[body]]\nshape = { kind = "box", size = [1, 2] }\n', ("shape.size is [1, 2]", "3 of them")),
        ('[[body]]\nshape = { kind = "box", cells = [1, 2, 100000] }\n', ("shape.cells", "from 1 to 1,000")),
        (BALL + BALL + 'name = "icosphere"\n', ("body[1].name is 'icosphere'", "no other body")),
        (BALL + "position = [1, 2]\n", ("body[0].position is [1, 2]", "3 numbers")),
        (BALL + "position = [1, 2, '3']\n", ("body[0].position",)),
        (BALL + "scale = 0\n", ("body[0].scale is 0",)),
        (BALL + "fixed = 1\n", ("body[0].fixed is 1", "true or false")),
        (BALL + "fixed = true\nmotion = {}\n", ("body[0].fixed is True", "leave it out")),
        (BALL + "rotation = { axis = [0, 0, 0], degrees = 3 }\n", ("rotation.axis", "a direction")),
        (BALL + "rotation = { degrees = 3 }\n", ("body[0].rotation.axis is missing",)),
        (BALL + "motion = { velocity = [1, 0, 0], ende = 3 }\n", ("motion.ende is not known", "mean end?")),
        (BALL + "motion = { begin = 2, end = 1 }\n", ("motion.end is 1", "from 2")),
        (BALL + "soft = {}\nmotion = {}\n", ("body[0].motion", "leave one")),
        (BALL + 'soft = { material = "steel" }\n', ("body[0].soft.material is 'steel'", "rubber, liver, jelly")),
        (BALL + 'soft = { elements = "cubic" }\n', ("body[0].soft.elements is 'cubic'", "linear, smoothed")),
        (BALL + "soft = { poisson_ratio = 0.7 }\n", ("body[0].soft.poisson_ratio is 0.7",)),
        (BALL + "soft = { hold = { point = [0, 0, 0] } }\n", ("body[0].soft.hold.normal is missing",)),
        (BALL + '[simulation]\nresponse = "magic"\n', ("simulation.response is 'magic'", "vertices")),
        (BALL + "[simulation]\ndt = 0\n", ("simulation.dt is 0",)),
        (BALL + "[simulation]\ntarget_ms = 0\n", ("simulation.target_ms is 0", "above 0")),
        (BALL + "[simulation]\ntarget_ms = 8\nmax_tests = 9\n", ("simulation.target_ms is 8", "without budget_ms")),
        (BALL + "[simulation]\nbudget_ms = 8\nmax_tests = 9\n", ("simulation.budget_ms is 8", "without max_tests")),
        (BALL + "[simulation]\nsleep_after = 0\n", ("simulation.sleep_after is 0", "above 0")),
        (BALL + '[simulation]\nsleep_after = "soon"\n', ("simulation.sleep_after is 'soon'", "never")),
        (BALL + "[simulation]\nfriction = -1\n", ("simulation.friction is -1", "from 0")),
        (BALL + '[simulation]\nground = "low"\n', ("simulation.ground is 'low'",)),
        (BALL + "[simulation]\nground = { point = [0, 0, 0] }\n", ("simulation.ground.normal is missing",)),
        ('ignore = [["icosphere", "b"]]\n' + BALL, ("ignore is 'b'", "which are icosphere")),
        ('ignore = ["ab"]\n' + BALL, ("ignore is ['ab']", "pairs of names")),
        ("[[body]\n", ("is not a TOML file",)),
        ("title = " + "9" * 5000 + "\n", ("is not a TOML file",)),
        ("title = " + "[" * 100_000 + "\n", ("is not a TOML file",)),
        ("#" * (MOST_BYTES + 1), ("more than 4,000,000 bytes",)),
    ],
)  # fmt: skip
def test_wrong_keys_are_named(tmp_path, text, fragments):
    """Name the key, what was found and what was expected."""
    message = refusal(tmp_path, text)

    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize(
    "name",
    ["../outside.ply", "sub/../../outside.ply", "link.ply", "folder/outside.ply", "{absolute}", ".", "", "nul\\u0000"],
)
@pytest.mark.parametrize("key", ["file", "frames"])
def test_paths_stay_below_the_folder(tmp_path, name, key):
    """Refuse to look outside, by dots, by links or by whole paths."""
    (tmp_path / "scenes").mkdir()
    impinge.save(impinge.shapes.box(), tmp_path / "outside.ply")
    (tmp_path / "scenes" / "link.ply").symlink_to(tmp_path / "outside.ply")
    (tmp_path / "scenes" / "folder").symlink_to(tmp_path)
    name = name.replace("{absolute}", str(tmp_path / "outside.ply"))
    text = f'[[body]]\nfile = "{name}"\n' if key == "file" else f'{BALL}motion = {{ frames = "{name}" }}\n'

    assert f"{key} is " in refusal(tmp_path / "scenes", text)


@pytest.mark.parametrize("pattern", ["*.ply", "lin*", "*/outside.ply", "**/*.ply"])
def test_patterns_stay_below_the_folder(tmp_path, pattern):
    """Refuse frames that a pattern finds through a link."""
    (tmp_path / "scenes").mkdir()
    impinge.save(impinge.shapes.box(), tmp_path / "outside.ply")
    (tmp_path / "scenes" / "link.ply").symlink_to(tmp_path / "outside.ply")
    (tmp_path / "scenes" / "folder").symlink_to(tmp_path)

    message = refusal(tmp_path / "scenes", f'{BALL}motion = {{ frames = "{pattern}" }}\n')

    assert "below the folder of the scene" in message


def test_formats_that_name_other_files_are_refused(tmp_path):
    """Refuse gltf, whose numbers may be anywhere."""
    for name in ("a.gltf", "a.GLTF", "a.gltf.gz"):
        assert "such as .glb" in refusal(tmp_path, f'[[body]]\nfile = "{name}"\n')


def test_bodies_that_cannot_be_made_are_named(tmp_path):
    """Say which body it was when a mesh is missing, or a shape or a soft body cannot be made."""
    texts = {
        '[[body]]\nfile = "missing.ply"\n': "missing.ply",
        '[[body]]\nshape = { kind = "bumpy_sphere", amplitude = 3 }\n': "amplitude is 3",
        BALL + 'soft = { method = "cubes", cells = 2, hold = {point = [0,0,9], normal = [0,0,1]} }\n': "soft.hold",
        '[[body]]\nshape = { kind = "tet_box" }\nsoft = { cells = 3 }\n': "soft.cells is for surfaces",
    }
    for text, fragment in texts.items():
        read = scene(tmp_path, text)
        with pytest.raises(impinge.ImpingeError, match=r"scene.toml: body\[0\]") as caught:
            read.world()
        assert fragment in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    """Say so of folders, missing files and what is no text."""
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    for name, fragment in (("bytes.toml", "is not a TOML file"), ("none.toml", "No such file"), ("", "cannot be read")):
        with pytest.raises(impinge.FileError, match=fragment):
            impinge.read_scene(tmp_path / name)


def test_a_rigid_body_of_a_file_moves_by_itself(tmp_path):
    """Declare a rigid body: density and velocities are those of the file, and it falls."""
    found = scene(
        tmp_path,
        '[simulation]\nground = 0.0\nintegrator = "implicit"\n'
        '[[body]]\nname = "brick"\nshape = { kind = "box", size = 0.1 }\nposition = [0.0, 0.0, 0.5]\n'
        "[body.rigid]\ndensity = 500.0\nvelocity = [1.0, 0.0, 0.0]\nangular_velocity = [0.0, 0.0, 2.0]\n",
    )
    sim = found.simulation()
    brick = sim.world["brick"]

    assert found.needs_simulation
    assert not found.bodies[0].fixed
    assert brick.mass == pytest.approx(0.5)
    np.testing.assert_allclose(brick.velocity, (1.0, 0.0, 0.0), atol=1e-14)
    np.testing.assert_allclose(brick.angular_velocity, (0.0, 0.0, 2.0), atol=1e-12)
    sim.run(0.1)
    assert brick.centre[2] == pytest.approx(0.5 - 0.5 * 9.81 * 0.1 * (0.1 + 1.0 / 60.0))


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("[body.rigid]\ndensity = -1.0\n", "body[0].rigid.density"),
        ("[body.rigid]\nmass = 1.0\n", "body[0].rigid.mass"),
        ("fixed = true\n[body.rigid]\n", "false for a body that moves"),
        ("[body.rigid]\n[body.soft]\n", "either soft or rigid"),
        ("[body.rigid]\n[body.motion]\nvelocity = [1.0, 0.0, 0.0]\n", "no motion of a rigid body"),
    ],
)
def test_wrong_keys_of_rigid_bodies_are_named(tmp_path, rest, said):
    """Refuse unknown keys, wrong values and contradictions."""
    assert said in refusal(tmp_path, '[[body]]\nshape = { kind = "box" }\n' + rest)


def test_an_open_rigid_body_is_refused_by_its_place(tmp_path):
    """Make a rigid body of an open surface: the message names the body of the file."""
    found = scene(tmp_path, '[[body]]\nshape = { kind = "cloth_grid" }\n[body.rigid]\n')
    with pytest.raises(impinge.OptionError, match=r"body\[0\] \(cloth_grid\): .*expected a closed and oriented one"):
        found.world()
