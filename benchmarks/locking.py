"""Locking of tets: the sag of a bar against beam theory, with linear tets and with smoothed ones, and their times.

Bar        1 m long, 0.2 m wide and high, clamped at one end, under its own weight; as many cubes of six tets across as
           the table says, five times as many along. It sags by less than a hundredth of its length.
Reference  Timoshenko's beam: w L⁴ / (8 E I) + w L² / (2 k G A), weight per length w, shear factor k = 5/6.
Sag        Implicit steps that are long against all oscillations lead to the static solution.
Times      An implicit step of 1/60 s of a bar of 4 cells across, bent by gravity, linear and smoothed tets in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import Row, Sizes, interleaved
from benchmarks.papers.experiment import Claim, Experiment, Plot, Table, judged
from impinge.deform.fem import ELEMENTS, Corotated, ElementName
from impinge.deform.implicit.system import ImplicitSystem
from impinge.deform.materials import Material
from impinge.mesh import shapes

LENGTH, SIDE = 1.0, 0.2
YOUNGS_MODULUS, DENSITY = 1e6, 1000.0
POISSON_RATIOS = (0.3, 0.45)
WEAK = 0.1
"""Gravity for small strains [m / s²]."""
LONG = 10.0
"""A step that is long against all oscillations [s]; the slowest takes 1 s."""
LONG_STEPS = 3
FRAME = 1.0 / 60.0
FULL = Sizes(cells=(1, 2, 3, 4, 6), timed=4, rounds=600)
QUICK = Sizes(cells=(1, 2), timed=1, rounds=2)
HALF = 0.5


def run(*, quick: bool = False) -> Experiment:
    """Measure sags, then times."""
    sizes = QUICK if quick else FULL
    ratios = {
        (ratio, kind): [sag(cells, ratio, kind) / beam_sag(ratio) for cells in sizes.cells]
        for ratio in POISSON_RATIOS
        for kind in ELEMENTS
    }
    columns = ("Poisson ratio", "elements", *(f"{cells} across" for cells in sizes.cells))
    rows = [(*key, *row) for key, row in ratios.items()]
    table = Table("sag", "Sag of the bar relative to beam theory", columns, rows)
    return Experiment(
        "locking", "Locking of tets", PROTOCOL, _times(sizes), _claims(sizes, ratios), [table],
        Plot((9.0, 3.6), lambda figure: _draw(figure, sizes.cells, ratios)), quick=quick, source="claim",
    )  # fmt: skip


PROTOCOL = """
A bar of 1 m, 0.2 m wide and high, clamped at one end, sags under weak gravity; the static solution is compared to
Timoshenko's beam. Meshes are cubes of six tets, five times as many along the bar as across. Claims are our own. Times
are those of one implicit step of 1/60 s.
"""


def bar(cells: int, poisson_ratio: float, elements: ElementName) -> Corotated:
    """A bar of ``cells`` cubes across along the axis x."""
    mesh = shapes.tet_box(5 * cells, cells, cells, size=(LENGTH, SIDE, SIDE))
    return Corotated(mesh.vertices, mesh.tets, Material(YOUNGS_MODULUS, poisson_ratio, DENSITY), elements=elements)


def beam_sag(poisson_ratio: float) -> float:
    """Sag of the tip of Timoshenko's beam [m]."""
    weight, area = DENSITY * SIDE**2 * WEAK, SIDE**2
    bending = weight * LENGTH**4 / (8.0 * YOUNGS_MODULUS * SIDE**4 / 12.0)
    shear_modulus = YOUNGS_MODULUS / (2.0 * (1.0 + poisson_ratio))
    return bending + weight * LENGTH**2 / (2.0 * 5.0 / 6.0 * shear_modulus * area)


def sag(cells: int, poisson_ratio: float, elements: ElementName) -> float:
    """Mean sag of the free end [m]."""
    model = bar(cells, poisson_ratio, elements)
    system, x = ImplicitSystem([model]), model.rest.copy()
    ends = model.rest[:, 0]
    for _ in range(LONG_STEPS):
        done = system.step(
            x, np.zeros_like(x), LONG, gravity=(0.0, 0.0, -WEAK), held=ends < ends.min() + 1e-9, tolerance=1e-9,
            linear_tolerance=1e-9,
        )  # fmt: skip
        assert done.converged.all()
    return float((model.rest - x)[ends > ends.max() - 1e-9, 2].mean())


def _times(sizes: Sizes) -> list[Row]:
    """Steps of a bar that bends."""
    candidates: dict[str, Any] = {}
    for kind in ELEMENTS:
        model = bar(sizes.timed, POISSON_RATIOS[0], kind)
        candidates[kind] = _Bending(model).step
        tets = len(model.tets)
    return list(interleaved(f"implicit step, {tets} tets", candidates, [None], rounds=sizes.rounds))


class _Bending:
    """A bar that falls from rest and goes back there after a second."""

    def __init__(self, model: Corotated) -> None:
        self._model, self._system, self._frame = model, ImplicitSystem([model]), 0
        self._held = model.rest[:, 0] < model.rest[:, 0].min() + 1e-9

    def step(self, _: object) -> None:
        if self._frame % 60 == 0:
            self._x, self._v = self._model.rest.copy(), np.zeros_like(self._model.rest)
        self._frame += 1
        self._system.step(self._x, self._v, FRAME, gravity=(0.0, 0.0, -9.81), held=self._held)


def _claims(sizes: Sizes, ratios: dict[tuple[float, ElementName], list[float]]) -> list[Claim]:
    claims = []
    for ratio in POISSON_RATIOS:
        linear, smoothed = ratios[ratio, "linear"], ratios[ratio, "smoothed"]
        claims.append(judged(
            f"Smoothed tets sag more than linear ones and no more than the beam, Poisson ratio {ratio} (ours; here: at "
            "every size)",
            f"linear {_listed(linear)}, smoothed {_listed(smoothed)}",
            all(a < b <= 1.0 for a, b in zip(linear, smoothed)),
        ))  # fmt: skip
        finer = [(1.0 - b) / (1.0 - a) for a, b, count in zip(linear, smoothed, sizes.cells) if count > 1]
        claims.append(judged(
            f"From two cells across, at most half of the lost sag remains, Poisson ratio {ratio} (ours; here: "
            f"{HALF:g} of what linear tets lose)",
            _listed(finer),
            max(finer) <= HALF,
        ))  # fmt: skip
    return claims


def _listed(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


def _draw(figure: Any, cells: tuple[int, ...], ratios: dict[tuple[float, ElementName], list[float]]) -> None:
    panels = figure.subplots(1, len(POISSON_RATIOS), sharey=True)
    for panel, ratio in zip(panels, POISSON_RATIOS):
        for kind, style in zip(ELEMENTS, ("o--", "o-")):
            panel.plot(cells, ratios[ratio, kind], style, label=f'elements="{kind}"')
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.set(title=f"Poisson ratio {ratio}", xlabel="cells across", xticks=cells, ylim=(0.0, 1.05))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("sag of the tip over that of the beam")
    panels[0].legend(loc="lower right")
