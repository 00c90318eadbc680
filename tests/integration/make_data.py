#!/usr/bin/python3
"""Writes small IDX files for tests: the first samples of Fashion-MNIST, as jobs.py has them, not compressed.

usage: make_data.py FOLDER [--train 2000] [--validation 500] [--job]
--job writes jobs.py's job.json and model.json beside them.
"""
import argparse
import os
import sys

import jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--validation", type=int, default=500)
    parser.add_argument("--job", action="store_true")
    args = parser.parse_args()
    if not os.path.isdir(jobs.FASHION):
        sys.exit(f"{jobs.FASHION}: not there; install Debian's dataset-fashion-mnist (deploy/install.sh does)")
    os.makedirs(args.folder, exist_ok=True)
    jobs.write_data(args.folder, args.train, args.validation)
    if args.job:
        print(jobs.write_job(args.folder))


if __name__ == "__main__":
    main()
