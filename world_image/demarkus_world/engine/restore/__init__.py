"""A store made from another one, up to an entry or a time: the same history, a new incarnation.

survey.py    what is brought over: the source read and verified as far as it is wanted, the witness heard
restore.py   bringing it over: marker, plan, bodies, log, and the entry that ends it
"""
