"""S3 for the Redshift stand-in, as moto imitates it, with the bucket of the trial installation. It keeps nothing when it ends.

python s3.py ADDRESS PORT BUCKET

Pipelines load Redshift by COPY of files in S3, which they delete after each merge: so nothing is lost with them.
"""

from __future__ import annotations

import signal
import sys

import boto3
from moto.server import ThreadedMotoServer


def main(address: str, port: str, bucket: str) -> None:
    """Serve until the process is terminated."""
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before the server's thread begins, which inherits it
    server = ThreadedMotoServer(address, int(port))
    server.start()
    boto3.client("s3").create_bucket(Bucket=bucket)
    signal.sigwait(ends)
    server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
