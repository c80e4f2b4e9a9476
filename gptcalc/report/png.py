"""An image as PNG: the shapes of the SVG, drawn by matplotlib (extra: plot). What is drawn has one home."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from gptcalc.errors import InputError

if TYPE_CHECKING:
    from matplotlib.artist import Artist

#: of a picture's units; a bitmap has twice as many points as units, for sharp text
INCH, SHARPNESS = 100, 2
ALIGNED = {"start": "left", "middle": "center", "end": "right"}
STEP = re.compile(r"([MLHV])([\d.-]+)(?: ([\d.-]+))?")


def bitmap(image: str) -> bytes:
    """A PNG file of an SVG made here. InputError where matplotlib is missing."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        problem = "--format png: matplotlib is not installed"
        raise InputError(problem, "pip install 'gptcalc[plot]', or -o FILE.svg", "usage") from None
    from io import BytesIO
    from warnings import catch_warnings, simplefilter

    root = ElementTree.fromstring(image)
    width, height = (int(n) for n in root.get("viewBox", "").split()[2:])
    written = BytesIO()
    with rc_context(), catch_warnings():
        simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        figure = Figure((width / INCH, height / INCH), dpi=INCH * SHARPNESS)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        for order, shape in enumerate(root):
            if not shape.tag.endswith("title"):
                artist = _artist(shape, width, height, int(root.get("font-size", "")))
                artist.set_zorder(order)
                axes.add_artist(artist)
        FigureCanvasAgg(figure).print_png(written, metadata={"Software": None})
    return written.getvalue()


def _artist(shape: ElementTree.Element, width: int, height: int, font: int) -> Artist:
    """What matplotlib draws of a shape."""
    from matplotlib.patches import Circle, PathPatch, Rectangle
    from matplotlib.path import Path
    from matplotlib.text import Text

    def at(key: str) -> float:
        return float(shape.get(key, "0"))

    fill: dict[str, Any] = {"facecolor": shape.get("fill", "none"), "edgecolor": shape.get("stroke", "none")}
    match shape.tag.rpartition("}")[2]:
        case "rect" if shape.get("width") == "100%":
            return Rectangle((0, 0), width, height, **fill)
        case "rect":
            return Rectangle((at("x"), at("y")), at("width"), at("height"), **fill)
        case "circle":
            return Circle((at("cx"), at("cy")), at("r"), **fill)
        case "path":
            return PathPatch(Path(_corners(shape.get("d", ""))), linewidth=72 / INCH, **fill)
        case "text":
            size = float(shape.get("font-size", font)) * 72 / INCH
            aligned: Any = ALIGNED[shape.get("text-anchor", "start")]
            return Text(at("x"), at("y"), shape.text or "", fontsize=size, ha=aligned, va="baseline", parse_math=False)
        case name:
            raise ValueError(f"no shape {name}")


def _corners(path: str) -> list[tuple[float, float]]:
    """The ends of a path's straight lines."""
    found = [(0.0, 0.0)]
    for letter, one, two in STEP.findall(path):
        x, y = found[-1]
        found.append({"H": (float(one), y), "V": (x, float(one))}.get(letter) or (float(one), float(two)))
    return found[1:]
