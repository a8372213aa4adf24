"""A real browser without a window, for tests of pages; without one they are skipped, and say why."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PATIENCE_S = 600.0
"""How long to wait for anything; a busy machine draws without a GPU at a frame in many seconds."""
STARTS = 3
"""How often to start a browser that does not come up: its port may be taken meanwhile by somebody else."""
MISSED_S = 5.0
"""Time after which an unhandled click counts as lost; the browser reports handled clicks."""
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--window-size=900,600",
)
"""WebGL in software, and few pixels of it."""


def missing() -> str:
    """What is missing for tests in a browser, nothing if they can run."""
    if CHROMIUM is None or DRIVER is None:
        return "needs a browser: apt-get install chromium chromium-driver"
    if importlib.util.find_spec("selenium") is None:
        return "needs selenium, which the extra dev has"
    if importlib.util.find_spec("viser") is None:
        return "needs viser, which the extra view has"
    return ""


def open_browser() -> Iterator[Any]:
    """A browser, closed in the end."""
    if missing():
        pytest.skip(missing())
    driver = _start()
    driver.set_script_timeout(PATIENCE_S)
    driver.set_page_load_timeout(PATIENCE_S)
    try:
        yield driver
    finally:
        with contextlib.suppress(OSError):  # it may hang up before it says goodbye
            driver.quit()


def _start() -> Any:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for switch in SWITCHES:
        options.add_argument(switch)
    for _ in range(STARTS - 1):
        with contextlib.suppress(WebDriverException):
            return webdriver.Chrome(options=options, service=Service(DRIVER))
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def screenshot(driver: Any) -> bytes | None:
    """A picture of the page as png; None if there is none yet, as where drawing takes longer than the driver waits."""
    from selenium.common.exceptions import WebDriverException

    try:
        return bytes(driver.get_screenshot_as_png())
    except WebDriverException:
        return None


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait until something holds, by the clock: frames of a browser without a window may stand still."""
    ends = monotonic() + PATIENCE_S
    while not (found := condition()):
        if monotonic() > ends:
            pytest.fail(f"waited {PATIENCE_S:.0f} s for {what}")
        sleep(0.1)
    return found


def act(driver: Any, how: str, where: str, action: Callable[[Any], object]) -> None:
    """Do something to an element of the page, once it can be done."""
    wait_for(lambda: try_to_act(driver, how, where, action), f"an element at {where}")


def try_to_act(driver: Any, how: str, where: str, action: Callable[[Any], object]) -> bool:
    """Do something to an element of the page; whether it could be done and did not return ``False``.

    A page redraws itself whenever it has news. An element that was found may be gone, hidden or covered when its
    turn comes, and the browser says so without having done anything: then it can be sought again.
    """
    from selenium.common.exceptions import (
        ElementClickInterceptedException,
        ElementNotInteractableException,
        MoveTargetOutOfBoundsException,
        NoSuchElementException,
        StaleElementReferenceException,
        WebDriverException,
    )

    not_yet: tuple[type[WebDriverException], ...] = (
        ElementClickInterceptedException,
        ElementNotInteractableException,
        MoveTargetOutOfBoundsException,
        NoSuchElementException,
        StaleElementReferenceException,
    )
    try:
        element = driver.find_element(how, where)
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        return action(element) is not False
    except not_yet:
        return False


def click(driver: Any, how: str, where: str) -> None:
    """Click an element by the mouse, once."""
    wait_for(lambda: try_to_click(driver, how, where), f"an element to click at {where}")


def try_to_click(driver: Any, how: str, where: str) -> bool:
    """Click an element by the mouse; whether it got the click, which goes elsewhere if the element moves meanwhile."""
    listen = "window.hit = false; arguments[0].addEventListener('click', () => { window.hit = true }, true)"

    def is_hit(element: Any) -> bool:
        driver.execute_script(listen, element)
        element.click()
        ends = monotonic() + MISSED_S
        while not (hit := bool(driver.execute_script("return window.hit"))) and monotonic() < ends:
            sleep(0.1)
        return hit

    return try_to_act(driver, how, where, is_hit)
