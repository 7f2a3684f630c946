"""A strict stand-in for Google Cloud Storage, because the real one can't be had in tests.

It keeps to the JSON API where our drivers and the operator rely on it: generations and every precondition on every
call, CRC32C checked on upload and told on download, strong consistency, listing by UTF-8 order, bucket
administration with metagenerations and IAM etags. What it does not know it refuses with 400 or 501, so that a
silently ignored parameter can't hide in a test. Faults are switched on from outside.

state       buckets and objects, preconditions: a plain value, no network
faults      which calls fail, and how: refused, answered wrongly, cut, torn, late
server      the HTTP side
process     the stand-in as a process of its own, started and driven from a test
__main__    `python -m dev.gcs --port 0`: one process that prints its address
"""
