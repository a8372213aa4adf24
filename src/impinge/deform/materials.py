"""Materials of soft bodies: stiffness, density and damping, in SI units.

Symbols     E  Young's modulus, ν  Poisson's ratio, ρ  density
            λ = E ν / ((1 + ν)(1 - 2 ν)),  μ = E / (2 (1 + ν))     Lamé's constants
            φ, ψ   viscosities: they relate stress to the rate of strain as λ and μ do to strain ([OBrienHodgins1999])
            c = √((λ + 2 μ) / ρ)     speed of pressure waves
Damping     Where φ and ψ are not given, they are λ and μ times the time in which a pressure wave travels
            ``DAMPING_LENGTH``: a wave of length Λ then loses, per radian, the share 2π · DAMPING_LENGTH / Λ of the
            stress that it carries. Sound in a body of 20 cm decays within some oscillations, and a stable step is
            hardly shorter than without damping. 0 for both disables damping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from impinge.checks import as_number, shown
from impinge.errors import OptionError

DAMPING_LENGTH = 0.002
"""Default distance of a pressure wave in the time that relates viscous to elastic stress [m]."""


@dataclass(frozen=True)
class Material:
    """An elastic, viscous, isotropic material."""

    youngs_modulus: float
    """Stress per strain under uniaxial tension [Pa]; positive."""
    poisson_ratio: float
    """Lateral contraction of a stretched bar relative to its extension; above -1 and below 0.5 (incompressible)."""
    density: float
    """Mass per volume [kg / m³]; positive."""
    damping_dilation: float = None  # type: ignore[assignment]  # None becomes a number when the object is made
    """φ: viscosity against changes of volume [Pa s]; by default from the elastic constants."""
    damping_shear: float = None  # type: ignore[assignment]
    """ψ: viscosity against changes of shape [Pa s]; by default from the elastic constants."""

    def __post_init__(self) -> None:
        def check(name: str, expected: str, **limits: float) -> None:
            object.__setattr__(self, name, as_number(getattr(self, name), name, expected, **limits))

        check("youngs_modulus", "a positive number [Pa]", above=0.0, below=math.inf)
        check("density", "a positive number [kg/m³]", above=0.0, below=math.inf)
        nearly = "use 0.45 to 0.49 for nearly incompressible materials"
        check("poisson_ratio", f"a number above -1 and below 0.5; {nearly}", above=-1.0, below=0.5)
        if not (self.lame_mu > 0.0 and math.isfinite(self.lame_lambda + self.wave_speed)):
            raise OptionError(f"{self} has Lamé constants beyond the range of doubles; choose other units")
        travel_time = DAMPING_LENGTH / self.wave_speed
        for name, elastic in (("damping_dilation", max(self.lame_lambda, 0.0)), ("damping_shear", self.lame_mu)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, travel_time * elastic)
            check(name, "a number of at least 0 [Pa s]", least=0.0, below=math.inf)

    @property
    def lame_lambda(self) -> float:
        """λ: stress per change of volume, shape kept [Pa]; negative where Poisson's ratio is."""
        nu = self.poisson_ratio
        return self.youngs_modulus * nu / ((1.0 + nu) * (1.0 - 2.0 * nu))

    @property
    def lame_mu(self) -> float:
        """μ, the shear modulus: half the stress per change of shape [Pa]."""
        return self.youngs_modulus / (2.0 * (1.0 + self.poisson_ratio))

    @property
    def wave_speed(self) -> float:
        """Speed of pressure waves, the fastest waves [m / s]."""
        return math.sqrt((self.lame_lambda + 2.0 * self.lame_mu) / self.density)


MATERIALS: dict[str, Material] = {
    "rubber": Material(youngs_modulus=1.5e6, poisson_ratio=0.47, density=1100.0),
    "liver": Material(youngs_modulus=5e3, poisson_ratio=0.45, density=1060.0),
    "jelly": Material(youngs_modulus=2e3, poisson_ratio=0.45, density=1020.0),
}
"""Materials by name. Soft tissue and gels vary by factors; these are round numbers of the right order."""


def material_of(name_or_material: Any) -> Material:
    """The material itself, or the preset of that name."""
    if isinstance(name_or_material, Material):
        return name_or_material
    if isinstance(name_or_material, str) and name_or_material in MATERIALS:
        return MATERIALS[name_or_material]
    known = ", ".join(MATERIALS)
    raise OptionError(f"no material {shown(name_or_material)}; expected any of {known}, or a Material(...)")


def materials_of(material: Any, count: int) -> tuple[tuple[Material, ...], NDArray[np.int64]]:
    """Distinct materials, in the order of their first tet, and the index of each tet's among them.

    ``material`` is one for all tets, or a sequence with one for each of ``count`` tets.
    """
    is_listed = isinstance(material, Sequence) and not isinstance(material, str)
    if not is_listed and not (isinstance(material, np.ndarray) and material.ndim > 0):
        return (material_of(material),), np.zeros(count, dtype=np.int64)
    if len(material) != count:
        raise OptionError(f"there are {len(material)} materials for {count} tets; pass one, or one for each tet")
    number: dict[Material, int] = {}
    index = np.array([number.setdefault(material_of(each), len(number)) for each in material], dtype=np.int64)
    return tuple(number), index


def mean_material(materials: Sequence[Material], volumes: NDArray[np.float64]) -> Material:
    """Mean of all constants, weighted by the volume of each material; a single material is returned as it is."""
    if len(materials) == 1:
        return materials[0]
    return Material(*np.average([astuple(each) for each in materials], axis=0, weights=volumes).tolist())
