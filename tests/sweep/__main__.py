"""``python -m tests.sweep``: all combinations of family, form, bound and kernel by quadrature.

Each model runs in a process of its own. Results are lines of JSON in the output folder, one file
for each model; what is there already is not run again, and folders of several machines may be put
together with ``--merge``.
"""

import argparse
import re
import sys
import time
from pathlib import Path

from tests.sweep.models import MODELS
from tests.sweep.run import Effort, read_results, run_model, run_models
from tests.sweep.table import failures, summary, table


def main() -> int:
    """Run the command; return whether anything failed."""
    parser = argparse.ArgumentParser("tests.sweep", description=__doc__)
    parser.add_argument("--draws", type=int, default=Effort.draws, help="draws of each chain")
    parser.add_argument("--transitions", type=int, default=Effort.transitions, help="the most")
    parser.add_argument("--share", type=float, default=1.0, help="of the combinations")
    parser.add_argument("--models", default="", help="a pattern of names: family/form")
    parser.add_argument("--pattern", default="", help="one of family/form/bound/moves")
    parser.add_argument("--shard", default="1/1", help="i/n: every n-th model from the i-th on")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="end after that time")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for a combination")
    parser.add_argument("--out", type=Path, default=Path("sweep"), help="folder of the results")
    parser.add_argument("--merge", type=Path, nargs="*", help="folders to report on; runs nothing")
    parser.add_argument("--table", type=Path, help="file for the table, in Markdown")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = dict(draws=given.draws, transitions=given.transitions, share=given.share)
    effort = Effort(**sizes, pattern=given.pattern)
    if given.only:
        run_model(given.only, effort, given.out)
        return 0
    if given.merge is None:
        first, step = map(int, given.shard.split("/"))
        names = [name for name in MODELS if re.search(given.models, name)][first - 1 :: step]
        options = [
            f"--{key}={value}" for key, value in (*sizes.items(), ("pattern", given.pattern))
        ]
        until = time.monotonic() + 60.0 * given.minutes
        run_models(names, options, given.out, given.jobs, until, given.patience)
    folders = given.merge or [given.out]
    results = read_results(sorted(path for each in folders for path in each.glob("*.jsonl")))
    if given.table:
        given.table.write_text(f"{summary(results)}\n\n{table(results)}\n")
    print(table(failures(results)), summary(results), sep="\n\n")
    return bool(failures(results))


sys.exit(main())
