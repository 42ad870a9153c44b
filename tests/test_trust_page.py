"""The page of what can be trusted names tests that exist, and all cases once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs/trust.md").read_text()
REFERENCE = re.compile(r"`((?:\w+/)*test_\w+)(?:::(\w+))?`")
CASES = re.findall(
    r"\w+",
    """
A1 A2 A3 A5 A6 A7 A8 A9 A10 A11 A13 A14 A15 A16 B2 B3 B4 B5 B6 C1 C2 C3 C4 C5 C6 C7 C9 C10 C12
D1 D2 D3 D4 D5 D7 D9 D10 D11 E1 E3 E4 E5 E6 E7 F1 F2 F3 F4 F6 F7 F8 F9 G1 G2 G3 G4 G5 G6 G7 G8 G9
G10 G11 G13 G14 H1 H3 H4 H5 H7 H8 H9 I2 I3 I4 I5 I6 I7 I9 I10 I11 I12
J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15
""",
)


@pytest.mark.parametrize("file", sorted({file for file, _ in REFERENCE.findall(PAGE)}))
def test_tests_of_the_page_exist(file):
    text = (TESTS / f"{file}.py").read_text()
    for name in {name for other, name in REFERENCE.findall(PAGE) if other == file and name}:
        assert f"def test_{name}(" in text, name


def test_every_case_is_on_the_page():
    found = re.findall(r"\b[A-J]\d{1,2}\b", PAGE.partition("## Faults of")[2])
    assert set(CASES) <= set(found)
