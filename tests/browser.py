"""A real browser without a window, for tests of pages; without one they are skipped, and say why."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PATIENCE_S = 90.0
"""How long to wait for anything; a busy machine draws without a GPU at a frame a second."""
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--window-size=1400,900",
)
"""WebGL in software."""


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
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for switch in SWITCHES:
        options.add_argument(switch)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(PATIENCE_S)
    try:
        yield driver
    finally:
        driver.quit()


def screenshot(driver: Any) -> bytes | None:
    """A picture of the page as png; None where drawing it took longer than the driver waits, on a busy machine."""
    from selenium.common.exceptions import TimeoutException

    try:
        return bytes(driver.get_screenshot_as_png())
    except TimeoutException:
        return None


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait until something holds, by the clock: frames of a browser without a window may stand still."""
    ends = monotonic() + PATIENCE_S
    while monotonic() < ends:
        found = condition()
        if found:
            return found
        sleep(0.1)
    pytest.fail(f"waited {PATIENCE_S:.0f} s for {what}")


def act(driver: Any, how: str, where: str, action: Callable[[Any], object]) -> None:
    """Do something to an element of the page, once it can be done.

    A page draws itself anew whenever it has news. An element that was found may be gone, hidden or covered when its
    turn comes, and the browser says so without having done anything: so the element is sought again.
    """
    from selenium.common.exceptions import (
        ElementNotInteractableException,
        NoSuchElementException,
        StaleElementReferenceException,
        WebDriverException,
    )

    not_yet: tuple[type[WebDriverException], ...] = (
        ElementNotInteractableException,  # also what is covered by something else, which would intercept a click
        NoSuchElementException,
        StaleElementReferenceException,
    )

    def is_done() -> bool:
        try:
            element = driver.find_element(how, where)
            driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
            action(element)
        except not_yet:
            return False
        return True

    wait_for(is_done, f"an element at {where}")
