"""What the browser tests need: Playwright, axe-core and a reader of PDF from pip, and Debian's Chromium.

`python -m tests.browser.install` installs what is missing where it may, and says how where it may not. It ends with
status 0 if the tests can run, and 3 if they cannot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

PACKAGES = {
    "playwright": "playwright>=1.49",
    "axe_playwright_python": "axe-playwright-python>=0.1.4",
    "pypdfium2": "pypdfium2>=4.30",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 240  # most for one step
NOT_READY = 3


def browser() -> str | None:
    """The path of a Chromium, or the one named by the variable CHROMIUM."""
    named = os.environ.get("CHROMIUM")
    return named if named else next((path for name in BROWSERS if (path := shutil.which(name))), None)


def _run(*command: str) -> bool:
    try:
        done = subprocess.run(command, timeout=SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}")
        return False
    if done.returncode:
        print(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return done.returncode == 0


def packages() -> bool:
    """Install what is missing from pip."""
    missing = [asked for name, asked in PACKAGES.items() if find_spec(name) is None]
    return not missing or _run(sys.executable, "-m", "pip", "install", "--quiet", *missing)


def chromium() -> bool:
    """Install Debian's Chromium as root, if there is none."""
    if browser() is not None:
        return True
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    install = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium")
    return (_run(*install) or (_run("apt-get", "update", "--quiet") and _run(*install))) and browser() is not None


def main() -> int:
    """Prepare the tests, or say what is missing."""
    if not packages():
        print("Browser tests are left out: pip could not install " + ", ".join(PACKAGES.values()))
        return NOT_READY
    if not chromium():
        print("Browser tests are left out: install Chromium (Debian: apt-get install chromium), or set CHROMIUM=path")
        return NOT_READY
    print(f"Browser tests use {browser()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
