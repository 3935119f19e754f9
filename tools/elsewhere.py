"""Write python/oscope/report/elsewhere.json: the figures of a survey that reports of other machines show.

    oscope export RUN --format json -o survey.json
    python tools/elsewhere.py survey.json

Take the survey on a machine that does nothing else; figures whose interval is wide are left out.
"""

from __future__ import annotations

import sys

from oscope.model.atomic_write import write_bytes
from oscope.report import elsewhere
from oscope.report.machine import date
from oscope.storage import record


def main(path: str) -> None:
    """Write the file from the record at `path`."""
    results = record.read(path)
    source = f"survey of {date(results.parts[0].started)}, kept with Oscope"
    write_bytes(elsewhere.STORED, elsewhere.to_json(results, source).encode())
    print(elsewhere.STORED)


if __name__ == "__main__":
    main(sys.argv[1])
