"""Sequences of frames: order, one topology, reading ahead, and what goes wrong at which frame."""

import gc
import threading
import time

import numpy as np
import pytest

from impinge.errors import FileError, MeshError, OptionError
from impinge.io import sequence
from impinge.io.files import write_mesh
from impinge.io.sequence import FRAMES_AHEAD, Sequence

VERTICES = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([[0, 1, 2], [0, 2, 3]], dtype=np.int32)


def write_frames(folder, numbers, ending="ply"):
    """Write one frame per number, each moved by it."""
    for number in numbers:
        write_mesh(folder / f"frame{number}.{ending}", VERTICES + number, FACES)


def reader_threads():
    """Return the threads that read ahead now."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("impinge-frames")]


@pytest.mark.parametrize("ending", ["ply", "obj.gz"])
def test_pattern_in_natural_order(tmp_path, ending):
    """Sort frame2 before frame10, and leave other files of the folder out."""
    write_frames(tmp_path, [10, 2, 1, 33], ending)
    (tmp_path / "notes.txt").write_text("no mesh")
    frames = Sequence(str(tmp_path / f"frame*.{ending}"))

    assert frames.names == [f"frame{i}.{ending}" for i in (1, 2, 10, 33)]
    assert len(frames) == 4
    np.testing.assert_array_equal(frames.elements, FACES)
    for number, (name, vertices) in zip((1, 2, 10, 33), frames):
        assert name == f"frame{number}.{ending}"
        np.testing.assert_array_equal(vertices, VERTICES + number)


def test_folder(tmp_path):
    """Take the meshes of a folder, and pass over its other files, folders and hidden files."""
    write_frames(tmp_path, [2, 10, 1])
    write_mesh(tmp_path / ".hidden.ply", VERTICES[:3], FACES[:1])
    (tmp_path / "notes.json.gz").write_bytes(b"")
    (tmp_path / "more.ply").mkdir()

    assert Sequence(tmp_path).names == ["frame1.ply", "frame2.ply", "frame10.ply"]


def test_relative_pattern_and_brackets(tmp_path, monkeypatch):
    """Take patterns from the current folder, and a name with brackets as the file that has it."""
    write_frames(tmp_path, [1, 2])
    write_mesh(tmp_path / "take[3].ply", VERTICES, FACES)
    monkeypatch.chdir(tmp_path)

    assert Sequence("frame[12].ply").names == ["frame1.ply", "frame2.ply"]
    assert Sequence("take[3].ply").names == ["take[3].ply"]


def test_frames_by_number(tmp_path):
    """Return any frame by number, from the end too, as an array of its own."""
    write_frames(tmp_path, [1, 2, 3])
    frames = Sequence(tmp_path)

    np.testing.assert_array_equal(frames.frame(2), VERTICES + 3)
    np.testing.assert_array_equal(frames.frame(-3), VERTICES + 1)
    assert frames.frame(0) is not frames.frame(0)
    for wrong in (3, -4):
        with pytest.raises(OptionError, match=rf"i is {wrong}, expected a whole number from -3 to 2"):
            frames.frame(wrong)


def test_only_the_first_frame_is_read_at_once(tmp_path):
    """Make a sequence although its second frame is no mesh, and say so when its turn comes."""
    write_frames(tmp_path, [1, 2, 3])
    (tmp_path / "frame2.ply").write_text("no mesh")
    frames = Sequence(tmp_path)
    steps = iter(frames)

    assert next(steps)[0] == "frame1.ply"
    with pytest.raises(FileError, match=r"frame2\.ply is not a \.ply file"):
        next(steps)
    np.testing.assert_array_equal(frames.frame(2), VERTICES + 3)
    assert not reader_threads()


@pytest.mark.parametrize(
    ("vertices", "faces", "match"),
    [
        (VERTICES[:3], FACES[:1], r"frame2\.ply has 3 vertices, but the first frame frame1\.ply has 4; all frames"),
        (VERTICES, FACES[:1], r"frame2\.ply has 1 elements, but the first frame frame1\.ply has 2; all frames"),
        (VERTICES, FACES[:, ::-1], r"frame2\.ply has other elements .* \(row 0 is \[2, 1, 0\], expected \[0, 1, 2\]\)"),
    ],
)
def test_other_topology(tmp_path, vertices, faces, match):
    """Name the frame whose vertices or elements do not fit the first."""
    write_frames(tmp_path, [1])
    write_mesh(tmp_path / "frame2.ply", vertices, faces)

    with pytest.raises(MeshError, match=match):
        Sequence(tmp_path).frame(1)
    with pytest.raises(MeshError, match=match):
        list(Sequence(tmp_path))


def files_decoded(monkeypatch):
    """Note the name of every file that is looked at as a whole."""
    names, decode = [], sequence.decode_mesh
    monkeypatch.setattr(
        sequence, "decode_mesh", lambda data, kind, file: names.append(file.name) or decode(data, kind, file)
    )
    return names


def test_frames_that_differ_in_positions_only(tmp_path, monkeypatch):
    """Look at ids once, take positions of the other files as they are, and give arrays that may be written to."""
    write_frames(tmp_path, range(4))
    decoded = files_decoded(monkeypatch)
    reader = sequence.FrameReader(FACES, len(VERTICES), "the body")
    found = [reader.read(tmp_path / f"frame{i}.ply") for i in range(4)]

    assert decoded == ["frame0.ply"]
    for i, x in enumerate(found):
        np.testing.assert_array_equal(x, VERTICES + i)
        assert x.flags.writeable
        assert x.flags.c_contiguous
        assert x.flags.aligned


def test_frame_after_frame_with_other_ids(tmp_path):
    """Refuse a last id that differs, a file that is cut short or too long for its header, and read on after each."""
    write_frames(tmp_path, range(2))
    data = (tmp_path / "frame1.ply").read_bytes()
    bad = {
        "id": (data[:-4] + b"\1\0\0\0", "has other elements than the body"),
        "cut": (data[:-1], "declares 2 rows of face, but holds 1"),
        "head": (data.replace(b"face 2", b"face 3"), "declares 3 rows of face, but holds 2"),
        "axes": (data.replace(b"double y", b"double w"), "has no element vertex with the properties x, y, z"),
    }
    reader = sequence.FrameReader(FACES, len(VERTICES), "the body")
    reader.read(tmp_path / "frame0.ply")
    for name, (content, sentence) in bad.items():
        (tmp_path / f"{name}.ply").write_bytes(content)
        with pytest.raises((FileError, MeshError), match=sentence):
            reader.read(tmp_path / f"{name}.ply")
        np.testing.assert_array_equal(reader.read(tmp_path / "frame1.ply"), VERTICES + 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"binary_little_endian", b"binary_big_endian"),
        (b"property double z\n", b"property double z\nproperty uchar red\n"),
        (b"property double x\nproperty double y\n", b"property double y\nproperty double x\n"),
    ],
)
def test_files_with_other_columns_are_decoded(tmp_path, monkeypatch, before, after):
    """Take nothing as it is from files whose numbers are of another kind or order."""
    write_frames(tmp_path, range(2))
    x = [VERTICES, VERTICES + 1]
    for i in range(2):
        head, _, _ = (tmp_path / f"frame{i}.ply").read_bytes().partition(b"end_header\n")
        big = b"big" in after
        rows = np.zeros(4, dtype=[("x", ">f8" if big else "<f8", 3), *([("red", "u1")] if b"red" in after else [])])
        rows["x"] = x[i][:, [1, 0, 2]] if after.startswith(b"property double y") else x[i]
        faces = np.zeros(2, dtype=[("count", "u1"), ("ids", ">i4" if big else "<i4", 3)])
        faces["count"], faces["ids"] = 3, FACES
        content = head.replace(before, after) + b"end_header\n" + rows.tobytes() + faces.tobytes()
        (tmp_path / f"frame{i}.ply").write_bytes(content)
    decoded = files_decoded(monkeypatch)
    reader = sequence.FrameReader(FACES, len(VERTICES), "the body")

    for i in range(2):
        np.testing.assert_array_equal(reader.read(tmp_path / f"frame{i}.ply"), x[i])
    assert decoded == ["frame0.ply", "frame1.ply"]


def test_tets_do_not_fit_triangles(tmp_path):
    """Refuse tets after triangles, although they are as many."""
    write_mesh(tmp_path / "frame1.msh", VERTICES, FACES[:1])
    write_mesh(tmp_path / "frame2.msh", VERTICES, [[0, 1, 2, 3]])

    with pytest.raises(MeshError, match=r"frame2\.msh has other elements than the first frame frame1\.msh"):
        Sequence(tmp_path).frame(1)


def test_nothing_found(tmp_path):
    """Refuse an empty folder, a pattern without matches and a missing path."""
    for source in (tmp_path, tmp_path / "*.ply", tmp_path / "missing"):
        with pytest.raises(FileError, match="names no mesh files, expected a folder or a pattern"):
            Sequence(source)


def test_mixed_formats(tmp_path):
    """Refuse a folder of several formats and show the pattern that helps."""
    write_frames(tmp_path, [1])
    write_frames(tmp_path, [1], "obj")

    with pytest.raises(FileError, match=r"several formats \(obj, ply\), expected one; use a pattern .* \*\.obj"):
        Sequence(tmp_path)


def test_pattern_that_matches_other_files(tmp_path):
    """Name the file that is no mesh by its ending."""
    (tmp_path / "frame.txt").write_text("")

    with pytest.raises(FileError, match=r"frame\.txt has the ending '\.txt'"):
        Sequence(tmp_path / "*.txt")


# reading ahead -----------------------------------------------------------------------------------------------


def test_frames_are_read_ahead_but_not_too_far(tmp_path, monkeypatch):
    """Read the next few frames while the first is in use, and no more than those."""
    write_frames(tmp_path, range(12))
    frames = Sequence(tmp_path)
    read = []
    original = sequence.read_bytes

    def counted(path):
        assert threading.current_thread() is not threading.main_thread()
        read.append(path.name)
        return original(path)

    monkeypatch.setattr(sequence, "read_bytes", counted)
    steps = iter(frames)
    next(steps)
    deadline = time.monotonic() + 300.0
    while len(read) < 1 + FRAMES_AHEAD and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)

    assert read == frames.names[: 1 + FRAMES_AHEAD]
    assert len(reader_threads()) == 1
    assert [name for name, _ in steps] == frames.names[1:]
    assert read == frames.names
    assert not reader_threads()


def test_leaving_early_ends_the_thread(tmp_path):
    """End the background thread when the loop is left, by break or by an error."""
    write_frames(tmp_path, range(12))
    for _ in Sequence(tmp_path):
        break
    gc.collect()
    assert not reader_threads()

    def fail():
        for _ in Sequence(tmp_path):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    gc.collect()

    assert not reader_threads()


def test_two_loops_at_once(tmp_path):
    """Run two loops over one sequence side by side."""
    write_frames(tmp_path, range(7))
    frames = Sequence(tmp_path)

    for (name_a, a), (name_b, b) in zip(frames, frames):
        assert name_a == name_b
        np.testing.assert_array_equal(a, b)


# npz ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    """Read frames of an archive as float64 and number them."""
    path = tmp_path / "cow.npz"
    save(path, V=np.stack([VERTICES, VERTICES + 1]).astype(np.float32), F=FACES.astype(np.int64))
    frames = Sequence(path)

    assert frames.names == ["cow.npz[0]", "cow.npz[1]"]
    assert frames.elements.dtype == np.int32
    np.testing.assert_array_equal(frames.elements, FACES)
    assert [name for name, _ in frames] == frames.names
    assert frames.frame(1).dtype == np.float64
    np.testing.assert_array_equal(frames.frame(1), VERTICES + 1)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"V": VERTICES[None]}, r"holds V, expected V \(frames, vertices, 3\) and F"),
        ({}, "holds nothing, expected V"),
        ({"V": VERTICES, "F": FACES}, r"V has shape \(4, 3\) and type float64, expected one or more frames"),
        ({"V": VERTICES[None, :, :2], "F": FACES}, r"V has shape \(1, 4, 2\)"),
        ({"V": np.zeros((0, 4, 3)), "F": FACES}, r"V has shape \(0, 4, 3\)"),
        ({"V": np.zeros((1, 4, 3), dtype=complex), "F": FACES}, "type complex128"),
        ({"V": VERTICES[None], "F": FACES.astype(float)}, "F has shape .* and type float64, expected vertex ids"),
        ({"V": VERTICES[None], "F": FACES[:, :2]}, r"F has shape \(2, 2\)"),
        ({"V": VERTICES[None], "F": np.array([None, {}], dtype=object)}, "cannot be read as an npz archive .*pickle"),
    ],
)
def test_npz_of_another_kind(tmp_path, arrays, match):
    """Say what an archive holds instead of frames, and never unpickle."""
    np.savez(tmp_path / "odd.npz", **arrays)

    with pytest.raises(FileError, match=match):
        Sequence(tmp_path / "odd.npz")


def test_npz_ids_beyond_int32(tmp_path):
    """Refuse ids that would wrap around."""
    np.savez(tmp_path / "large.npz", V=VERTICES[None], F=np.array([[0, 1, 2**32]]))

    with pytest.raises(MeshError, match=r"large\.npz: F\[0, 2\] is 4294967296, but ids are int32"):
        Sequence(tmp_path / "large.npz")


def test_npz_that_is_none(tmp_path):
    """Refuse a missing archive, one that is cut short, and other bytes."""
    with pytest.raises(FileError, match="does not exist, expected an npz archive"):
        Sequence(tmp_path / "missing.npz")
    np.savez(tmp_path / "cut.npz", V=VERTICES[None], F=FACES)
    data = (tmp_path / "cut.npz").read_bytes()
    for content in (data[: len(data) // 2], b"", b"no archive", data[:60] + b"\xff" * 40 + data[100:]):
        (tmp_path / "cut.npz").write_bytes(content)
        with pytest.raises(FileError, match="cannot be read as an npz archive"):
            Sequence(tmp_path / "cut.npz")
