select *
from k_anonymize(
  '{{ ref("voters") }}', ['age', 'education', 'income'],
  k := 5, categorical := ['education'], drop := ['town', 'tv_news']
)
