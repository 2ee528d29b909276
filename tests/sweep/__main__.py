"""``python -m tests.sweep``: all combinations of family, form, bound and kernel by quadrature.

The models of an entry run in a process of their own. Results are lines of JSON in the output
folder, one file for each entry; what is there already is not run again, and folders of several
machines may be put together with ``--merge``.
"""

import argparse
import re
import sys
import time
from pathlib import Path

from tests.sweep.ledger import add_to_ledger, read_ledger
from tests.sweep.models import MODELS
from tests.sweep.run import Effort, journal_of, read_results, run_models, run_processes
from tests.sweep.table import failures, overview, summary, table


def main() -> int:
    """Run the command; return whether anything failed."""
    parser = argparse.ArgumentParser("tests.sweep", description=__doc__)
    parser.add_argument("--draws", type=int, default=Effort.draws, help="draws of each chain")
    parser.add_argument("--transitions", type=int, default=Effort.transitions, help="the most")
    parser.add_argument("--share", type=float, default=1.0, help="of the combinations")
    parser.add_argument("--models", default="", help="a pattern of names: family/form")
    parser.add_argument("--pattern", default="", help="one of family/form/bound/moves")
    parser.add_argument("--shard", default="1/1", help="i/n: every n-th entry from the i-th on")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=1e6, help="end after that time")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for a combination")
    parser.add_argument("--out", type=Path, default=Path("sweep"), help="folder of the results")
    parser.add_argument("--merge", type=Path, nargs="*", help="folders to report on; runs nothing")
    parser.add_argument("--ledger", type=Path, help="of earlier parts, which are not run again")
    parser.add_argument("--table", type=Path, help="file for the table, in Markdown")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = dict(draws=given.draws, transitions=given.transitions, share=given.share)
    effort = Effort(**sizes, pattern=given.pattern)
    names = [name for name in MODELS if re.search(given.models, name)]
    if given.only:
        own = [name for name in names if name.startswith(f"{given.only}/")]
        known = read_ledger(given.ledger) if given.ledger else []
        run_models(own, effort, journal_of(given.out, given.only), known)
        return 0
    if given.merge is None:
        first, step = map(int, given.shard.split("/"))
        groups = list(dict.fromkeys(name.split("/")[0] for name in names))[first - 1 :: step]
        patterns = {"models": given.models, "pattern": given.pattern}
        ledger = {"ledger": given.ledger} if given.ledger else {}
        options = [f"--{key}={value}" for key, value in {**sizes, **patterns, **ledger}.items()]
        until = time.monotonic() + 60.0 * given.minutes
        run_processes(groups, options, given.out, given.jobs, until, given.patience)
    folders = given.merge or [given.out]
    results = read_results(sorted(path for each in folders for path in each.glob("*.jsonl")))
    if given.table:
        parts = summary(results), overview(results), table(results)
        given.table.write_text("\n\n".join(parts) + "\n")
    print(table(failures(results)), summary(results), sep="\n\n")
    if given.ledger:
        add_to_ledger(given.ledger, results)
        whole = read_ledger(given.ledger)
        print("with earlier parts", overview(whole), summary(whole), sep="\n\n")
    return bool(failures(results))


sys.exit(main())
