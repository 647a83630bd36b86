select * from {{ ref('voters') }} where age < 65
