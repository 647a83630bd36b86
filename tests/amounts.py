"""How many random examples a test tries."""

import os


def many(examples: int) -> int:
    """`examples`, or a tenth of them in the profile `quick`, which is for a second run with other versions."""
    return examples // 10 if os.environ.get("HYPOTHESIS_PROFILE") == "quick" else examples
