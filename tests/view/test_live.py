"""The live page in a real browser: it loads, and its controls change the computation."""

from __future__ import annotations

import io
import logging
import threading
from time import monotonic, sleep
from types import SimpleNamespace

import numpy as np
import pytest

import impinge
from browser import MISSED_S, act, click, missing, open_browser, screenshot, try_to_click, wait_for
from impinge import shapes
from impinge.view import live
from impinge.view.drawing import Drawing
from impinge.view.live import LivePage, record, show, status
from impinge.view.session import RenderedFrame, Session

pytest.importorskip("viser", reason="the live page needs viser")


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests of this file."""
    yield from open_browser()


@pytest.fixture(scope="module")
def opened(browser):
    """A page of a small scene, opened and paused, with its session and the browser."""
    page = LivePage(Session("bumpy_spheres_1k"), port=0)
    threading.Thread(target=page.run, daemon=True).start()
    refused: list[logging.LogRecord] = []
    keeper = logging.Handler()
    keeper.emit = refused.append
    logging.getLogger("impinge.page").addHandler(keeper)
    browser.get(page.url)
    view = SimpleNamespace(page=page, session=page.session, browser=browser, refused=refused)
    _shown(view)
    wait_for(lambda: page.session.frame > 3, "bodies to move")
    _click(view, "Pause")
    wait_for(lambda: page._paused, "the pause")
    yield view
    logging.getLogger("impinge.page").removeHandler(keeper)
    page.close()


@pytest.fixture
def view(opened):
    """The page in its initial state: uncut bodies, default pose, box_tree."""
    with opened.page._lock:
        for slider in opened.page._shifts:
            slider.value = 0.0
        opened.page._method.value = "box_tree"
        opened.session.choose_method("box_tree")
        opened.session.settings.shift, opened.session.settings.turn = np.zeros(3), np.eye(3)
        opened.session.settings.layers = frozenset(live.LAYERS)
        opened.session.restore()
        opened.page.refresh()
    wait_for(lambda: _follows(opened), "the page to follow")
    return opened


def _shown(view) -> dict[str, str]:
    """The status, read in one script: the page may replace the element between two calls."""
    script = """const said = document.querySelector('.impinge-status[data-count]')
                return said && {words: said.innerText, ...said.dataset}"""
    return wait_for(lambda: view.browser.execute_script(script), "what the page says")


def _count(view) -> str:
    return _shown(view)["count"]


def _follows(view) -> dict[str, str] | None:
    """The status, once it shows the last result; a scene just chosen or restored has no result yet."""
    with view.page._lock:
        frame, counts = view.session.frame, list(view.session.counts)
    shown = _shown(view)
    return shown if counts and (shown["frame"], shown["count"]) == (str(frame), str(counts[-1])) else None


def _labelled(view, label: str) -> str:
    """The id of the control with this label; it is stable when the page redraws."""
    script = """return [...document.querySelectorAll('label')].find(l => l.innerText.includes(arguments[0]))?.htmlFor"""
    return str(wait_for(lambda: view.browser.execute_script(script, label), f"the control {label}"))


def _click(view, words: str) -> None:
    click(view.browser, "xpath", f"//button[contains(., '{words}')]")


def _slide_beyond(view, label: str, value: float) -> float:
    """Move a slider by the keyboard, one key after the other took effect; return its value."""
    from selenium.webdriver.common.keys import Keys

    thumb = f"[id='{_labelled(view, label)}'] [role=slider]"
    script = f'return parseFloat(document.querySelector("{thumb}")?.getAttribute("aria-valuenow"))'
    pressed_at, pressed = None, 0.0

    def place_beyond() -> float | None:
        nonlocal pressed_at, pressed
        place = view.browser.execute_script(script)
        if place is not None and place > value:
            return place
        if place != pressed_at or monotonic() > pressed + MISSED_S:
            pressed_at, pressed = place, monotonic()
            act(view.browser, "css selector", thumb, lambda found: found.send_keys(Keys.ARROW_RIGHT))
        return None

    return wait_for(place_beyond, f"the slider {label}")


def _choose(view, label: str, option: str) -> None:
    """Open a list and click an option; reopen it where a stray click closed it."""
    box, wanted = f"[id='{_labelled(view, label)}']", f"//*[@role='option'][contains(., '{option}')]"
    is_open = f"""return document.querySelector("{box}").getAttribute('aria-expanded') === 'true'"""

    def is_chosen() -> bool:
        if not view.browser.execute_script(is_open):
            click(view.browser, "css selector", box)
        return try_to_click(view.browser, "xpath", wanted)

    wait_for(is_chosen, f"the option {option}")


def test_page_shows_the_result(view):
    """Show count and sentence of the session."""
    shown = wait_for(lambda: _follows(view), "the page to follow")

    assert int(shown["count"]) == view.session.counts[-1] > 0
    assert "decided exactly" in shown["words"]


def test_slider_changes_what_is_computed(view):
    """Move the second body with a slider, and change the count."""
    before = _count(view)
    place = _slide_beyond(view, "Position x", 0.1)
    wait_for(lambda: view.session.settings.shift[0] == pytest.approx(place), "the slider to reach the session")
    wait_for(lambda: _count(view) != before, "another count")

    wait_for(lambda: _follows(view), "the last count")
    assert view.session.settings.shift[1] == 0.0


def test_budget_slider_reaches_the_session(view):
    """Set the time budget with a slider."""
    place = _slide_beyond(view, "Time budget", view.session.settings.budget_ms + 0.4)

    wait_for(lambda: view.session.settings.budget_ms == pytest.approx(place), "a longer budget")


def test_another_method_gives_another_result(view):
    """Query the volume instead of the pairs."""
    _choose(view, "Method", "layered_depth")
    wait_for(lambda: _shown(view)["method"] == "layered_depth", "the method")
    shown = wait_for(lambda: _follows(view), "its answer")

    assert "volume" in shown["words"]
    assert int(shown["count"]) == view.session.counts[-1] > 0


def test_cutting_changes_the_count(view):
    """Remove the colliding triangles and their contacts; restore both."""
    before = _count(view)
    whole = view.session.bodies[1].live_count
    _click(view, "Cut away what collides")
    wait_for(lambda: _count(view) == "0", "no contacts")
    assert view.session.bodies[1].live_count < whole

    _click(view, "Mend")
    wait_for(lambda: _count(view) == before, "the contacts again")


def test_tool_cuts_where_it_is_clicked(view):
    """Enable the tool, click into the picture, and remove triangles."""
    from selenium.webdriver.common.action_chains import ActionChains

    whole = sum(body.live_count for body in view.session.bodies)
    toggle = f"document.getElementById('{_labelled(view, 'Cut where I click')}').click()"
    view.browser.execute_script(toggle)
    wait_for(lambda: view.page._cut_clicks.value, "the tool")

    def cut() -> bool:
        def click_beside_the_middle(canvas) -> None:
            ActionChains(view.browser).move_to_element_with_offset(canvas, -60, 10).click().perform()

        act(view.browser, "css selector", "canvas", click_beside_the_middle)
        return sum(body.live_count for body in view.session.bodies) < whole

    wait_for(cut, "a cut")
    view.browser.execute_script(toggle)
    wait_for(lambda: not view.page._cut_clicks.value, "the tool to be put away")


def test_step_goes_on_by_one_frame(view):
    """Advance by one frame per click."""
    before = view.session.motion.time
    _click(view, "Step")
    wait_for(lambda: view.session.motion.time > before, "one frame")
    sleep(10 * live.FRAME_S)

    assert view.session.motion.time == pytest.approx(before + live.FRAME_S)


def test_handle_moves_the_second_body(view):
    """Drag the handle: body, sliders and count follow."""
    with view.page._lock:  # as where the browser reports it
        before = view.session.counts[-1]
        place = view.page._viewer.to_drawing(view.session.centre_of_b)
        view.page._gizmo.position = tuple(place + np.array([0.5, 0.0, 0.0]))
        view.page._gizmo.wxyz = (np.cos(0.2), 0.0, 0.0, np.sin(0.2))
        view.page._drag_pose = (view.page._gizmo.position, view.page._gizmo.wxyz)
        view.page._follow_handle()

        np.testing.assert_allclose(view.session.settings.shift, [0.25, 0.0, 0.0], atol=1e-6)
        assert view.session.settings.turn[1, 0] > 0.3
        assert view.page._shifts[0].value == 0.25
        assert view.session.counts[-1] != before
    wait_for(lambda: _follows(view), "the page to follow")
    view.session.settings.turn = np.eye(3)


def test_record_sends_a_file(view, monkeypatch):
    """Record from one click to the next, and send one html file to that browser."""
    import viser

    sent: list[tuple[str, bytes]] = []
    monkeypatch.setattr(viser.ClientHandle, "send_file_download", lambda _, *file: sent.append(file))
    _click(view, "Record")
    wait_for(lambda: view.page._recording is not None, "the recording")
    for _ in range(3):
        view.page.advance(0.05)
    _click(view, "Record")
    wait_for(lambda: sent, "the file")

    assert sent[0][0] == "impinge.html"
    assert b"__VISER_EMBED_DATA__" in sent[0][1]
    assert view.page._recording is None


def _shows_bodies(browser) -> bool:
    """Whether both bodies and highlighted triangles are visible."""
    import matplotlib.image

    taken = screenshot(browser)
    if taken is None:
        return False
    pixels = matplotlib.image.imread(io.BytesIO(taken), format="png")
    red, green, blue = pixels[150:, :500, :3].reshape(-1, 3).T
    is_blue, is_orange = blue > red + 0.15, red > blue + 0.15
    glows = (red > 0.75) & (green < 0.5) & (blue > 0.3)
    return bool(is_blue.sum() > 5000 and is_orange.sum() > 5000 and glows.sum() > 50)


def test_screenshot_is_not_blank(view):
    """Show both bodies and highlighted triangles."""
    wait_for(lambda: _shows_bodies(view.browser), "bodies and highlighted triangles in the picture")


def test_another_scene_is_chosen(view):
    """Choose a simulation in the list: its bodies are simulated, and the motion controls are hidden."""
    _choose(view, "Scene", "turning_part, simulated")
    wait_for(lambda: view.session.is_simulated, "the simulation")
    _click(view, "Step")
    wait_for(lambda: view.session.motion.time > 0.0, "a step")
    wait_for(lambda: f"simulated {view.session.motion.time:.2f} s" in _shown(view)["words"], "its time")

    assert not view.page._motion.visible
    _click(view, "Again")
    wait_for(lambda: view.session.motion.time == 0.0, "the beginning")
    _choose(view, "Scene", "bumpy_spheres_1k")
    wait_for(lambda: not view.session.is_simulated, "the first scene")
    wait_for(lambda: view.page._motion.visible, "what moves formulas")
    shown = wait_for(lambda: _follows(view), "its contacts")
    assert int(shown["count"]) > 0


def test_browser_is_not_refused(view):
    """Accept everything that the browser has sent in the tests above."""
    assert [record.getMessage() for record in view.refused] == []


def test_recording_opens_from_disk(browser, tmp_path):
    """Open a recording from disk without a server, with canvas and time slider."""
    path = live.PAGE_FILE.write(tmp_path / "run.html", record(Session("bumpy_spheres_1k"), 0.1).encode())
    browser.get(path.as_uri())

    wait_for(lambda: browser.find_elements("css selector", "canvas"), "the canvas")
    wait_for(lambda: browser.find_elements("css selector", "[role=slider]"), "the line of time")


# without a browser ----------------------------------------------------------------------------------------


def test_browser_tests_say_why_they_are_skipped(monkeypatch):
    """Name the package to install."""
    monkeypatch.setattr("browser.CHROMIUM", None)

    assert "apt-get install chromium" in missing()


def test_status_takes_nothing_for_markup():
    """Escape sentences, which may hold file names."""
    drawing = Drawing(surfaces=(), sentence="<b>&", notes=("<i>",))
    shown = status(RenderedFrame(1, 0.0, drawing, 1.0, 2.0, "<m>"))

    assert "&lt;b&gt;&amp;" in shown
    assert "&lt;i&gt;" in shown
    assert 'data-method="&lt;m&gt;"' in shown


def test_recording_is_one_file():
    """Record frames into a self-contained page."""
    page = record(Session("boxes_overlapping_by_half"), 0.1)

    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "__VISER_EMBED_DATA__" in page


def test_recordings_grow_with_time():
    """Store every frame."""
    short, long = (len(record(Session("bumpy_spheres_1k"), seconds)) for seconds in (0.1, 0.5))

    assert long > short + 10_000


def test_result_is_written_as_a_page(tmp_path):
    """Write one html file of a result."""
    path = tmp_path / "found.html"
    pairs = impinge.triangle_pairs(shapes.icosphere(2), shapes.icosphere(2, center=(1.2, 0, 0)))

    assert show(pairs, path) == path
    assert "__VISER_EMBED_DATA__" in path.read_text(encoding="utf-8")


def test_page_that_cannot_be_written(tmp_path):
    """Report a path that cannot be written, and leave no file."""
    for path in (tmp_path, tmp_path / "no" / "page.html"):
        with pytest.raises(impinge.FileError, match="could not be written"):
            live.check_path(path)
    with pytest.raises(impinge.FileError, match="could not be written"):
        live.PAGE_FILE.write(tmp_path / "no" / "page.html", b"x")
    assert not list(tmp_path.iterdir())
