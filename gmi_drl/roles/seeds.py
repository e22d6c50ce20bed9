"""What GMIs draw from."""

import hashlib

from gmi_drl.config import RunConfig


def seed_of(config: RunConfig, iteration: int, gmi_id: int, purpose: str) -> int:
    """A seed that no other GMI, purpose or point of restart shares."""
    text = f"{config.seed}/{iteration}/{gmi_id}/{purpose}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
