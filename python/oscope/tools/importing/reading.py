"""Recognises the format of a file of another tool by its content, and reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from oscope.model.errors import UsageError
from oscope.model.file_kinds import check_readable_to_its_end
from oscope.tools.importing import json_formats as formats
from oscope.tools.importing import text_formats
from oscope.tools.importing.lmbench import is_lmbench, lmbench
from oscope.tools.importing.value import Imported, Series, WrongFileError

Format = Literal["hyperfine", "pyperf", "google-benchmark", "criterion", "fio", "perf-stat", "lmbench"]
_MOST_BYTES = 256 * 2**20
_JSON: dict[str, tuple[Callable[[dict[str, Any]], bool], Callable[[Any], Imported]]] = {
    "hyperfine": (lambda d: isinstance(d.get("results"), list), formats.hyperfine),
    "google-benchmark": (lambda d: "context" in d and "benchmarks" in d, formats.google_benchmark),
    "pyperf": (lambda d: "benchmarks" in d, formats.pyperf),
    "fio": (lambda d: "jobs" in d, formats.fio),
}
_REMEDY = (
    "give the whole file as hyperfine, pyperf, Google Benchmark, criterion, fio, perf stat or lmbench "
    "wrote it, or the right --format"
)


def read(path: Path, requested: Format | None = None) -> Imported:
    """Read a file, or criterion's folder, of the format `requested`; None: what its content shows.

    Raises UsageError in one line where it is unreadable, cut short, or of no known format.
    """
    try:
        found = _folder(path) if path.is_dir() else _file(path, requested)
        if not any(series.readings for series in found.series):
            raise WrongFileError("it has no measurement")  # noqa: TRY301 - reported like all else.
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", remedy="name a file that can be read") from None
    except WrongFileError as error:
        raise UsageError(f"{path}: {error}", remedy=_REMEDY) from None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{path}: it has another form than the tool's ({error!r})", remedy=_REMEDY) from None
    return found


def _file(path: Path, requested: Format | None) -> Imported:
    check_readable_to_its_end(path, remedy=_REMEDY)
    with path.open("rb") as file:
        raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise WrongFileError("it is larger than 256 MiB")
    text = raw.decode(errors="replace")
    if requested in ("perf-stat", "lmbench"):
        return _text(text, requested)
    data, why = _parse(text)
    if data is None:
        if requested is None and (known := _text_format(text)) is not None:
            return _text(text, known)
        raise WrongFileError(_no_json(text, why))
    if requested is not None and requested != "criterion":
        return _JSON[requested][1](data)
    if "event" in data and "counter-value" in data:
        return _text(text, "perf-stat")
    if requested == "criterion" or "iters" in data or "mean" in data:
        return _criterion([path], path.parent)
    for recognised, reader in _JSON.values():
        if recognised(data):
            return reader(data)
    raise WrongFileError("its JSON is of no tool that is known")


def _parse(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the JSON object of a text, or None and why there is none."""
    # fio writes its warnings before the object.
    begin = text.find("{\n") if text[:5] in ("note:", "fio: ") else 0
    try:
        data = json.loads(text[max(begin, 0) :])
    except (ValueError, RecursionError) as error:
        return None, str(error)
    return (data, "") if isinstance(data, dict) else (None, "not an object")


def _no_json(text: str, why: str) -> str:
    """Say why a text is no result: it is no JSON at all, or JSON that was cut short or damaged."""
    if text.lstrip()[:1] in ("{", "["):
        return f"its JSON cannot be read ({why})"
    if "Performance counter stats for" in text:
        return "it is the table that perf stat prints for people, not what it writes with -j or -x"
    return "it is neither JSON nor the output of a tool that import reads"


def _text_format(text: str) -> Format | None:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and all('"counter-value"' in line or '"metric-value"' in line for line in lines):
        return "perf-stat"
    if lines and all(line.count(",") >= 3 or line.count(";") >= 3 for line in lines) and "{" not in text:
        return "perf-stat"
    return "lmbench" if any(is_lmbench(line) for line in lines) else None


def _text(text: str, known: Format) -> Imported:
    if known == "lmbench":
        return lmbench(text)
    as_json = '"counter-value"' in text
    return text_formats.perf(text_formats.perf_json(text) if as_json else text_formats.perf_csv(text))


def _folder(path: Path) -> Imported:
    """Read the newest results of all benchmarks below criterion's folder."""
    files = sorted(path.glob("**/new/sample.json")) or sorted(path.glob("**/new/estimates.json"))
    if not files:
        raise WrongFileError("the folder has no new/sample.json of criterion")
    return _criterion(files, path)


def _criterion(files: list[Path], top: Path) -> Imported:
    series: list[Series] = []
    only_means = False
    for file in files:
        data, why = _parse(file.read_text(errors="replace"))
        if data is None:
            raise WrongFileError(f"{file.name}: its JSON cannot be read ({why})")
        name = _criterion_name(file, top)
        if "iters" in data:
            series.append(formats.criterion_sample(data, name))
        else:
            only_means = True
            series.append(formats.criterion_estimates(data, name))
    return formats.criterion(tuple(series), only_means=only_means)


def _criterion_name(file: Path, top: Path) -> str:
    """Return the benchmark's own id, where it is beside the file, else its folder's name."""
    beside = file.with_name("benchmark.json")
    data = _parse(beside.read_text(errors="replace"))[0] if beside.is_file() else None
    if data is not None and isinstance(data.get("full_id"), str):
        return str(data["full_id"])
    folder = file.parent.parent if file.parent.name in ("new", "base") else file.parent
    return folder.relative_to(top).as_posix() if folder.is_relative_to(top) and folder != top else folder.name
