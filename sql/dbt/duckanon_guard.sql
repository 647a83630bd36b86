{# Every table and view that dbt builds of a model passes duckanon first. These two stand in for dbt-duckdb's macros of
   the same names, and call them. #}

{% macro duckdb__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- do duckanon_judge(model) -%}
  {{ return(dbt.duckdb__create_table_as(temporary, relation, compiled_code, language, **kwargs)) }}
{%- endmacro %}

{% macro duckdb__create_view_as(relation, sql) -%}
  {# (The view of an external model is over its files.) #}
  {%- if model.config.materialized != 'external' -%}
    {%- do duckanon_judge(model) -%}
  {%- endif -%}
  {{ return(dbt.duckdb__create_view_as(relation, sql)) }}
{%- endmacro %}

{# Refuses a model, or warns of it, or says nothing. (A unit test reads made-up rows.) #}
{% macro duckanon_judge(model) %}
  {% if model.resource_type == 'unit_test' %}{{ return('') }}{% endif %}
  {% set reads = [] %}
  {% for id in model.depends_on.nodes %}
    {% set node = graph.nodes[id] if id in graph.nodes else graph.sources.get(id) %}
    {% if node %}{% do reads.append(duckanon_relation(node)) %}{% endif %}
  {% endfor %}
  {% set said = duckanon_ask('_dk_dbt_judge', {
    'run': invocation_id,
    'node': duckanon_node(model),
    'name': model.name,
    'resource_type': model.resource_type,
    'this': duckanon_relation(model),
    'language': model.language | default('sql'),
    'materialized': model.config.materialized,
    'code': model.compiled_code | default(model.raw_code),
    'reads': reads,
  }) %}
  {% for one in said %}{% do exceptions.warn(one) %}{% endfor %}
{% endmacro %}
