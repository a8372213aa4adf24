"""Triangle meshes: positions that change, snapshots that do not, and edits with stable ids."""

import sys
import threading
import tracemalloc

import numpy as np
import pytest

from impinge.errors import MeshError, MeshWarning, OptionError
from impinge.mesh import shapes
from impinge.mesh.tri_mesh import TriMesh

SQUARE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
FACES = np.array([[0, 1, 2], [0, 2, 3]], dtype=np.int32)


def square() -> TriMesh:
    """Two triangles."""
    return TriMesh(SQUARE, FACES)


def address(array: np.ndarray) -> int:
    """Where the array's first entry lies in memory."""
    return array.__array_interface__["data"][0]


@pytest.fixture
def buffers_made(monkeypatch):
    """A list that grows by one entry with each buffer that ``update`` allocates."""
    made = []
    original = np.zeros_like

    def spy(*args, **kwargs):
        made.append("a buffer")  # not args: that reference would block the reuse
        return original(*args, **kwargs)

    monkeypatch.setattr("impinge.mesh.positions.np.zeros_like", spy)
    return made


# positions -----------------------------------------------------------------------------------------------


def test_construction_copies():
    """Keep the body as it was made when the caller writes to the arrays later."""
    x, faces = SQUARE.copy(), FACES.copy()
    mesh = TriMesh(x, faces)
    x[:], faces[:] = 9.0, 0

    np.testing.assert_array_equal(mesh.vertices, SQUARE)
    np.testing.assert_array_equal(mesh.faces, FACES)


def test_update_copies():
    """Keep the positions of an update when the caller writes to the array later."""
    mesh, x = square(), SQUARE + 1.0
    mesh.update(x)
    x[:] = 9.0

    np.testing.assert_array_equal(mesh.vertices, SQUARE + 1.0)


def test_update_without_copy_keeps_the_array():
    """Keep the array itself with copy=False: later writes show."""
    mesh, x = square(), SQUARE + 1.0
    mesh.update(x, copy=False)

    assert address(mesh.vertices) == address(x)
    x[0] = 9.0
    np.testing.assert_array_equal(mesh.vertices[0], [9.0, 9.0, 9.0])
    assert mesh.version == 1


@pytest.mark.parametrize("convert", [np.asfortranarray, lambda x: x.astype(np.float32), np.ndarray.tolist])
def test_update_without_copy_copies_what_it_cannot_use(convert):
    """Copy after all what is not float64 or not contiguous."""
    mesh, x = square(), convert(SQUARE + 1.0)
    mesh.update(x, copy=False)

    np.testing.assert_array_equal(mesh.vertices, SQUARE + 1.0)
    assert mesh.vertices.flags.c_contiguous


def test_arrays_given_without_copy_are_never_written_to():
    """Leave the caller's array alone through every later update, edit and compaction."""
    mesh, x = square(), SQUARE + 1.0
    mesh.update(x, copy=False)
    for step in range(5):
        mesh.update(SQUARE * step)
    mesh.update(x, copy=False)
    mesh.add_vertices([[5.0, 5.0, 5.0]])
    mesh.update(np.zeros((5, 3)))
    mesh.update(np.ones((5, 3)))
    mesh.compact()

    np.testing.assert_array_equal(x, SQUARE + 1.0)


def test_read_only_arrays_are_taken_without_copy():
    """Take and later replace a read-only array."""
    mesh, x = square(), SQUARE + 1.0
    x.flags.writeable = False
    mesh.update(x, copy=False)
    mesh.add_vertices([[5.0, 5.0, 5.0]])
    mesh.update(np.zeros((5, 3)))

    np.testing.assert_array_equal(x, SQUARE + 1.0)


@pytest.mark.parametrize("name", ["vertices", "faces"])
def test_views_are_read_only(name):
    """Refuse writes that would pass by the version."""
    view = getattr(square(), name)

    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_alive_and_bounds_are_copies():
    """Give away copies of what is kept between calls."""
    mesh = square()
    mesh.alive[:] = False
    mesh.bounds[:] = 9.0

    assert len(mesh) == 2
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])


def test_every_change_grows_the_version():
    """Grow the version with every change, and the topology's version with edits of triangles only."""
    mesh = square()
    seen = [(mesh.version, mesh.topology_version)]
    changes = [
        lambda: mesh.update(SQUARE),
        lambda: mesh.update(SQUARE.copy(), copy=False),
        lambda: mesh.add_vertices([[0.0, 0.0, 1.0]]),
        lambda: mesh.add_triangles([[0, 1, 4]]),
        lambda: mesh.add_triangles([[0, 1, 5]], [[0.0, 0.0, 2.0]]),
        lambda: mesh.remove_triangles([0]),
        mesh.compact,
    ]
    for change in changes:
        change()
        seen.append((mesh.version, mesh.topology_version))

    versions, topology_versions = np.array(seen).T
    assert (np.diff(versions) > 0).all()
    np.testing.assert_array_equal(np.diff(topology_versions) > 0, [False, False, False, True, True, True, True])


def test_a_refused_update_changes_nothing():
    """Keep positions and version when an update is refused."""
    mesh = square()
    for bad in (np.zeros((3, 3)), np.full((4, 3), np.nan), "abc"):
        with pytest.raises(MeshError):
            mesh.update(bad)

    assert mesh.version == 0
    np.testing.assert_array_equal(mesh.vertices, SQUARE)


def test_bounds_follow_updates_and_edits():
    """Box in the vertices of live triangles, whatever moved, came or went, and no other vertex."""
    mesh = TriMesh(np.vstack([SQUARE, [[50.0, 50.0, 50.0]]]), FACES)
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])

    mesh.update(mesh.vertices * 2.0)
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [2.0, 2.0, 0.0]])
    mesh.add_triangles([[0, 1, 4]])
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [100.0, 100.0, 100.0]])
    mesh.remove_triangles([1, 2])
    np.testing.assert_array_equal(mesh.bounds, [[0.0, 0.0, 0.0], [2.0, 2.0, 0.0]])
    mesh.remove_triangles([0])
    assert (mesh.bounds[0] > mesh.bounds[1]).all()


def test_closed_surfaces_know_their_volume():
    """Distinguish closed from open surfaces, and compute the volume at any place and orientation."""
    box = shapes.box((1.0, 2.0, 3.0))

    assert box.is_closed
    np.testing.assert_allclose(box.volume, 6.0, rtol=1e-14)
    box.update(box.vertices + 1e6)
    np.testing.assert_allclose(box.volume, 6.0, rtol=1e-8)
    box.update((box.vertices - 1e6) * [1.0, 1.0, -2.0])
    np.testing.assert_allclose(box.volume, -12.0, rtol=1e-8)
    box.remove_triangles([3])
    assert not box.is_closed


def test_open_surfaces_have_no_volume():
    """State the number of open edges where a surface has no volume."""
    with pytest.raises(MeshError, match=r"encloses no volume: 4 open, 0 non-manifold and 0 flipped edges"):
        _ = square().volume


def test_surfaces_without_orientation_have_no_volume():
    """State the number of flipped edges where a closed surface has no volume."""
    box = shapes.box()
    faces = box.faces.copy()
    faces[0] = faces[0, ::-1]

    with pytest.raises(MeshError, match=r"encloses no volume: 0 open, 0 non-manifold and 3 flipped edges"):
        _ = TriMesh(box.vertices, faces).volume


def test_an_empty_mesh_answers_everything():
    """Answer every question about a mesh without triangles, and let it grow."""
    mesh = TriMesh([], [])

    assert (len(mesh), mesh.live_count, mesh.is_closed, bool(mesh)) == (0, 0, False, True)
    assert mesh.bounds[0, 0] > mesh.bounds[1, 0]
    assert mesh.snapshot().elements.shape == (0, 3)
    assert len(mesh.used_vertices) == len(mesh.alive) == len(mesh.compact()) == 0
    assert "0 vertices, 0 triangles" in repr(mesh)
    mesh.remove_triangles([])
    mesh.update([])
    with pytest.raises(MeshError, match="encloses no volume"):
        _ = mesh.volume
    np.testing.assert_array_equal(mesh.add_triangles(FACES, SQUARE), [0, 1])
    np.testing.assert_array_equal(mesh.bounds, square().bounds)


def test_repr_counts_the_dead():
    """Show vertices, live and dead triangles and the version."""
    mesh = square()
    assert repr(mesh) == "<TriMesh: 4 vertices, 2 triangles, version 0>"
    mesh.remove_triangles([0])
    assert repr(mesh) == "<TriMesh: 4 vertices, 1 triangles (1 dead), version 1>"


# snapshots and the reuse of buffers ------------------------------------------------------------------------


def test_a_snapshot_survives_updates_and_edits():
    """Keep the numbers of a snapshot through updates, edits and compaction."""
    mesh = square()
    snapshot = mesh.snapshot()
    for step in range(10):
        mesh.update(mesh.vertices + 1.0)
        mesh.add_triangles([[0, 1, 2]], [[step, step, step]])
        mesh.remove_triangles([step])
    mesh.compact()

    np.testing.assert_array_equal(snapshot.vertices, SQUARE)
    np.testing.assert_array_equal(snapshot.elements, FACES)
    np.testing.assert_array_equal(snapshot.live, [0, 1])
    assert snapshot.version == 0


def test_a_snapshot_survives_the_reuse_of_buffers(rng):
    """Keep the numbers of snapshots of any age, however many updates use old buffers again."""
    mesh = TriMesh(np.zeros((50, 3)), [[0, 1, 2]])
    held, reused = {}, 0
    for frame in range(1, 3000):
        before = address(mesh.vertices)
        mesh.update(np.full((50, 3), float(frame)))
        if rng.random() < 0.3:
            held[frame] = mesh.snapshot()
        if rng.random() < 0.3 and held:
            del held[int(rng.choice(list(held)))]
        assert address(mesh.vertices) != before
        for number, snapshot in held.items():
            assert snapshot.vertices.min() == snapshot.vertices.max() == number
        reused += len(held) > 0

    assert reused > 1000


def test_a_steady_animation_reuses_two_buffers(buffers_made):
    """Allocate one second buffer, and then none, while no reader holds old frames."""
    mesh = square()
    places = set()
    for frame in range(100):
        mesh.update(SQUARE + frame)
        places.add(address(mesh.vertices))

    assert len(buffers_made) == 1
    assert len(places) == 2


def test_a_steady_animation_with_a_query_each_frame_reuses_two_buffers(buffers_made):
    """Reuse buffers when each frame's snapshot is let go before the next frame."""
    mesh = square()
    for frame in range(100):
        mesh.update(SQUARE + frame)
        assert mesh.snapshot().vertices[0, 0] == frame

    assert len(buffers_made) == 1


def test_a_steady_animation_allocates_no_positions():
    """Keep the memory in use constant during an animation."""
    x = np.ones((200_000, 3))  # many: the memory of tracing itself is negligible
    mesh = TriMesh(np.zeros_like(x), [[0, 1, 2]])
    mesh.update(x)
    tracemalloc.start()
    try:
        for _ in range(20):
            mesh.update(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < x.nbytes / 4


@pytest.mark.parametrize(
    "hold",
    [
        lambda mesh: mesh.vertices,
        lambda mesh: mesh.vertices[1:2, 0],
        lambda mesh: mesh.vertices.T.reshape(-1, order="F"),
        lambda mesh: mesh.snapshot(),
        lambda mesh: memoryview(mesh.vertices),
        lambda mesh: np.asarray(mesh.vertices).view(np.int64),
    ],
    ids=["view", "slice", "reshaped", "snapshot", "memoryview", "other type"],
)
def test_whoever_holds_a_view_blocks_the_reuse(hold, buffers_made):
    """Use another buffer as long as any view of the old one lives, and use that one again from then on."""
    mesh = square()
    held = hold(mesh)
    for frame in range(1, 10):
        mesh.update(SQUARE + frame)

    assert len(buffers_made) == 2
    x = held.vertices if hasattr(held, "vertices") else np.asarray(held)
    assert x.view(np.float64).max() <= 1.0


def test_an_update_from_its_own_vertices_is_safe():
    """Take the body's own positions, of this frame or an earlier one, as input."""
    mesh = square()
    old = mesh.vertices
    mesh.update(SQUARE + 1.0)
    mesh.update(old)
    np.testing.assert_array_equal(mesh.vertices, SQUARE)
    mesh.update(mesh.vertices, copy=False)
    for frame in range(5):
        mesh.update(mesh.vertices)
        np.testing.assert_array_equal(mesh.vertices, SQUARE, err_msg=f"frame {frame}")


def test_reuse_goes_on_after_vertices_were_added():
    """Fit buffers to a body that grew, also when it grew within its capacity."""
    mesh = square()
    for count in range(5, 40):
        mesh.add_vertices(np.full((1, 3), float(count)))
        kept = mesh.snapshot()
        for frame in range(4):
            mesh.update(np.full((count, 3), float(frame)), copy=frame != 2)
            assert mesh.vertices.shape == (count, 3)
        assert kept.vertices[-1, 0] == count


def test_a_reader_sees_one_frame_while_another_thread_updates():
    """Give a reader one whole, unchanged frame while a writer updates without pause."""
    mesh = TriMesh(np.zeros((2000, 3)), [[0, 1, 2]])
    done = threading.Event()
    errors = []

    def write():
        try:
            frame = 0.0
            while not done.is_set():
                frame += 1.0
                mesh.update(np.full((2000, 3), frame))
        except Exception as error:  # noqa: BLE001 - whatever ends the thread must fail the test
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    try:
        for _ in range(200):
            snapshot = mesh.snapshot()
            seen.append(snapshot.vertices[0, 0])
            while mesh.version < snapshot.version + 3 and writer.is_alive():  # both buffers are due for reuse by then
                assert (snapshot.vertices == seen[-1]).all()
            assert (snapshot.vertices == seen[-1]).all()
    finally:
        done.set()
        writer.join()
        sys.setswitchinterval(interval)

    assert not errors
    assert (np.diff(seen) >= 3.0).all()


def test_a_reader_sees_faces_that_fit_while_another_thread_edits():
    """Give a reader faces and vertices that belong together while a writer adds and removes both."""
    mesh = TriMesh(np.zeros((3, 3)), [[0, 1, 2]])
    done = threading.Event()
    errors = []

    def write():
        try:
            for step in range(1500):
                n = len(mesh.vertices)
                mesh.add_triangles([[n, n + 1, n + 2]], np.full((3, 3), float(step)))
                mesh.remove_triangles([step])
        except Exception as error:  # noqa: BLE001 - whatever ends the thread must fail the test
            errors.append(error)
        finally:
            done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not done.is_set():
            snapshot = mesh.snapshot()
            live_rows = snapshot.elements[snapshot.live]
            assert live_rows.max() < len(snapshot.vertices)
            assert np.isfinite(mesh.bounds).all()
            assert mesh.adjacency.faces.max() < mesh.adjacency.vertex_count
            assert len(mesh.used_vertices) in (3, 6)
    finally:
        writer.join()
        sys.setswitchinterval(interval)

    assert not errors
    np.testing.assert_array_equal(np.flatnonzero(mesh.alive), [1500])
    np.testing.assert_array_equal(mesh.snapshot().live, [1500])


# edits ---------------------------------------------------------------------------------------------------


def test_ids_are_stable_until_compact():
    """Give new ids only, keep the others, and return the map from old to new when compacting."""
    mesh = square()
    mesh.remove_triangles([0])
    np.testing.assert_array_equal(mesh.add_triangles([[1, 2, 3], [3, 1, 0]]), [2, 3])
    mesh.remove_triangles(np.array([False, False, True, False]))

    np.testing.assert_array_equal(mesh.alive, [False, True, False, True])
    np.testing.assert_array_equal(mesh.faces, [[0, 1, 2], [0, 2, 3], [1, 2, 3], [3, 1, 0]])
    np.testing.assert_array_equal(mesh.compact(), [-1, 0, -1, 1])
    np.testing.assert_array_equal(mesh.faces, [[0, 2, 3], [3, 1, 0]])
    assert mesh.alive.all()
    assert mesh.vertices.shape == (4, 3)
    np.testing.assert_array_equal(mesh.add_triangles([[0, 1, 2]]), [2])


def test_dead_ids_may_be_removed_again():
    """Pass over ids that are dead already, and over repeats."""
    mesh = square()
    mesh.remove_triangles([1, 1])
    mesh.remove_triangles([0, 1])
    mesh.remove_triangles([])

    assert len(mesh) == 0


def test_vertices_come_with_their_triangles():
    """Number added vertices after the last one, and let added triangles use them at once."""
    mesh = square()
    np.testing.assert_array_equal(mesh.add_vertices([[0.0, 0.0, 1.0]]), [4])
    np.testing.assert_array_equal(mesh.add_triangles([[4, 5, 6]], [[0.0, 0.0, 2.0], [0.0, 0.0, 3.0]]), [2])
    np.testing.assert_array_equal(mesh.add_vertices([]), [])

    np.testing.assert_array_equal(mesh.vertices[4:, 2], [1.0, 2.0, 3.0])
    assert mesh.used_vertices.tolist() == list(range(7))
    mesh.update(np.ones((7, 3)))
    assert (mesh.vertices == 1.0).all()


def test_added_vertices_show_in_the_adjacency():
    """Count vertices that were added without triangles in the lists around vertices.

    The adjacency was kept by the version of the triangles alone; after ``add_vertices`` its lists were too short for
    the new ids.
    """
    mesh = square()
    assert mesh.adjacency.vertex_count == 4
    mesh.add_vertices([[0.0, 0.0, 1.0]])

    assert mesh.adjacency.vertex_count == 5
    assert len(mesh.adjacency.vertex_tri[0]) == 6


def test_added_vertices_must_be_finite():
    """Name a bad vertex among those to be added, and add none."""
    mesh = square()
    for add in (mesh.add_vertices, lambda x: mesh.add_triangles([[0, 1, 4]], x)):
        with pytest.raises(MeshError, match=r"vertices\[1\] is \[0, 0, inf\]; all coordinates must be finite$"):
            add([[0.0, 0.0, 1.0], [0.0, 0.0, np.inf]])

    assert (len(mesh.vertices), len(mesh)) == (4, 2)


@pytest.mark.parametrize("seed", range(4))
def test_edits_equal_a_plain_model(seed):
    """Equal a list of faces and a list of flags after every one of thousands of random edits."""
    rng = np.random.default_rng(seed)
    mesh = TriMesh(SQUARE, FACES)
    x, faces, alive = SQUARE.tolist(), FACES.tolist(), [True, True]
    held, done = [], dict.fromkeys(("add", "vertices", "remove", "mask", "update", "compact"), 0)
    for step in range(2000):
        what = rng.choice(list(done), p=[0.35, 0.1, 0.25, 0.05, 0.23, 0.02])
        done[what] += 1
        version = mesh.version
        if what == "add":
            new_x = rng.integers(0, 9, (rng.integers(0, 3), 3)).astype(float)
            rows = rng.integers(0, len(x) + len(new_x), (rng.integers(0, 5), 3))
            ids = mesh.add_triangles(rows, new_x if len(new_x) else None)
            assert ids.tolist() == list(range(len(faces), len(faces) + len(rows)))
            x, faces, alive = x + new_x.tolist(), faces + rows.tolist(), alive + [True] * len(rows)
        elif what == "vertices":
            new_x = rng.integers(0, 9, (rng.integers(1, 4), 3)).astype(float)
            assert mesh.add_vertices(new_x).tolist() == list(range(len(x), len(x) + len(new_x)))
            x = x + new_x.tolist()
        elif what in ("remove", "mask") and faces:
            mask = rng.random(len(faces)) < 0.1
            mesh.remove_triangles(mask if what == "mask" else rng.permutation(np.flatnonzero(mask)))
            alive = [old and not gone for old, gone in zip(alive, mask)]
        elif what == "update":
            new_x = rng.integers(0, 9, (len(x), 3)).astype(float)
            mesh.update(new_x, copy=bool(rng.integers(2)))
            x = new_x.tolist()
        elif what == "compact":
            kept = [i for i, flag in enumerate(alive) if flag]
            assert mesh.compact().tolist() == [kept.index(i) if flag else -1 for i, flag in enumerate(alive)]
            faces, alive = [faces[i] for i in kept], [True] * len(kept)
        if what not in ("remove", "mask"):
            assert mesh.version > version
        live = [i for i, flag in enumerate(alive) if flag]
        snapshot = mesh.snapshot()
        assert snapshot.vertices.tolist() == x
        assert snapshot.elements.tolist() == mesh.faces.tolist() == faces
        assert snapshot.live.tolist() == live
        assert mesh.alive.tolist() == alive
        assert len(mesh) == mesh.live_count == len(live)
        assert mesh.used_vertices.tolist() == sorted({v for i in live for v in faces[i]})
        if step % 10 == 0:
            held.append((snapshot, x, faces, live))

    for snapshot, old_x, old_faces, old_live in held:
        assert snapshot.vertices.tolist() == old_x
        assert snapshot.elements.tolist() == old_faces
        assert snapshot.live.tolist() == old_live
    assert min(done.values()) > 20


@pytest.mark.parametrize("what", ["triangles", "vertices"])
@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_adding_one_at_a_time_copies_in_proportion(what, n):
    """Copy O(n) rows in all when n elements are added one by one: capacity grows by a constant factor."""
    mesh = TriMesh(np.zeros((3, 3)), [[0, 1, 2]])
    buffer_of = (lambda: mesh.faces.base) if what == "triangles" else (lambda: mesh.vertices.base)
    add = (
        (lambda: mesh.add_triangles([[0, 1, 2]]))
        if what == "triangles"
        else (lambda: mesh.add_vertices(np.ones((1, 3))))
    )
    copied, moves, buffer = 0, 0, buffer_of()
    for i in range(n):
        add()
        if buffer_of() is not buffer:
            buffer, moves, copied = buffer_of(), moves + 1, copied + i
    capacity = len(buffer)

    assert copied < 3 * n
    assert moves < 3 * np.log2(n)
    assert capacity < 1.6 * (n + 3)


# validate= -----------------------------------------------------------------------------------------------


def test_drop_leaves_bad_faces_out_and_names_them():
    """Name the rows that were left out, point at the caller's line, and number the others from 0."""
    x = np.vstack([SQUARE, [[np.nan, 0.0, 0.0]]])
    faces = [[0, 1, 2], [0, 1, 4], [0, 2, 3], [0, 1, 5], [-1, 1, 2]]

    with pytest.warns(MeshWarning) as caught:
        mesh = TriMesh(x, faces, validate="drop")

    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert str(caught[0].message) == (
        "left out 3 of 5 faces (rows 1, 3, 4) that use a missing or non-finite vertex; "
        "1 non-finite vertices moved to the origin; ids count the rows that stay"
    )
    np.testing.assert_array_equal(mesh.faces, FACES)
    np.testing.assert_array_equal(mesh.vertices, np.vstack([SQUARE, [[0.0, 0.0, 0.0]]]))
    assert np.isnan(x[4, 0])


def test_drop_shortens_a_long_list():
    """Name the first eight rows of many."""
    with pytest.warns(MeshWarning, match=r"left out 20 of 20 faces \(rows 0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\)"):
        mesh = TriMesh(SQUARE, np.full((20, 3), 7), validate="drop")

    assert len(mesh) == 0


def test_drop_mentions_bad_vertices_that_no_face_uses():
    """Warn of a vertex that moved to the origin even if every face stays."""
    with pytest.warns(MeshWarning, match=r"left out 0 of 2 faces \(rows none\).*1 non-finite vertices moved"):
        mesh = TriMesh(np.vstack([SQUARE, [[np.inf, 0.0, 0.0]]]), FACES, validate="drop")

    assert len(mesh) == 2


def test_drop_is_silent_about_good_input():
    """Warn of nothing where nothing is left out."""
    mesh = TriMesh(SQUARE, FACES, validate="drop")

    np.testing.assert_array_equal(mesh.faces, FACES)
    assert len(TriMesh([], [], validate="drop")) == 0


def test_trust_looks_at_shapes_and_types_only():
    """Take ids and coordinates as they are, and refuse arrays that are none."""
    mesh = TriMesh(np.full((3, 3), np.nan), [[0, 1, 7]], validate="trust")

    assert mesh.faces.tolist() == [[0, 1, 7]]
    with pytest.raises(MeshError, match=r"faces have shape \(1, 2\)"):
        TriMesh(SQUARE, [[0, 1]], validate="trust")


@pytest.mark.parametrize("mode", ["fix", None, True, "RAISE"])
def test_other_modes_are_refused(mode):
    """List the modes that there are."""
    with pytest.raises(OptionError, match=rf"validate is {mode!r}, expected one of 'raise', 'drop', 'trust'"):
        TriMesh(SQUARE, FACES, validate=mode)
