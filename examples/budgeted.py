"""Find contacts within a budget, and compute penalty forces from them."""

from __future__ import annotations

import impinge


def main(budgets: tuple[int, ...] = (200, 2_000, 20_000)) -> list[impinge.SphereContacts]:
    """Query with increasing numbers of tests; compute forces after each."""
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
    """Require certain contacts to grow with the budget, and a complete result without one."""
    answers = main()
    certain = [len(found.certain) for found in answers]
    assert certain == sorted(certain)
    assert not answers[0].complete
    assert answers[-1].complete and len(answers[-1].possible) == 0


if __name__ == "__main__":
    main()
