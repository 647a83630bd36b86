{# Stands for what loads your sources: a register of 2,400 people in households, made up, and a list of counties. #}
{% macro load_residents() %}
  create schema if not exists raw;
  create table if not exists raw.residents as
  select i as person, household, 's' || (household // 150) as state, 'c' || (household // 30) as county
  from (select i, (sqrt(2 * i + 0.25) * 17)::int % 600 as household from range(2400) r(i));
  create table if not exists raw.counties as select 's' || (i // 5) as state, 'c' || i as county from range(20) r(i);
{% endmacro %}
