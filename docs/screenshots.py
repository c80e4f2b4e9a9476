"""The pictures of the README: the page, light and dark, and a command in a terminal.

    pip install '.[browser]'
    python docs/screenshots.py

Chromium takes them; each is well under 200 kB.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

IMAGES = Path(__file__).parent / "images"
COMMAND = ("params", "mixtral-8x7b")
#: columns of the terminal
COLUMNS = 92
#: pictures: their addresses, sizes and schemes
PAGES = {
    "page": ("#m=gpt2", (1240, 820), "light"),
    "page-weights": ("#m=gpt2", (1240, 970), "light"),
    "page-two": ("#m=llama-3-8b|m=deepseek-v3&phase=decode", (1240, 900), "dark"),
}


def terminal(browser: Browser) -> None:
    """A command's colours as rich draws them, set in the browser's own monospaced letters."""
    environment = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "PATH": str(Path(sys.executable).parent)}
    run = ["gptcalc", *COMMAND]
    out = subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout
    console = Console(width=COLUMNS, record=True, file=StringIO())
    console.print(Text.from_ansi(f"$ {' '.join(run)}\n{out}"))
    drawn = console.export_html(theme=MONOKAI, inline_styles=True, code_format="<pre style='font:inherit'>{code}</pre>")
    font = "font:14px/1.35 'DejaVu Sans Mono',monospace"
    style = f"padding:1px 20px;background:#0c0c0c;color:#d9d9d9;{font};width:max-content"
    page = browser.new_page(viewport={"width": 1000, "height": 700}, device_scale_factor=1.5)
    page.set_content(f'<body style="margin:0"><div id="all" style="{style}">{drawn}</div>')
    page.locator("#all").screenshot(path=IMAGES / "terminal.png")


def pages(browser: Browser, file: Path) -> None:
    for name, (address, (width, height), scheme) in PAGES.items():
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{file.as_uri()}{address}")
        page.wait_for_selector(".picture")
        if "|" in address:  # two models: where they differ
            for fold in page.locator(".controls summary").all():
                fold.click()
            page.evaluate("document.querySelector('.drawing').scrollIntoView()")
        if name == "page-weights":
            page.locator(".origin summary").click()
            page.evaluate("document.querySelector('.origin').scrollIntoView()")
        page.screenshot(path=IMAGES / f"{name}.png")
        context.close()


def main() -> None:
    """Take them all."""
    IMAGES.mkdir(exist_ok=True)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        subprocess.run(
            [sys.executable, "-m", "gptcalc", "page", "gpt2", "llama-3-8b", "deepseek-v3", "-o", str(file)], check=True
        )
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        terminal(browser)
        pages(browser, file)
        browser.close()


if __name__ == "__main__":
    main()
