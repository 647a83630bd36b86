-- PostgreSQL's functions about catalogs, for the in-memory instance that answers catalog queries. What PostgreSQL would
-- tell of definitions, comments, defaults, sizes and other people is NULL or nothing here. A function that is not in this
-- file, nor in the short list of DuckDB's own in catalog_query.py, is refused.
--
-- :user, :owner (of everything), :database, :version, :settings (by name), :spelled (types by number) and :writes (whether this user changes
-- tables) are filled in as constants.

-- Who and where
CREATE MACRO dk_version() AS :version;
CREATE MACRO dk_current_database() AS :database;
CREATE MACRO dk_current_catalog() AS :database;
CREATE MACRO dk_current_user() AS :user;
CREATE MACRO dk_session_user() AS :user;
CREATE MACRO dk_current_role() AS :user;
CREATE MACRO dk_current_schema() AS 'main';
CREATE MACRO current_schemas(implicit) AS CASE WHEN implicit THEN ['pg_catalog', 'main'] ELSE ['main'] END;
-- The session's own number is set on its connection.
CREATE MACRO pg_backend_pid() AS coalesce(getvariable('process'), 0)::INTEGER;
CREATE MACRO pg_my_temp_schema() AS 0::UINTEGER;
CREATE MACRO pg_is_other_temp_schema(namespace) AS false;
CREATE MACRO pg_is_in_recovery() AS false;
CREATE MACRO pg_postmaster_start_time() AS NULL::TIMESTAMP;
CREATE MACRO pg_conf_load_time() AS NULL::TIMESTAMP;
CREATE MACRO txid_current() AS 1::BIGINT;
CREATE MACRO inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO inet_server_port() AS NULL::INTEGER;
CREATE MACRO inet_client_addr() AS NULL::VARCHAR;
CREATE MACRO inet_client_port() AS NULL::INTEGER;
CREATE MACRO pg_get_userbyid(role) AS CASE role WHEN 10 THEN :owner WHEN 16384 THEN :user ELSE 'unknown (OID=' || role || ')' END;
CREATE MACRO pg_advisory_unlock_all() AS NULL::VARCHAR;
CREATE MACRO current_query() AS NULL::VARCHAR;
CREATE MACRO pg_blocking_pids(process) AS []::INTEGER[];
CREATE MACRO pg_current_xact_id_if_assigned() AS NULL::VARCHAR;
CREATE MACRO txid_current_if_assigned() AS NULL::BIGINT;
CREATE MACRO pg_jit_available() AS false;
CREATE MACRO pg_trigger_depth() AS 0::INTEGER;

-- Replication: there is none
CREATE MACRO pg_is_wal_replay_paused() AS false;
CREATE MACRO pg_current_wal_lsn() AS NULL::VARCHAR;
CREATE MACRO pg_current_wal_insert_lsn() AS NULL::VARCHAR;
CREATE MACRO pg_current_wal_flush_lsn() AS NULL::VARCHAR;
CREATE MACRO pg_last_wal_receive_lsn() AS NULL::VARCHAR;
CREATE MACRO pg_last_wal_replay_lsn() AS NULL::VARCHAR;
CREATE MACRO pg_last_xact_replay_timestamp() AS NULL::TIMESTAMP WITH TIME ZONE;
CREATE MACRO pg_wal_lsn_diff(lsn, other) AS NULL::BIGINT;
CREATE MACRO pg_walfile_name(lsn) AS NULL::VARCHAR;

-- Settings
CREATE MACRO current_setting(named) AS map_extract(:settings, lower(named))[1], (named, missing_ok) AS map_extract(:settings, lower(named))[1];
CREATE MACRO set_config(named, value, is_local) AS value::VARCHAR;

-- Encodings
CREATE MACRO pg_encoding_to_char(encoding) AS CASE encoding WHEN 6 THEN 'UTF8' ELSE '' END;
CREATE MACRO pg_char_to_encoding(encoding) AS CASE upper(encoding) WHEN 'UTF8' THEN 6 ELSE -1 END;
CREATE MACRO pg_client_encoding() AS 'UTF8';
CREATE MACRO getdatabaseencoding() AS 'UTF8';

-- Names and types
CREATE MACRO pg_table_is_visible(relation) AS EXISTS (SELECT 1 FROM pg.pg_class AS one WHERE one.oid = relation AND one.relnamespace IN (2200, 11));
CREATE MACRO row_security_active(relation) AS EXISTS (SELECT 1 FROM pg.pg_class AS one WHERE one.oid = relation AND one.relrowsecurity);
CREATE MACRO pg_type_is_visible(type) AS true;
CREATE MACRO pg_function_is_visible(function) AS true;
CREATE MACRO pg_operator_is_visible(operator) AS true;
CREATE MACRO pg_collation_is_visible(collation_oid) AS true;
CREATE MACRO pg_conversion_is_visible(conversion) AS true;
CREATE MACRO pg_opclass_is_visible(opclass) AS true;
CREATE MACRO pg_opfamily_is_visible(opfamily) AS true;
CREATE MACRO pg_statistics_obj_is_visible(statistics) AS true;
CREATE MACRO pg_ts_config_is_visible(config) AS true;
CREATE MACRO pg_ts_dict_is_visible(dictionary) AS true;
CREATE MACRO pg_ts_parser_is_visible(parser) AS true;
CREATE MACRO pg_ts_template_is_visible(template) AS true;
CREATE MACRO dk_type_name(type) AS map_extract(:spelled, type::UINTEGER)[1];
CREATE MACRO format_type(type, modifier) AS CASE
  WHEN type IS NULL THEN NULL
  WHEN dk_type_name(type) IS NULL THEN '???'
  WHEN type = 1700 AND modifier > 3 THEN 'numeric(' || ((modifier - 4) >> 16) || ',' || ((modifier - 4) & 65535) || ')'
  WHEN type = 1231 AND modifier > 3 THEN 'numeric(' || ((modifier - 4) >> 16) || ',' || ((modifier - 4) & 65535) || ')[]'
  ELSE dk_type_name(type) END;
CREATE MACRO dk_quoted(name) AS CASE
  WHEN regexp_full_match(name, '[a-z_][a-z0-9_$]*') THEN name ELSE '"' || replace(name, '"', '""') || '"' END;
CREATE MACRO dk_class_name(relation) AS (
  SELECT min(CASE WHEN one.relnamespace IN (2200, 11) THEN '' ELSE dk_quoted(two.nspname) || '.' END || dk_quoted(one.relname))
  FROM pg.pg_class AS one JOIN pg.pg_namespace AS two ON two.oid = one.relnamespace WHERE one.oid = relation);
CREATE MACRO dk_namespace_name(namespace) AS (SELECT min(one.nspname) FROM pg.pg_namespace AS one WHERE one.oid = namespace);
CREATE MACRO dk_find_regclass(said) AS (
  SELECT min(one.oid) FROM pg.pg_class AS one JOIN pg.pg_namespace AS two ON two.oid = one.relnamespace
  WHERE lower(replace(said, '"', '')) IN (lower(one.relname), lower(two.nspname || '.' || one.relname)));
CREATE MACRO dk_find_regnamespace(said) AS (
  SELECT min(one.oid) FROM pg.pg_namespace AS one WHERE lower(one.nspname) = lower(replace(said, '"', '')));
CREATE MACRO dk_find_regtype(said) AS (
  SELECT min(one.oid) FROM pg.pg_type AS one WHERE one.typname = regexp_replace(replace(said, '"', ''), '^pg_catalog\.', ''));
CREATE MACRO bpchar(value) AS value::VARCHAR;
-- Of moments; the zone is always UTC.
CREATE MACRO to_char(moment, form) AS
  replace(replace(replace(replace(replace(replace(replace(replace(form, 'YYYY', strftime(moment::TIMESTAMP, '%Y')), 'MM', strftime(moment::TIMESTAMP, '%m')), 'DD', strftime(moment::TIMESTAMP, '%d')), 'HH24', strftime(moment::TIMESTAMP, '%H')), 'HH12', strftime(moment::TIMESTAMP, '%I')), 'MI', strftime(moment::TIMESTAMP, '%M')), 'SS', strftime(moment::TIMESTAMP, '%S')), 'TZ', 'UTC');
CREATE MACRO encode(bytes, form) AS CASE form WHEN 'hex' THEN lower(hex(bytes)) ELSE bytes::VARCHAR END;
CREATE MACRO quote_ident(name) AS dk_quoted(name::VARCHAR);
CREATE MACRO quote_literal(value) AS '''' || replace(value::VARCHAR, '''', '''''') || '''';
CREATE MACRO parse_ident(said) AS list_transform(regexp_extract_all(said, '"[^"]*"|[^.]+'),
  lambda one: CASE WHEN starts_with(one, '"') THEN trim(one, '"') ELSE lower(one) END);
CREATE MACRO information_schema_precision(type, modifier) AS CASE type
  WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
  WHEN 1700 THEN CASE WHEN modifier > 3 THEN (modifier - 4) >> 16 END END;

-- Definitions and sizes: told of nothing. Comments: that numbers get noise
CREATE MACRO obj_description(object) AS NULL::VARCHAR, (object, catalog_name) AS CASE catalog_name::VARCHAR
  WHEN 'pg_class' THEN (SELECT description FROM pg.pg_description WHERE objoid = object AND objsubid = 0) END;
CREATE MACRO shobj_description(object, catalog_name) AS NULL::VARCHAR;
CREATE MACRO col_description(relation, place) AS
  (SELECT description FROM pg.pg_description WHERE objoid = relation AND objsubid = place);
CREATE MACRO pg_get_expr(expression, relation) AS NULL::VARCHAR, (expression, relation, pretty) AS NULL::VARCHAR;
CREATE MACRO pg_get_constraintdef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg_get_viewdef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg_get_ruledef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg_get_triggerdef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg_get_indexdef(object) AS NULL::VARCHAR, (object, place, pretty) AS NULL::VARCHAR;
CREATE MACRO pg_get_functiondef(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_result(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_arguments(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_identity_arguments(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_sqlbody(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_statisticsobjdef(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_statisticsobjdef_columns(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_serial_sequence(relation, column_name) AS NULL::VARCHAR;
CREATE MACRO pg_get_partkeydef(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_partition_constraintdef(object) AS NULL::VARCHAR;
CREATE MACRO pg_describe_object(catalog_oid, object, sub) AS NULL::VARCHAR;
CREATE MACRO pg_tablespace_location(object) AS '';
CREATE MACRO pg_relation_is_publishable(object) AS false;
CREATE MACRO pg_relation_size(object) AS NULL::BIGINT, (object, fork) AS NULL::BIGINT;
CREATE MACRO pg_total_relation_size(object) AS NULL::BIGINT;
CREATE MACRO pg_table_size(object) AS NULL::BIGINT;
CREATE MACRO pg_indexes_size(object) AS NULL::BIGINT;
CREATE MACRO pg_database_size(object) AS NULL::BIGINT;
CREATE MACRO pg_tablespace_size(object) AS NULL::BIGINT;
CREATE MACRO pg_size_pretty(size) AS size::VARCHAR || ' bytes';
CREATE MACRO pg_stat_get_numscans(object) AS NULL::BIGINT;
CREATE MACRO pg_stat_get_live_tuples(object) AS NULL::BIGINT;
CREATE MACRO pg_stat_get_dead_tuples(object) AS NULL::BIGINT;
CREATE MACRO pg_sequence_last_value(object) AS NULL::BIGINT;
CREATE MACRO pg_sequence_parameters(object) AS NULL::VARCHAR;
CREATE MACRO pg_get_function_arg_default(object, place) AS NULL::VARCHAR;
CREATE MACRO pg_index_column_has_property(object, place, property) AS NULL::BOOLEAN;
CREATE MACRO pg_index_has_property(object, property) AS NULL::BOOLEAN;
CREATE MACRO pg_indexam_has_property(method, property) AS NULL::BOOLEAN;
CREATE MACRO pg_collation_actual_version(object) AS NULL::VARCHAR;
CREATE MACRO pg_database_collation_actual_version(object) AS NULL::VARCHAR;
CREATE MACRO pg_relation_filenode(object) AS NULL::UINTEGER;
CREATE MACRO acldefault(kind, role) AS NULL::VARCHAR[];
CREATE MACRO age(transaction_id) AS 0::INTEGER;

-- Privileges: a user of the server reads what the catalog lists. Stewards also change it.
CREATE MACRO dk_may(privilege) AS :writes OR upper(privilege) IN ('SELECT', 'USAGE', 'CONNECT', 'EXECUTE', 'TEMP', 'TEMPORARY', 'MEMBER');
CREATE MACRO has_table_privilege(relation, privilege) AS dk_may(privilege), (role, relation, privilege) AS dk_may(privilege);
CREATE MACRO has_any_column_privilege(relation, privilege) AS dk_may(privilege), (role, relation, privilege) AS dk_may(privilege);
CREATE MACRO has_column_privilege(relation, place, privilege) AS dk_may(privilege), (role, relation, place, privilege) AS dk_may(privilege);
CREATE MACRO has_schema_privilege(namespace, privilege) AS dk_may(privilege), (role, namespace, privilege) AS dk_may(privilege);
CREATE MACRO has_database_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO has_function_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO has_sequence_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO has_type_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO has_language_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO has_server_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO has_foreign_data_wrapper_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO has_parameter_privilege(object, privilege) AS false, (role, object, privilege) AS false;
CREATE MACRO has_tablespace_privilege(object, privilege) AS dk_may(privilege), (role, object, privilege) AS dk_may(privilege);
CREATE MACRO pg_has_role(role, privilege) AS true, (role, other, privilege) AS true;

-- Arrays
CREATE MACRO array_upper(list, dimension) AS nullif(len(list), 0)::INTEGER;
CREATE MACRO array_lower(list, dimension) AS CASE WHEN len(list) > 0 THEN 1::INTEGER END;
CREATE MACRO array_ndims(list) AS CASE WHEN len(list) > 0 THEN 1::INTEGER END;
CREATE MACRO cardinality(list) AS len(list)::INTEGER;
CREATE MACRO array_remove(list, element) AS list_filter(list, lambda one: one IS DISTINCT FROM element);
CREATE MACRO dk_numbered(list) AS list_transform(list, lambda one, place: {'x': one, 'n': place});
CREATE MACRO dk_subscripts(list) AS range(1, len(list) + 1);
CREATE MACRO array_to_json(list) AS to_json(list);
