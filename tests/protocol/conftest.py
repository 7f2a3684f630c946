"""How thoroughly the wire's properties are tried."""

from hypothesis import settings

settings.register_profile("wire", max_examples=200, deadline=None)
settings.load_profile("wire")
