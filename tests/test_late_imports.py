"""The check of late imports finds them, with their reasons, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import late_imports


def found(source: str) -> list[tuple[int, str | None]]:
    return [(each.line, each.reason) for each in late_imports.late_imports(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a\nif TYPE_CHECKING:\n    from b import c\n", []),
        ("def f():\n    import a  # noqa: PLC0415 - half a second\n", [(2, "half a second")]),
        ("def f():\n    import a  # noqa: PLC0415\n", [(2, None)]),
        (
            "class A:\n    import a\n    async def f(self):\n        if x:\n            from b import c\n",
            [(5, None)],
        ),
        ("found = import_module(names[0])  # late import: start-up\n", [(1, "start-up")]),
        ('importlib.import_module(\n    f"oscope.{name}"\n)\n', [(1, None)]),
        ('import_module("oscope.a")\nimport_module("virtme.a")\n', [(1, None)]),
        ("def f():\n    return 1  # noqa: PLC0415 - nothing\n", []),
    ],
)
def test_late_imports_and_their_reasons(source: str, expected: list[tuple[int, str | None]]) -> None:
    assert found(source) == expected


def test_too_many_and_those_without_a_reason_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(late_imports, "ROOT", tmp_path)
    module = tmp_path / "python" / "oscope" / "a.py"
    module.parent.mkdir(parents=True)
    line = "    import a  # noqa: PLC0415 - start-up\n"
    module.write_text("def f():\n" + line * (late_imports.MOST - 1))
    assert late_imports.main() == 0
    module.write_text("def f():\n    import a\n" + line * (late_imports.MOST - 1))
    assert late_imports.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "python/oscope/a.py:2: a late import without its reason",
        "40 late imports: at most 39 are allowed",
    ]
