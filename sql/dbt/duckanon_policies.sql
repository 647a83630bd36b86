{# on-run-start and on-run-end: applies what the project's `meta` says of its sources, seeds, snapshots and models. At the end
   it checks the columns of those that were built, and begins editions that are due. #}
{% macro duckanon_policies() %}
  {# (dbt compile and its like render the hooks, and run none of them.) #}
  {% if execute and flags.WHICH not in ['compile', 'generate', 'list', 'show'] %}
    {% set nodes = [] %}
    {% for node in (graph.nodes.values() | list) + (graph.sources.values() | list) %}
      {% if node.resource_type in ['model', 'seed', 'snapshot', 'source'] %}
        {% set told = duckanon_node(node) %}
        {% if '"duckanon"' in tojson(told) %}{% do nodes.append(told) %}{% endif %}
      {% endif %}
    {% endfor %}
    {% set built = [] %}
    {% for one in results | default([]) if one.status == 'success' %}
      {% do built.append(one.node.unique_id) %}
    {% endfor %}
    {% set said = duckanon_ask('_dk_dbt_policies', {
      'run': invocation_id, 'nodes': nodes, 'built': built, 'ended': results is defined,
      'builds': flags.WHICH in ['build', 'run', 'seed', 'snapshot']
    }) %}
    {% for one in said %}{% do log('duckanon: ' ~ one, info=True) %}{% endfor %}
    {% if results is defined %}
      {% for one in duckanon_ask('_dk_dbt_copied', {}) %}
        {% if one.warns %}{% do exceptions.warn(one.text) %}{% else %}{% do log('duckanon: ' ~ one.text, info=True) %}{% endif %}
      {% endfor %}
    {% endif %}
    {# Table functions are built by no macro that could be stood in for. #}
    {% for node in graph.nodes.values() if node.unique_id in selected_resources and node.config.materialized == 'table_function' %}
      {% do duckanon_judge(node) %}
    {% endfor %}
  {% endif %}
{% endmacro %}

{# dbt run-operation duckanon_unprotect --args '{name: people}': ends a table's policy. #}
{% macro duckanon_unprotect(name) %}
  {% set found = [] %}
  {% for node in (graph.nodes.values() | list) + (graph.sources.values() | list) if node.name == name %}
    {% if node.resource_type in ['model', 'seed', 'snapshot', 'source'] %}{% do found.append(node) %}{% endif %}
  {% endfor %}
  {% if found | length != 1 %}
    {% do exceptions.raise_compiler_error('There is not exactly one model, seed, snapshot or source named ' ~ name ~ '.') %}
  {% endif %}
  {% set table = duckanon_quoted(duckanon_relation(found[0])) %}
  {% do log('duckanon: ' ~ run_query('select unprotect(' ~ duckanon_literal(table) ~ ')').columns[0].values()[0], info=True) %}
{% endmacro %}

{# What duckanon needs to know of a node. #}
{% macro duckanon_node(node) %}
  {% set columns = {} %}
  {% for name, column in (node.columns | default({})).items() %}
    {% do columns.update({name: {'name': column.name, 'meta': column.meta, 'config': {'meta': (column.config or {}).get('meta')}}}) %}
  {% endfor %}
  {% set file = 'external_location' in (node.meta or {}) or 'external_location' in (node.source_meta or {}) %}
  {{ return({
    'unique_id': node.unique_id,
    'resource_type': node.resource_type,
    'name': node.name,
    'relation': duckanon_relation(node),
    'meta': node.meta,
    'config': {'meta': node.config.meta},
    'columns': columns,
    'file': file,
    'materialized': node.config.materialized | default(none),
  }) }}
{% endmacro %}

{# Database, schema and identifier: what stands in the ledger. #}
{% macro duckanon_relation(node) %}
  {{ return([node.database, node.schema, node.identifier or node.alias or node.name]) }}
{% endmacro %}

{% macro duckanon_quoted(parts) %}
  {% set quoted = [] %}
  {% for part in parts %}{% do quoted.append('"' ~ (part | replace('"', '""')) ~ '"') %}{% endfor %}
  {{ return(quoted | join('.')) }}
{% endmacro %}

{% macro duckanon_literal(text) %}
  {{ return("'" ~ (text | replace("'", "''")) ~ "'") }}
{% endmacro %}

{# Asks a function of the plugin's. What is wrong becomes dbt's error; else gives what it said. #}
{% macro duckanon_ask(function, given) %}
  {% call statement('duckanon', fetch_result=True, auto_begin=False) -%}
    select {{ function }}({{ duckanon_literal(tojson(given)) }})
  {%- endcall %}
  {% set answer = fromjson(load_result('duckanon').table.columns[0].values()[0]) %}
  {% if answer.problem %}{% do exceptions.raise_compiler_error(answer.problem) %}{% endif %}
  {{ return(answer.said) }}
{% endmacro %}
