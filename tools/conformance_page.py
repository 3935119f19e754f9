"""Composes docs/fs-conformance.md from the stored results of the outside suites."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from conformance_causes import BY_DESIGN, SFTP_LIMITS
from conformance_results import HANGS, Result, Results

REASONS = {
    r"EPERM|is_ok\(\)": "cannot make a special file (no mknod)",
    r"ctime|[Tt]imestamp|tv_nsec|atime|mtime": "whole seconds only, or no time of change",
    r"left: 1|nlink": "no number of links",
}
"""By what a failed test of pjdfstest reports, the reason where SFTP is in between."""
OURS = ("helper", "sftp")
XFSTESTS = "## xfstests, generic/quick"
DEFECT = "defect of oscope-fs, or not yet explained:"
ABOUT = (
    "Written by `make conformance`, as root; the server is OpenSSH's sshd on the same machine; "
    "NFS is the kernel's on both sides, in a guest. "
    "[pjdfstest](https://crates.io/crates/pjdfstest) 0.2.2, [fsx](https://crates.io/crates/fsx) 0.3.2 and "
    "[xfstests](https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git/) are not ours. A test that fails "
    "through SFTP and passes with a [helper](reference/fs.md#a-helper-on-the-server) fails by what SFTP "
    "version 3 cannot say: program, kernel and disk are the same ones. A test that fails with a helper and "
    "passes on the server's own file system is a defect of oscope-fs, unless the failure is by design: then "
    "the reason stands here."
)


def reason(output: str) -> str:
    """Return why a test of pjdfstest fails through SFTP."""
    return next((why for pattern, why in REASONS.items() if re.search(pattern, output)), "other")


def defects(found: Results) -> list[str]:
    """Return the tests that fail with a helper, pass on the local file system, and have no other known cause.

    A test of xfstests that fails by SFTP alone counts too, unless its cause is a known limit of SFTP.
    """
    named: set[str] = set()
    for suite in ("pjdfstest", "fsx"):
        results = found.get(suite, {})
        if "helper" in results and "local" in results:
            named |= results["helper"].failed.keys() - results["local"].failed.keys()
    results = found.get("xfstests", {})
    local = results["local"].failed if "local" in results else {}
    known = {"helper": BY_DESIGN.keys(), "sftp": BY_DESIGN.keys() | SFTP_LIMITS.keys()}
    for key, causes in known.items():
        if key in results:
            failed = results[key].failed
            # The same failure: a test may fail on the local file system by something else.
            named |= {name for name, text in failed.items() if local.get(name) != text} - causes
    return sorted(named)


def kept(published: str) -> str:
    """Return the part of a published page that has the results of xfstests; "" where it shows a defect."""
    _, heading, part = published.partition(f"\n{XFSTESTS}\n")
    return "" if DEFECT in part else heading + part


def missing(found: Results, published: str = "") -> list[str]:
    """Return the suites and file systems whose results the published page has to have, and `found` lacks.

    `published` are results of xfstests that need not be found again.
    """
    return [
        f"{suite} on {key}"
        for suite in ("pjdfstest", "fsx", *(() if published else ("xfstests",)))
        for key in ("local", "helper", "sftp")
        if key not in found.get(suite, {})
    ]


def page(found: Results, names: Mapping[str, str]) -> str:
    """Return the page; `names` has the file systems in their order."""
    wrong = defects(found)
    lines = [
        "# File systems, held to POSIX by outside suites",
        "",
        ABOUT,
        "",
        f"Defects of oscope-fs that the suites show: {len(wrong)}.",
        *(f"- `{name}`" for name in wrong),
        "",
    ]
    lines += _posix(found, names)
    if "xfstests" in found:
        lines += _xfstests(found["xfstests"], names)
    return "\n".join(lines).rstrip() + "\n"


def _when(results: Iterable[Result]) -> str:
    """Return the dates and kernels of results."""
    return "; ".join(sorted({f"{result.date}, {result.kernel}" for result in results}))


def _posix(found: Results, names: Mapping[str, str]) -> Iterator[str]:
    """Give the table of pjdfstest and fsx, and why tests of pjdfstest fail."""
    results, fsx, original = (found.get(suite, {}) for suite in ("pjdfstest", "fsx", "original"))
    if not (results or fsx or original):
        return
    heads = ["file system", "pjdfstest passed", "failed", "skipped", "fsx"]
    heads += ["original pjdfstest"] if original else []
    yield "## pjdfstest and fsx"
    yield ""
    yield (
        f"Run on {_when([*results.values(), *fsx.values(), *original.values()])}. Skipped is what this "
        "machine cannot do on any file system (flags of BSD, mounting read-only anew), or what one does not "
        "offer."
    )
    yield ""
    yield from _head(heads)
    for key, name in names.items():
        if key not in results and key not in fsx and key not in original:
            continue
        cells: list[object] = [name, *(_counts(results[key]) if key in results else ("", "", ""))]
        cells.append(fsx[key].summary if key in fsx else "")
        cells += [original[key].summary if key in original else ""] if original else []
        yield _row(cells)
    yield ""
    if "helper" in results and "sftp" in results:
        yield from _pjdfstest_failures(results)


def _pjdfstest_failures(results: Mapping[str, Result]) -> Iterator[str]:
    """Say why each test of pjdfstest fails on oscope-fs."""
    helper, sftp = results["helper"], results["sftp"]
    local = results["local"].failed if "local" in results else {}
    ours = sorted(helper.failed.keys() - local.keys())
    yield f"- Fail with a helper but not on the server's own file system (defects of oscope-fs): {len(ours)}."
    yield from (f"  - `{name}`: {helper.failed[name]}" for name in ours)
    yield f"- Fail by SFTP alone: {len(sftp.failed.keys() - helper.failed.keys())}, for these reasons:"
    why = Counter(reason(output) for name, output in sftp.failed.items() if name not in helper.failed)
    yield from (f"  - {text}: {count}" for text, count in why.most_common())
    yield ""
    for key, title in (("sftp", "oscope-fs, SFTP"), ("sshfs", "sshfs"), ("nfs", "NFS")):
        if key not in results or not results[key].failed:
            continue
        failed = results[key].failed
        yield f"<details><summary>Failed tests, {title}: {len(failed)}</summary>"
        yield ""
        for name, output in sorted(failed.items()):
            # The reasons are those of oscope-fs; why a peer fails was not examined.
            because = HANGS if output == HANGS else reason(output) if key == "sftp" else ""
            yield f"- `{name}`: {because}" if because else f"- `{name}`"
        yield ""
        yield "</details>"
        yield ""


def _xfstests(results: Mapping[str, Result], names: Mapping[str, str]) -> Iterator[str]:
    """Give what xfstests found."""
    order = [key for key in names if key in results]
    yield XFSTESTS
    yield ""
    yield (
        f"Run on {_when(results.values())}. The server keeps the files on an ext4 of its own. On ext4 "
        "itself, without a network, and on NFS only those tests are run that any of the others could run."
    )
    yield ""
    yield from _head(["file system", "passed", "failed", "not run", "not reached (interrupted)"])
    for key in order:
        yield _row([names[key], *_counts(results[key]), len(results[key].left)])
    yield ""
    for key in order:
        if results[key].again:
            names_again = ", ".join(name.removeprefix("generic/") for name in results[key].again)
            yield f"Run again later than the others, {names[key]}: {names_again}."
            yield ""
    failed = sorted({name for result in results.values() for name in result.failed})
    yield f"### Failed tests of xfstests: {len(failed)}"
    yield ""
    yield "A cause is given for oscope-fs; why a peer fails was not examined."
    yield ""
    yield from _head(["test", *(names[key] for key in order), "cause"])
    for name in failed:
        yield _row([f"`{name}`", *(_verdict(results[key], name) for key in order), _cause(results, name)])
    yield ""
    yield "### Tests of xfstests that were not run"
    yield ""
    yield "The reasons are those that xfstests prints."
    yield ""
    for key in order:
        if results[key].skipped:
            yield from _skipped(results[key], names[key])


def _verdict(result: Result, name: str) -> str:
    if name in result.failed:
        return "hangs" if result.failed[name] == HANGS else "failed"
    if name in result.passed:
        return "passed"
    return "not reached" if name in result.left else "not run"


def _cause(results: Mapping[str, Result], name: str) -> str:
    """Return why oscope-fs fails a test; where that is not known, what the test reports."""
    ours = [key for key in OURS if key in results and name in results[key].failed]
    if not ours:
        return ""
    output = results[ours[0]].failed[name]
    if "local" in results and results["local"].failed.get(name) == output:
        return "fails on the server's own file system too"
    if name in BY_DESIGN:
        return BY_DESIGN[name]
    if ours == ["sftp"] and name in SFTP_LIMITS:
        return SFTP_LIMITS[name]
    if results[ours[0]].failed[name] == HANGS:
        return f"{DEFECT} did not end within the time limit"
    output = results[ours[0]].failed[name].replace("|", "\\|").replace("`", "'")
    return f"{DEFECT} `{output[:160]}`"


def _skipped(result: Result, title: str) -> Iterator[str]:
    """Group the tests that were not run by the reason."""
    groups: dict[str, list[str]] = {}
    for name, why in result.skipped.items():
        groups.setdefault(why, []).append(name.removeprefix("generic/"))
    yield f"<details><summary>{title}: {len(result.skipped)}</summary>"
    yield ""
    for why, tests in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        yield f"- {why.replace('<', '&lt;')} ({len(tests)}): {', '.join(sorted(tests))}"
    yield ""
    yield "</details>"
    yield ""


def _counts(result: Result) -> Sequence[object]:
    return len(result.passed), len(result.failed), len(result.skipped)


def _head(cells: Sequence[object]) -> Iterator[str]:
    yield _row(cells)
    yield f"|{'---|' * len(cells)}"


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
