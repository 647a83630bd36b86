select tv_news, vote, count(*) / sum(count(*)) over (partition by tv_news) as share
from {{ ref('voters') }}
group by tv_news, vote
