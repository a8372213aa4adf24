"""Contacts within a budget, and forces from whatever is known when it is over."""

from __future__ import annotations

import impinge


def main(budgets: tuple[int, ...] = (200, 2_000, 20_000)) -> list[impinge.SphereContacts]:
    """Ask with more and more tests; forces can be had wherever the search was stopped."""
    a = impinge.shapes.icosphere(5)
    b = impinge.shapes.icosphere(5, center=(1.8, 0.0, 0.0))
    detector = impinge.SphereTree(a, b)
    answers = [detector.query(max_tests=tests) for tests in budgets] + [detector.query()]
    for found in answers:
        push = impinge.penalty(found, a.vertices, b.vertices, stiffness=100.0)
        x, y, z = push.force_b.sum(axis=0)
        print(f"{len(found.certain)} certain, {len(found.possible)} possible; force {x:.3g} {y:.3g} {z:.3g}")
    return answers


def check() -> None:
    """More time only adds to what is certain, and without a budget nothing is left open."""
    answers = main()
    certain = [len(found.certain) for found in answers]
    assert certain == sorted(certain)
    assert not answers[0].complete
    assert answers[-1].complete and len(answers[-1].possible) == 0


if __name__ == "__main__":
    main()
