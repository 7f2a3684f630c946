"""The view: what the log adds up to, ready to be asked.

memory.py       documents, directories and bodies in memory
"""
