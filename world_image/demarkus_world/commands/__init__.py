"""The commands of `demarkus-world` besides `serve`, one module each, each with one click command.

verify.py     verify: read a whole store and say what was altered
"""
