{# Each combination of the quasi-identifiers' values occurs in k records or more. Of a release, `age` stands for its columns
   age_lo and age_hi, or age_set. #}
{% test k_anonymous(model, quasi_identifiers, k=5, unit=none) %}
  {% set released = duckanon_released(model, quasi_identifiers, 'k_anonymous') %}
  select k, records, singletons
  from k_report({{ duckanon_literal(model | string) }}, {{ duckanon_list(released) }}
    {%- if unit is not none %}, unit := {{ duckanon_literal(unit) }}{% endif %})
  where k < {{ k | int }}
{% endtest %}

{# No count of `small` - 1 or less follows from the table of shares by rows within which columns differ. With p, the model is
   such a table as published, of n records; without, it holds the records, or counts in the column `count`. With small: all, no count at all
   may follow. #}
{% test no_disclosed_cells(model, rows, cols, p=none, n=none, digits=none, count=none, small=5) %}
  {% do duckanon_whole(model, 'no_disclosed_cells') %}
  {% set table = duckanon_literal(model | string) ~ ', ' ~ duckanon_list(rows) ~ ', ' ~ duckanon_list(cols) %}
  select *
  {% if p is not none %}
    {% if n is none %}
      {% do exceptions.raise_compiler_error('no_disclosed_cells: with p, say the number of records in n.') %}
    {% endif %}
  from conditional_bounds({{ table }}, {{ duckanon_literal(p) }}, {{ n }}{% if digits is not none %}, digits := {{ digits | int }}{% endif %})
  {% else %}
  from cell_bounds({{ table }}{% if count is not none %}, count := {{ duckanon_literal(count) }}{% endif %})
  {% endif %}
  where disclosed{% if small != 'all' %} and lower between 1 and {{ small | int }} - 1{% endif %}
{% endtest %}

{# The table is protected, and of its population's budget at least `reserve` is left. #}
{% test budget_not_exceeded(model, reserve=0) %}
  {% do duckanon_whole(model, 'budget_not_exceeded') %}
  select 'spent' as problem, spent, remaining
  from privacy_budget()
  where {{ duckanon_this(model) }}
    and (spent > epsilon or remaining < {{ reserve }})
  union all
  select 'not protected', null, null
  where not exists (from privacy_budget() where {{ duckanon_this(model) }})
{% endtest %}

{% macro duckanon_this(model) %}
  {% set label = model.schema ~ '.' ~ model.identifier %}
  {{ return('lower(database) = lower(' ~ duckanon_literal(model.database)
    ~ ') and list_contains(list_transform(tables, lambda one: lower(one)), lower(' ~ duckanon_literal(label) ~ '))') }}
{% endmacro %}

{% macro duckanon_list(names) %}
  {% set quoted = [] %}
  {% for name in ([names] if names is string else names) %}{% do quoted.append(duckanon_literal(name)) %}{% endfor %}
  {{ return('[' ~ quoted | join(', ') ~ ']') }}
{% endmacro %}

{# With `where` or `limit`, dbt hands a query over instead of the table. #}
{% macro duckanon_whole(model, test) %}
  {% if execute and model is string %}
    {% do exceptions.raise_compiler_error(test ~ ' looks at a whole table: leave `where` out of its config.') %}
  {% endif %}
{% endmacro %}

{# The columns that stand for quasi-identifiers in a table: themselves, or those of a release. #}
{% macro duckanon_released(model, names, test) %}
  {% do duckanon_whole(model, test) %}
  {% if not execute %}{{ return([]) }}{% endif %}
  {% set known, found = {}, [] %}
  {% for column in adapter.get_columns_in_relation(model) %}{% do known.update({column.name | lower: column.name}) %}{% endfor %}
  {# (dbt compile: what is not built yet has no columns.) #}
  {% if not known %}{{ return(names) }}{% endif %}
  {% for name in ([names] if names is string else names) %}
    {% set low = name | lower %}
    {% if low in known %}
      {% do found.append(known[low]) %}
    {% elif low ~ '_lo' in known and low ~ '_hi' in known %}
      {% do found.extend([known[low ~ '_lo'], known[low ~ '_hi']]) %}
    {% elif low ~ '_set' in known %}
      {% do found.append(known[low ~ '_set']) %}
    {% else %}
      {% do exceptions.raise_compiler_error(test ~ ': there is no column ' ~ name ~ ' in ' ~ model
        ~ ', nor what a release makes of it (' ~ name ~ '_lo and ' ~ name ~ '_hi, or ' ~ name ~ '_set).') %}
    {% endif %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}
