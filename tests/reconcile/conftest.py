"""What the tests of the loop share."""

from __future__ import annotations

import pytest

from tests.reconcile.acme import Acme


@pytest.fixture
def acme() -> Acme:
    """A cluster with a namespace and without Worlds."""
    return Acme()
