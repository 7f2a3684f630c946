"""The loop that makes plans true, and what drives it.

schedule   which key is worked on next, and when: the rules of the queue
queue      workers and a clock around the schedule
children   read, create, apply and remove a plan's objects
status     what is written into a status
loop       one reconcile of one object
world      what the reconcile of a World reads
universe   what the reconcile of a Universe reads
metrics    the operator's metrics
work       a reconcile as the queue sees it: time limit, log line, metrics
routes     from an event to those it concerns
resync     a look at everything from time to time
lease      which of several operators acts
"""
