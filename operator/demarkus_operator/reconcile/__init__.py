"""The loop that makes plans true, and what drives it.

schedule   which key is worked on next, and when: the rules of the queue
queue      workers and a clock around the schedule
observe    what is there of a World or Universe, by lists and by name
children   create, apply and remove a plan's objects
release    letting go of a World's bucket before the World goes
finalizer  what keeps an object until what is outside the cluster was let go of
status     what is written into a status
events     what is told of a status that changed
loop       one reconcile of one object
concern    from a kind to what its reconcile needs
world      what makes it the reconcile of a World
universe   what makes it the reconcile of a Universe
metrics    the operator's metrics
work       a reconcile as the queue sees it: time limit, log line, metrics
routes     from an event to those it concerns
survey     one look at the whole cluster, packed
resync     when to look at everything, and how fast
lease      which of several operators acts
"""
