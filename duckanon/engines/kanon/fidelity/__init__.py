"""What a release still tells of the table that it was made from: distributions, associations, counts, predictions.

A user of a release takes every value of an interval or a set for equally likely, independently in each column. Both
tables are measured by that rule; in the table itself each cell is one value.
"""
