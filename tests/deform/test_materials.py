"""Materials: constants, defaults, ranges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from impinge.deform.materials import DAMPING_LENGTH, MATERIALS, Material, material_of
from impinge.errors import OptionError

pytestmark = [pytest.mark.small, pytest.mark.tiny]


def test_elastic_constants():
    """Turn Young's modulus and Poisson's ratio into Lamé's constants and a speed of sound."""
    material = Material(youngs_modulus=2.5, poisson_ratio=0.25, density=3.0)

    assert material.lame_lambda == pytest.approx(1.0)
    assert material.lame_mu == pytest.approx(1.0)
    assert material.wave_speed == pytest.approx(1.0)


@pytest.mark.parametrize("nu", [-0.5, 0.0, 0.3, 0.49])
def test_damping_by_default(nu):
    """Derive damping from elasticity: never negative, zero only on request."""
    material = Material(1e4, nu, 1000.0)
    travel_time = DAMPING_LENGTH / material.wave_speed

    assert material.damping_shear == pytest.approx(travel_time * material.lame_mu)
    assert material.damping_dilation == pytest.approx(travel_time * max(material.lame_lambda, 0.0))
    assert Material(1e4, nu, 1000.0, 0.0, 0.0).damping_shear == 0.0


def test_presets_are_of_the_right_order():
    """Have rubber stiffer than liver, liver stiffer than jelly, all about as heavy as water."""
    moduli = [MATERIALS[name].youngs_modulus for name in ("rubber", "liver", "jelly")]

    assert moduli == sorted(moduli, reverse=True)
    assert all(900.0 < material.density < 1300.0 for material in MATERIALS.values())
    assert material_of("liver") is MATERIALS["liver"]
    assert material_of(MATERIALS["liver"]) is MATERIALS["liver"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0.0, 0.3, 1000.0), r"youngs_modulus is 0.0, expected a positive number \[Pa\]"),
        ((math.nan, 0.3, 1000.0), "youngs_modulus is nan, expected a positive number"),
        (("stiff", 0.3, 1000.0), "youngs_modulus is 'stiff', expected a positive number"),
        ((1e4, 0.5, 1000.0), "poisson_ratio is 0.5, expected a number above -1 and below 0.5; use 0.45"),
        ((1e4, -1.0, 1000.0), "poisson_ratio is -1.0, expected a number above -1"),
        ((1e4, 0.3, -1.0), r"density is -1.0, expected a positive number \[kg/m³\]"),
        ((1e4, 0.3, 1.0, -1.0), r"damping_dilation is -1.0, expected a number of at least 0 \[Pa s\]"),
        ((1e4, 0.3, 1.0, 1.0, math.inf), "damping_shear is inf, expected a number of at least 0"),
        ((10**400, 0.3, 1000.0), "youngs_modulus is 10+.*, expected a positive number"),
        ((True, 0.3, 1000.0), "youngs_modulus is True, expected a positive number"),
        ((1e308, 0.4999999, 1e-300), "has Lamé constants beyond the range of doubles; choose other units"),
    ],
)
def test_nonsense_is_refused(arguments, sentence):
    """Refuse numbers outside of their range, saying which and what was expected."""
    with pytest.raises(OptionError, match=sentence):
        Material(*arguments)


@pytest.mark.parametrize("name", ["granite", None, 5.0])
def test_unknown_names_are_refused(name):
    """List the presets in the error about an unknown name."""
    with pytest.raises(OptionError, match="expected any of rubber, liver, jelly, or a Material"):
        material_of(name)


def test_numbers_of_any_type_become_doubles():
    """Take whole numbers and those of NumPy as what they are worth; kernels are compiled for doubles alone."""
    material = Material(np.float32(5000.0), 0, np.int64(1000), 0, np.uint8(3))

    assert material == Material(5000.0, 0.0, 1000.0, 0.0, 3.0)
    assert {type(value) for value in vars(material).values()} == {float}
