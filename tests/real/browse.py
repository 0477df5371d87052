"""What a browser makes of a report's page: ``PYTHON browse.py CHROMIUM PAGE`` prints it as JSON.

Runs in an environment of its own, without this project. CHROMIUM is the directory of the npm package
@sparticuz/chromium.
"""

import json
import sys
from pathlib import Path

import brotli
from playwright.sync_api import Page, sync_playwright

WIDTHS = (1280, 390)
# What reaches beyond the window, and is not in a box that scrolls or cuts.
TOO_WIDE = """() => [...document.querySelectorAll("body *")].filter((element) => {
  const place = element.getBoundingClientRect();
  if (!place.width || place.right <= innerWidth + 1) return false;
  for (let outer = element.parentElement; outer; outer = outer.parentElement)
    if (getComputedStyle(outer).overflowX !== "visible") return false;
  return true;
}).map((element) => element.outerHTML.slice(0, 200))"""


def unpack(package: Path) -> Path:
    """The browser in the package, which has it compressed. Fonts are this machine's."""
    browser = package / "chromium"
    if not browser.exists():
        partial = package / "chromium.partial"
        partial.write_bytes(brotli.decompress((package / "bin/chromium.br").read_bytes()))
        partial.chmod(0o755)
        partial.rename(browser)
    return browser


def explore(page: Page) -> dict:
    """The explorer: what it shows for each family of the first split, and what its link leads back to."""
    shown = {}
    for family in page.locator("#choose-family option").all():
        page.select_option("#choose-family", family.get_attribute("value"))
        drawn = page.locator("#plot-density svg path").count()
        shown[family.inner_text()] = [page.inner_text("#prompt-text"), page.locator("#results tr").count(), drawn]
    link = page.get_attribute("#permalink", "href")
    page.goto(page.url.split("#")[0] + link)
    page.reload(wait_until="load")
    return {"shown": shown, "linked": page.inner_text("#prompt-text")}


def main(package: Path, report: Path) -> None:
    """Print what was found."""
    found: dict = {"errors": [], "too_wide": {}, "plots": {}}
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--no-zygote", "--disable-gpu"]
        chromium = playwright.chromium.launch(executable_path=str(unpack(package)), args=options)
        page = chromium.new_page()
        page.on("pageerror", lambda error: found["errors"].append(str(error)))
        page.on("console", lambda said: found["errors"].append(said.text) if said.type == "error" else None)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(report.resolve().as_uri(), wait_until="load")
            page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            found["too_wide"][width] = page.evaluate(TOO_WIDE)
            for plot in page.locator(".plot[data-figure]").all():
                plot.scroll_into_view_if_needed()
                found["plots"][plot.get_attribute("data-figure")] = plot.locator("svg path").count()
        found["explorer"] = explore(page)
        chromium.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
