"""Run a comparison on a SLURM cluster: one job for each worker, as many as you ask for, until all
trials are done.

    pip install "seq2attn[dask]" dask-jobqueue
    python examples/slurm.py --jobs 20 --queue short --walltime 02:00:00 -- \\
        -c configs/scaled.yaml --vary seed=1-100 --runs-dir /shared/runs

What follows `--` is given to `seq2attn compare`. Start it where jobs can be submitted and left
running, such as in tmux on a login node. If it ends, for whatever reason, the same command
continues.
"""

from __future__ import annotations

import argparse
import sys

from seq2attn.cli import main


def parse() -> argparse.Namespace:
    """The options of this script, and the arguments of `compare`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jobs", type=int, required=True, metavar="N", help="workers, a SLURM job each"
    )
    parser.add_argument("--queue", metavar="NAME", help="the partition")
    parser.add_argument("--account", metavar="NAME")
    parser.add_argument(
        "--walltime", default="04:00:00", metavar="HH:MM:SS", help="of a job; trials outlive it"
    )
    parser.add_argument("--memory", default="4GB", help="of a job")
    parser.add_argument(
        "--extra", action="append", default=[], metavar="DIRECTIVE", help="another line of #SBATCH"
    )
    parser.add_argument(
        "compare", nargs="+", metavar="ARGUMENT", help="of seq2attn compare, after --"
    )
    return parser.parse_args()


def run() -> None:
    """Start the workers' jobs, and run the comparison on them."""
    from dask_jobqueue import SLURMCluster

    options = parse()
    hours, minutes, seconds = map(int, options.walltime.split(":"))
    lifetime = max(
        60, 3600 * hours + 60 * minutes + seconds - 300
    )  # workers save and leave before SLURM kills them
    with SLURMCluster(
        queue=options.queue,
        account=options.account,
        walltime=options.walltime,
        cores=1,  # one thread each
        processes=1,
        memory=options.memory,
        job_extra_directives=options.extra,
        worker_extra_args=["--lifetime", f"{lifetime}s", "--lifetime-stagger", "120s"],
        log_directory="slurm-logs",
    ) as cluster:
        cluster.adapt(
            minimum_jobs=options.jobs, maximum_jobs=options.jobs
        )  # a job that ends is replaced
        where = ["--executor", f"dask:{cluster.scheduler_address}", "--workers", str(options.jobs)]
        sys.argv = ["seq2attn", "compare", *options.compare, *where]
        main()


if __name__ == "__main__":
    run()
