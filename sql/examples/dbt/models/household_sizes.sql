select *
from dp_group_sizes(
  '{{ source("raw", "residents") }}', 'household', ['state', 'county'],
  epsilon := 0.5, max_size := 8
)
