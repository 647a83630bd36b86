"""Several released tables of the same records at once: what they disclose together.

`released` has the tables as data, `truth` the owner's records. `bounds` answers an outsider's question, `audit`
and `disclosure` the owner's. A question goes through `consistency`, then `part` (a junction tree, cut to what matters
for the target). Closed forms come first (`decomposable`, `single`); otherwise `model` writes a `system` in whole
numbers, and `search` bounds its columns by propagation, `knapsacks`, `programs` and branch and bound.
"""
